package engine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// LeaveWorkers moves every other thread of this process off the workers' CPUs, where it may use others: the runtime's own threads wake
// thousands of times a second, and each time a worker waits. Threads that are made later inherit it. It is for a process that is a
// router and nothing else; nothing undoes it.
func (e *Engine) LeaveWorkers() error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("read this process's CPU affinity: %w", err)
	}
	var workers []int
	for _, w := range e.workers {
		set.Clear(w.cpu)
		workers = append(workers, int(w.driver.tid.Load()))
	}
	if set.Count() == 0 {
		return nil
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return fmt.Errorf("list this process's threads: %w: is /proc mounted?", err)
	}
	var errs []error
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil || slices.Contains(workers, tid) {
			continue
		}
		if err := unix.SchedSetaffinity(tid, &set); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("move thread %d off the workers' CPUs: %w", tid, err))
		}
	}
	return errors.Join(errs...)
}
