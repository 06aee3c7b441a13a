package bench

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

// labPriority lets a thread of the lab that sleeps nearly always run at once when it is due, although the generator never gives its CPU up.
const labPriority = 1

// onTime runs f on a thread of its own on the generator's CPU, before all ordinary threads there. f must sleep most of the time. Where a
// cpu cgroup allows no real-time threads, it is the nicest one.
func onTime(f func() error) error {
	return OnCPU(generatorCPU, func() error {
		self := unix.Gettid()
		err := napi.SetThreadRank(self, napi.Rank{Policy: unix.SCHED_FIFO, Priority: labPriority})
		if errors.Is(err, unix.EPERM) {
			err = napi.SetThreadRank(self, napi.Rank{Policy: unix.SCHED_NORMAL, Nice: -20})
		}
		if err != nil {
			return fmt.Errorf("raise a thread of the lab above the generator: %w", err)
		}
		return f()
	})
}

// sleepUntil sleeps on the calling thread: a goroutine that sleeps would be woken by a thread that has no such rank.
func sleepUntil(due time.Time) {
	for left := time.Until(due); left > 0; left = time.Until(due) {
		request := unix.NsecToTimespec(left.Nanoseconds())
		if err := unix.Nanosleep(&request, nil); err != nil && err != unix.EINTR {
			return
		}
	}
}
