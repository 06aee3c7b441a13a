package poller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRoundTransmitsFirstRotatesAndKicks(t *testing.T) {
	r := newRig(t, nil)
	var log []string
	for _, name := range []string{"a", "b", "c"} {
		r.receive(&ring{name: name, log: &log}, ReceiverConfig{})
	}
	r.transmit(&box{name: "x", log: &log})
	r.transmit(&box{name: "y", log: &log})

	for _, order := range [][]string{{"rx b", "rx c", "rx a"}, {"rx c", "rx a", "rx b"}, {"rx a", "rx b", "rx c"}, {"rx b", "rx c", "rx a"}} {
		log = log[:0]
		r.Round(0)
		require.Equal(t, append(append([]string{"tx x", "tx y"}, order...), "kick x", "kick y"), log)
	}
}

func TestEveryTurnEndsByOneName(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Quota = 10 })
	sink := &box{name: "out"}
	src := &ring{name: "in", sink: sink}
	id := r.receive(src, ReceiverConfig{})
	r.queue(sink, QueueConfig{Capacity: 32, High: 24, Low: 8, Timeout: time.Millisecond})

	src.waiting = 5
	r.step(time.Microsecond)
	require.EqualValues(t, 1, r.status(id).Counters.Turns[EndEmpty])

	src.waiting = 40
	r.step(time.Microsecond)
	require.EqualValues(t, 1, r.status(id).Counters.Turns[EndQuota])
	require.Equal(t, 15, sink.n)

	r.step(time.Microsecond)
	require.EqualValues(t, 1, r.status(id).Counters.Turns[EndDownstream])
	require.Equal(t, 24, sink.n, "a turn stops at the high mark")
	require.Equal(t, Feedback, src.gate)

	r.step(time.Microsecond)
	require.EqualValues(t, 1, r.status(id).Counters.Turns[EndGate])

	sink.n, src.refuses = 0, true
	r.step(time.Microsecond)
	require.EqualValues(t, 1, r.status(id).Counters.Turns[EndStopped])

	c := r.status(id).Counters
	var sum uint64
	for _, n := range c.Turns {
		sum += n
	}
	require.Equal(t, r.Counters().Rounds, sum)
	require.EqualValues(t, 24, c.Received)
	require.EqualValues(t, 10, c.LargestTurn)
}

func TestQuotaOfOnesOwn(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Quota = 7 })
	own := &ring{name: "own", waiting: 100}
	common := &ring{name: "common", waiting: 100}
	all := &ring{name: "all", waiting: 1 << 20}
	r.receive(own, ReceiverConfig{Quota: 3})
	r.receive(common, ReceiverConfig{Quota: Common})
	id := r.receive(all, ReceiverConfig{Quota: Unlimited})
	r.step(time.Microsecond)
	require.Equal(t, 97, own.waiting)
	require.Equal(t, 93, common.waiting)
	require.Zero(t, all.waiting)
	require.Equal(t, math.MaxInt32, r.status(id).Quota)
}

func TestCreditsNeverExceedTheWindow(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Quota = 10 })
	src := &ring{name: "in", waiting: 25}
	id := r.receive(src, ReceiverConfig{Window: 64})
	r.step(time.Microsecond)
	require.Equal(t, 64, src.granted, "the door opens with a whole window")
	require.Equal(t, 54, r.status(id).Credit)
	r.step(time.Microsecond)
	r.step(time.Microsecond)
	require.Equal(t, 84, src.granted, "what was taken is granted again")
	require.Zero(t, src.waiting)
	require.NoError(t, r.Close(id, Admin))
	r.step(time.Microsecond)
	require.Equal(t, 84, src.granted, "a closed door gets no credit")

	none := &ring{name: "doorless", waiting: 5}
	r.receive(none, ReceiverConfig{})
	r.step(time.Microsecond)
	require.Zero(t, none.granted)
}

func TestOverLimitIsCounted(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Quota = 10 })
	id, err := r.AddReceiver("greedy", greedy{}, ReceiverConfig{Quota: Common, Window: 5})
	require.NoError(t, err)
	r.step(time.Microsecond)
	s := r.status(id)
	require.EqualValues(t, 1, s.Counters.OverLimit)
	require.Zero(t, s.Credit)
}

type greedy struct{}

func (greedy) Receive(max int) (int, bool) { return max + 1, false }
func (greedy) SetGate(Reason)              {}
func (greedy) Grant(int)                   {}

