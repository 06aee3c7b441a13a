package bench

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

// labNice lets a thread of the lab that sleeps nearly always run at once when it is due, although the generator never gives its CPU up.
//
// It is no real-time thread. One at SCHED_FIFO that made thousands of system calls per second was seen to spin for 0.95 s, all that the
// kernel grants such threads, while nothing else ran on the CPU (Go 1.26; collecting garbage was not it). Presumably it waited for a
// thread of Go's runtime that it kept from running; at this rank it does not happen.
const labNice = -20

// onTime runs f on a thread of its own on the generator's CPU, before the ordinary threads there. f must sleep most of the time.
func onTime(f func() error) error {
	return OnCPU(generatorCPU, func() error {
		if err := napi.SetThreadRank(unix.Gettid(), napi.Rank{Policy: unix.SCHED_NORMAL, Nice: labNice}); err != nil {
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
