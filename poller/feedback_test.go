package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var paperQueue = QueueConfig{Capacity: 32, High: 24, Low: 8, Timeout: time.Millisecond}

func TestFeedbackHysteresis(t *testing.T) {
	r := newRig(t, nil)
	sink := &box{name: "out", rate: 1}
	src := &ring{name: "in", waiting: 1000, sink: sink}
	id := r.receive(src, ReceiverConfig{})
	r.transmit(sink)
	q := paperQueue
	q.Timeout = time.Second
	r.queue(sink, q)

	r.step(time.Microsecond)
	require.Equal(t, 24, sink.n)
	require.Equal(t, Feedback, src.gate)
	for sink.n > 9 {
		require.Equal(t, Again, r.step(time.Microsecond).Do, "output goes on")
		require.Equal(t, Feedback, src.gate, "closed until the low mark: %d", sink.n)
	}
	r.step(time.Microsecond)
	require.Equal(t, 24, sink.n, "what drains to the low mark opens before receive has its turn")
	s := r.Queues(nil)[0]
	require.EqualValues(t, 2, s.Counters.Closed)
	require.EqualValues(t, 1, s.Counters.OpenedLow)
	require.True(t, s.Closed)
	require.EqualValues(t, 2, r.status(id).Counters.GateClosed[Feedback.Index()])
}

func TestFeedbackTimeoutOfASlowQueueLetsInOnePacket(t *testing.T) {
	r := newRig(t, nil)
	sink := &box{name: "screen"}
	src := &ring{name: "in", waiting: 1000, sink: sink}
	r.receive(src, ReceiverConfig{})
	r.queue(sink, paperQueue)
	next := r.step(time.Microsecond)
	require.Equal(t, Next{Block, r.now + int64(time.Millisecond)}, next)
	for range 5 {
		sink.n = 23 // one has gone: slow, not stuck
		r.wake(time.Millisecond)
		require.Zero(t, src.gate)
		sink.n = 24
		before := src.waiting
		next = r.step(time.Microsecond)
		require.Equal(t, 1, before-src.waiting)
		require.Equal(t, Block, next.Do)
		require.Equal(t, Feedback, src.gate)
	}
	require.EqualValues(t, 5, r.Queues(nil)[0].Counters.TimedOutSlow)
}

func TestStuckQueueLetsInMoreEachTimeUpToItsSpareRoom(t *testing.T) {
	r := newRig(t, nil)
	sink := &box{name: "screen"}
	src := &ring{name: "in", waiting: 1000, sink: sink}
	r.receive(src, ReceiverConfig{})
	r.queue(sink, paperQueue)
	r.step(time.Microsecond)
	for _, want := range []int{1, 2, 4, 8, 8, 8} {
		r.wake(time.Millisecond)
		before := src.waiting
		r.step(time.Microsecond)
		require.Equal(t, want, before-src.waiting)
	}
	require.EqualValues(t, 6, r.Queues(nil)[0].Counters.TimedOutStuck)
	sink.n = 20 // it moves again
	r.wake(time.Millisecond)
	r.step(time.Microsecond)
	sink.n = 24
	r.wake(time.Millisecond)
	before := src.waiting
	r.step(time.Microsecond)
	require.Equal(t, 1, before-src.waiting)
}

func TestOnlyWhatFeedsTheCongestedQueueIsClosed(t *testing.T) {
	r := newRig(t, nil)
	a, b := &ring{name: "a"}, &ring{name: "b"}
	idA := r.receive(a, ReceiverConfig{})
	idB := r.receive(b, ReceiverConfig{})
	x, y, all := &box{name: "x", n: 30}, &box{name: "y"}, &box{name: "all"}
	qx, qy := paperQueue, paperQueue
	qx.Feeders, qy.Feeders = []ReceiverID{idA}, []ReceiverID{idA, idB}
	r.queue(x, qx)
	r.queue(y, qy)
	r.queue(all, paperQueue)
	r.step(time.Microsecond)
	require.Equal(t, Feedback, a.gate)
	require.Zero(t, b.gate)

	y.n = 24
	r.step(time.Microsecond)
	require.Equal(t, Feedback, b.gate)
	x.n = 0
	r.step(time.Microsecond)
	require.Equal(t, Feedback, a.gate, "y still holds it")
	y.n = 8
	r.step(time.Microsecond)
	require.Zero(t, a.gate)
	require.Zero(t, b.gate)

	all.n = 24
	c := &ring{name: "c"}
	r.step(time.Microsecond)
	r.receive(c, ReceiverConfig{})
	require.Equal(t, Feedback, c.gate, "fed by every source, present and future")
}

