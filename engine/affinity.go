package engine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// spareProcs is how many of the Go scheduler's processors there are beside one for each CPU and each worker. A worker that comes back from a
// system call, or was taken off its thread, needs one at once. Where all are with threads that wait for a busy CPU, it waits with them:
// for up to 20 ms, while the devices' rings overflow (docs/adr/0025-spare-processors.md).
const spareProcs = 8

// LeaveWorkers makes this process one that serves its workers. Every other thread is moved off the workers' CPUs, where it may use
// others: the runtime's own threads wake thousands of times a second, and each time a worker waits. Threads that are made later inherit
// it. And the Go scheduler gets processors to spare, GOMAXPROCS, which no change of a cgroup's limit adjusts any more. It is for a process
// that is a router and nothing else; nothing undoes it.
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
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(workers) + spareProcs)
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
