package poller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWatchdogSeesReceiveWithoutDelivery(t *testing.T) {
	r := newRig(t, nil)
	out := &box{name: "out"}
	src := &ring{name: "in", waiting: 1 << 30, sink: out}
	r.receive(src, ReceiverConfig{})
	r.transmit(out)
	window := func() {
		for end := r.now + int64(time.Second); r.now <= end; {
			r.step(10 * ms)
		}
	}
	window()
	require.True(t, r.Livelock())
	require.True(t, r.Counters().LivelockNow)
	window()
	require.EqualValues(t, 1, r.Counters().LivelockEpisodes, "one episode is told once")
	require.GreaterOrEqual(t, r.Counters().LivelockWindows, uint64(2))
	out.rate = 1
	window()
	window()
	require.False(t, r.Livelock())
	require.False(t, r.Counters().LivelockNow)
}

// What is seen must not be said for longer than it lasts, though nothing more
// happens.
func TestWatchdogSeesTheEndOfWhatItSaw(t *testing.T) {
	r := newRig(t, nil)
	out := &box{name: "out"}
	src := &ring{name: "in", waiting: 1 << 30, sink: out}
	r.receive(src, ReceiverConfig{})
	r.transmit(out)
	for !r.Livelock() {
		r.step(10 * ms)
	}
	begun := r.now
	src.waiting, out.rate = 1, 1<<30
	next := r.step(us)
	require.Equal(t, Next{Block, begun + int64(time.Second)}, next)
	require.True(t, r.Livelock(), "not before the window is over")
	r.wake(time.Duration(next.UntilNS - r.now))
	require.Equal(t, Next{Block, math.MaxInt64}, r.step(us))
	require.False(t, r.Livelock())
	require.EqualValues(t, 1, r.Counters().LivelockWindows)
}

func TestWatchdogIsQuietWhenEverythingIsDroppedByRule(t *testing.T) {
	r := newRig(t, nil)
	src := &ring{name: "in", waiting: 1 << 30} // no sink
	r.receive(src, ReceiverConfig{})
	r.transmit(&box{name: "out"})
	for range 500 {
		r.step(10 * ms)
	}
	require.False(t, r.Livelock())
	require.Zero(t, r.Counters().LivelockWindows)
}

func TestWatchdogIsQuietWhenIdle(t *testing.T) {
	r := newRig(t, nil)
	r.receive(&ring{name: "in"}, ReceiverConfig{})
	out := &box{name: "out", n: 5}
	r.transmit(out)
	for range 500 {
		r.step(10 * ms)
	}
	require.Zero(t, r.Counters().LivelockWindows, "a stuck egress alone is not livelock")
}
