package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A source that is owned and brings a packet or two at a time is not polled without end, and given back before long.
func TestCalm(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Own.Gather = 16 })
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	require.True(t, h.owned)

	packets := func(n int) Next {
		src.waiting = n
		return r.step(us)
	}
	require.Equal(t, Again, packets(16).Do, "enough for the next look at once")
	next := packets(15)
	require.Equal(t, Next{Block, r.now + int64(50*us)}, next, "less: more may gather")

	// A turn of a quarter of that in each Calm keeps it owned.
	for range 5 {
		packets(4)
		require.True(t, h.owned)
		r.now += int64(9 * ms)
		packets(3)
		require.True(t, h.owned)
	}
	require.Zero(t, r.status(id).Counters.Moves[MoveReleasedCalm])
	for begin := r.now; h.owned; r.now += int64(500 * us) {
		packets(3)
		require.Less(t, r.now-begin, int64(20*time.Millisecond))
	}
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleasedCalm])
	require.Zero(t, r.status(id).Counters.Moves[MoveReleasedDrained])
}

// In mode poll nothing is given back for want of packets.
func TestCalmInModePoll(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Own.Gather, c.Mode = 16, Poll })
	src, h := &ring{name: "in"}, &handle{learned: true}
	r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 1)
	require.True(t, h.owned)
	for range 100 {
		src.waiting = 1
		r.step(ms)
		require.True(t, h.owned)
	}
}