func TestGatesFromOutside(t *testing.T) {
	r := newRig(t, nil)
	src := &ring{name: "in", waiting: 1}
	id := r.receive(src, ReceiverConfig{})
	require.NoError(t, r.Close(id, EgressDown))
	require.NoError(t, r.Close(id, EgressDown|Admin))
	require.Equal(t, EgressDown|Admin, src.gate)
	require.Equal(t, 2, src.changes, "told of changes only")
	require.Equal(t, Block, r.step(time.Microsecond).Do)
	require.NoError(t, r.Open(id, EgressDown))
	require.Equal(t, Block, r.step(time.Microsecond).Do)
	require.NoError(t, r.Open(id, EgressDown), "opening twice is opening once")
	require.NoError(t, r.Open(id, Admin))
	require.Zero(t, src.gate)
	r.step(time.Microsecond)
	require.Zero(t, src.waiting)

	c := r.status(id).Counters
	require.EqualValues(t, 1, c.GateClosed[EgressDown.Index()])
	require.EqualValues(t, 1, c.GateOpened[EgressDown.Index()])
	require.EqualValues(t, 1, c.GateClosed[Admin.Index()])
	require.EqualValues(t, 2*time.Microsecond, c.GateNS[Admin.Index()])

	require.ErrorContains(t, r.Close(id, Feedback), "give screen, egress_down or admin")
	require.Error(t, r.Open(id, 0))
	require.ErrorIs(t, r.Close(77, Admin), ErrNotFound)
}

func TestSourcesComeAndGo(t *testing.T) {
	r := newRig(t, nil)
	var log []string
	a := r.receive(&ring{name: "a", log: &log}, ReceiverConfig{})
	sink := &box{name: "out", n: 30}
	q := r.queue(sink, DefaultQueue(32))
	r.step(time.Microsecond)
	b := &ring{name: "b", waiting: 3, log: &log}
	r.receive(b, ReceiverConfig{})
	require.Equal(t, Feedback, b.gate, "a new source meets the queues that are closed")
	require.NoError(t, r.RemoveQueue(q))
	require.Zero(t, b.gate)
	require.NoError(t, r.RemoveReceiver(a))
	log = log[:0]
	r.step(time.Microsecond)
	require.Equal(t, []string{"rx b"}, log)
	require.ErrorIs(t, r.RemoveReceiver(a), ErrNotFound)
	require.ErrorIs(t, r.RemoveQueue(q), ErrNotFound)

	x := r.transmit(sink)
	require.NoError(t, r.RemoveTransmitter(x))
	require.ErrorIs(t, r.RemoveTransmitter(x), ErrNotFound)
	require.Empty(t, r.Transmitters(nil))
	require.Empty(t, r.Queues(nil))
}

func TestRemovingAnOwnedSourceReleasesIt(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Mode = Poll })
	h := &handle{learned: true}
	id := r.receive(&ring{name: "in", waiting: 1}, ReceiverConfig{Owner: h})
	r.step(time.Microsecond)
	require.True(t, h.owned)
	require.NoError(t, r.RemoveReceiver(id))
	require.False(t, h.owned)
}

func TestNothingSpinsWithoutProgress(t *testing.T) {
	r := newRig(t, nil)
	src := &ring{name: "in", waiting: 5, refuses: true}
	out := &box{name: "out"}
	r.receive(src, ReceiverConfig{})
	r.transmit(out)

	next := r.step(time.Microsecond)
	require.Equal(t, Sleep, next.Do, "packets wait, nothing can be done: their arrival must not end the wait")
	require.Equal(t, r.now+int64(50*time.Microsecond), next.UntilNS)
	r.wake(50 * time.Microsecond)
	next = r.step(time.Microsecond)
	require.Equal(t, r.now+int64(100*time.Microsecond), next.UntilNS, "less often each time")
	for range 20 {
		r.wake(100 * time.Microsecond)
		next = r.step(time.Microsecond)
	}
	require.Equal(t, r.now+int64(10*time.Millisecond), next.UntilNS)

	src.refuses = false
	require.Equal(t, Block, r.step(time.Microsecond).Do)
	out.pending = true
	next = r.step(time.Microsecond)
	require.Equal(t, Next{Block, r.now + int64(50*time.Microsecond)}, next, "progress starts it again")
	out.pending = false
	require.Equal(t, Next{Block, math.MaxInt64}, r.step(time.Microsecond))
}

func TestClockThatGoesBack(t *testing.T) {
	r := newRig(t, nil)
	r.receive(&ring{name: "in"}, ReceiverConfig{})
	r.Round(1000)
	r.Settle(900, 0)
	require.EqualValues(t, 1, r.Counters().ClockBackwards)
	require.Zero(t, r.Counters().WaitedNS)
	r.Woke(950)
	require.EqualValues(t, 2, r.Counters().ClockBackwards)
}
