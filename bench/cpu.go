package bench

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// The generator runs on the first CPU and what is measured on the second, the last that `weir run` chooses by itself on two.
const (
	generatorCPU = 0
	forwarderCPU = 1
)

// OnCPU runs f on a thread of its own, pinned to a CPU; the thread ends with f.
func OnCPU(cpu int, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies with its affinity
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			done <- fmt.Errorf("pin a thread to CPU %d: %w", cpu, err)
			return
		}
		done <- f()
	}()
	return <-done
}