func TestSourcesOfOneRoundShareTheRoom(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Quota = 10 })
	sink := &box{name: "out"}
	srcs := make([]*ring, 4)
	for i := range srcs {
		srcs[i] = &ring{name: "in", waiting: 100, sink: sink}
		r.receive(srcs[i], ReceiverConfig{})
	}
	r.queue(sink, paperQueue)
	r.step(time.Microsecond)
	require.Equal(t, 24, sink.n, "10, 10, 4, 0")
	var ends [NumTurnEnds]uint64
	for _, s := range r.Receivers(nil) {
		for e, n := range s.Counters.Turns {
			ends[e] += n
		}
	}
	require.Equal(t, [NumTurnEnds]uint64{EndQuota: 2, EndDownstream: 2}, ends)
}

// A screen that hangs must not stop the other egress for longer than two
// timeouts, though one source feeds both.
func TestHungQueueDoesNotStopTheOther(t *testing.T) {
	r := newRig(t, nil)
	hung, busy := &box{name: "hung"}, &box{name: "busy", rate: 64}
	src := &splitter{to: [2]*box{hung, busy}, capacity: 32}
	_, err := r.AddReceiver("in", src, ReceiverConfig{Quota: Common})
	require.NoError(t, err)
	r.transmit(busy)
	r.queue(hung, paperQueue)
	r.queue(busy, paperQueue)

	var last, longest int64
	sent := src.sent[1]
	for r.now < int64(200*time.Millisecond) {
		next := r.step(20 * time.Microsecond)
		if src.sent[1] > sent {
			longest = max(longest, r.now-last)
			last, sent = r.now, src.sent[1]
		}
		if next.Do != Again {
			r.wake(time.Duration(next.UntilNS - r.now))
		}
	}
	require.LessOrEqual(t, longest, int64(2*time.Millisecond))
	require.Greater(t, sent, 4*150, "half of eight packets each timeout")
	require.Equal(t, 32, hung.n)
}

// splitter never runs dry and sends its packets to two queues in turn.
type splitter struct {
	to       [2]*box
	capacity int
	sent     [2]int
	next     int
}

func (s *splitter) Receive(max int) (int, bool) {
	for range max {
		if b := s.to[s.next]; b.n < s.capacity {
			b.n++
			s.sent[s.next]++
		}
		s.next = 1 - s.next
	}
	return max, true
}
func (s *splitter) SetGate(Reason) {}
func (s *splitter) Grant(int)      {}

func TestStuckQueueLetsInNoMoreThanItsNewSpareRoom(t *testing.T) {
	r := newRig(t, nil)
	sink := &box{name: "screen"}
	src := &ring{name: "in", waiting: 1000, sink: sink}
	r.receive(src, ReceiverConfig{})
	id := r.queue(sink, paperQueue)
	r.step(us)
	for _, want := range []int{1, 2, 4} {
		r.wake(time.Millisecond)
		before := src.waiting
		r.step(us)
		require.Equal(t, want, before-src.waiting)
	}
	require.NoError(t, r.SetQueue(id, QueueConfig{Capacity: 26, High: 24, Low: 8, Timeout: time.Millisecond}))
	r.wake(time.Millisecond)
	before := src.waiting
	r.step(us)
	require.Equal(t, 2, before-src.waiting)
}
