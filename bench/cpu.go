package bench

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// The generator runs on the first CPU and what is measured on the second, the last that `weir run` chooses by itself on two.
const (
	generatorCPU = 0
	forwarderCPU = 1
)

// labCPUs are those two; a trial answers for what happens on each.
var labCPUs = [...]int{generatorCPU, forwarderCPU}

// OnCPU runs f on a thread of its own, pinned to a CPU; the thread ends with f.
func OnCPU(cpu int, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with its affinity
		if err := pinThread(0, cpu); err != nil {
			done <- fmt.Errorf("pin a thread to CPU %d: %w", cpu, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// pinThread pins a thread, 0 for the calling one.
func pinThread(tid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(tid, &set)
}

// PinLab pins every thread of this process to the generator's CPU, for good: the lab must not disturb what it measures, and it must be
// able to demote a real-time kernel thread that has the other CPU to itself. Processes that nettest starts are not concerned.
func PinLab() error {
	var mine unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mine); err != nil {
		return fmt.Errorf("pin the lab: %w", err)
	}
	for _, cpu := range labCPUs {
		if !mine.IsSet(cpu) {
			return fmt.Errorf("CPU %d is not among those this process may use: the lab needs CPUs %v", cpu, labCPUs)
		}
	}
	pinned := map[string]bool{}
	for more := true; more; { // a thread that is made meanwhile inherits from its maker, which may not have been pinned yet
		more = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("pin the lab: %w", err)
		}
		for _, thread := range threads {
			if pinned[thread.Name()] {
				continue
			}
			tid, err := strconv.Atoi(thread.Name())
			if err == nil {
				err = pinThread(tid, generatorCPU)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("pin the lab to CPU %d: %w", generatorCPU, err)
			}
			pinned[thread.Name()] = true
			more = true
		}
	}
	return nil
}
