package poller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const us = time.Microsecond

// busy makes n rounds of a source that is never empty.
func (r *rig) busy(src *ring, n int) (next Next) {
	for range n {
		src.waiting = 1000
		next = r.step(us)
	}
	return next
}

func TestOwnershipLearnsOwnsDrainsAndReleases(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{}
	id := r.receive(src, ReceiverConfig{Owner: h})

	src.waiting = 10
	require.Equal(t, Block, r.step(us).Do)
	require.Equal(t, StateInterrupt, r.status(id).State, "low load stays in interrupt")

	r.busy(src, 3)
	require.Equal(t, StateInterrupt, r.status(id).State)
	r.busy(src, 1)
	require.Equal(t, StateLearning, r.status(id).State, "after four turns with packets left")
	require.Equal(t, 1, h.lessons)

	src.waiting = 1
	next := r.step(us)
	require.Equal(t, Block, next.Do, "nobody spins before the handle is known")
	require.Less(t, next.UntilNS, int64(math.MaxInt64))

	h.learned = true
	r.wake(us)
	r.busy(src, 1)
	require.Equal(t, StateOwned, r.status(id).State)
	require.True(t, h.owned)

	src.waiting = 0
	for range 20 {
		next := r.step(us)
		require.Equal(t, Next{Block, r.now + int64(50*us)}, next, "empty, but not for long enough")
		r.wake(50 * us)
	}
	require.True(t, h.owned)
	require.Equal(t, Again, r.step(us).Do)
	require.False(t, h.owned)
	require.Equal(t, 1, h.drives, "one look into the device after unmasking")
	require.Equal(t, StateReleasing, r.status(id).State)
	require.Equal(t, Next{Block, math.MaxInt64}, r.step(us), "one round looks at the rings, then it may block")
	require.Equal(t, StateInterrupt, r.status(id).State)

	r.wake(ms)
	r.busy(src, 4)
	require.Equal(t, StateOwned, r.status(id).State, "a handle once learned is kept")
	require.Equal(t, 1, h.lessons)

	moves := r.status(id).Counters.Moves
	require.Equal(t, [NumMoves]uint64{MoveLearnStarted: 1, MoveLearnedOwned: 1, MoveReleasedDrained: 1, MoveRestedEmpty: 1, MoveOwnedKnown: 1}, moves)
}

func TestPacketThatComesWhileReleasingIsSeen(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	src.waiting = 0
	for r.status(id).State == StateOwned {
		r.pass(10 * us)
	}
	src.waiting = 1 // Drive brought it to the ring
	require.Equal(t, Block, r.step(us).Do)
	require.Zero(t, src.waiting)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveRestedWork])
}

func TestLearningRetriesGivesUpAndHoldsOff(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	for lesson := 2; lesson <= 5; lesson++ {
		r.now += int64(10 * ms)
		r.busy(src, 1)
		require.Equal(t, lesson, h.lessons)
	}
	r.now += int64(10 * ms)
	r.busy(src, 1)
	require.Equal(t, StateInterrupt, r.status(id).State)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveLearnTimedOut])

	r.busy(src, 100)
	require.Equal(t, 5, h.lessons, "held off")
	r.now += int64(100 * ms)
	r.busy(src, 5)
	require.Equal(t, 6, h.lessons)
}

func TestOwnThatFailsHoldsOffTwiceAsLongEachTime(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true, ownErr: errFake}
	id := r.receive(src, ReceiverConfig{Owner: h})
	held := func() time.Duration {
		refused := r.status(id).Counters.Moves[MoveOwnRefused]
		begin := r.now
		for r.status(id).Counters.Moves[MoveOwnRefused] == refused {
			src.waiting = 1000
			r.step(ms)
		}
		return time.Duration(r.now - begin)
	}
	held()
	require.InDelta(t, 100*ms, held(), float64(8*ms))
	require.InDelta(t, 200*ms, held(), float64(8*ms))
	for range 8 {
		held()
	}
	require.InDelta(t, 10*time.Second, held(), float64(8*ms))

	h.ownErr = nil
	r.now += int64(10 * time.Second)
	r.busy(src, 5)
	require.Equal(t, StateOwned, r.status(id).State)
}

func TestReleaseThatFailsIsDrivenOn(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true, freeErr: errFake}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	src.waiting = 0
	for range 50 {
		next := r.step(10 * us)
		require.Equal(t, Next{Block, r.now + int64(50*us)}, next)
		r.wake(50 * us)
	}
	require.Equal(t, StateOwned, r.status(id).State)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleaseFailed], "the next attempt waits")
	h.freeErr = nil
	r.now += int64(100 * ms)
	r.step(us)
	require.Equal(t, Block, r.step(us).Do)
}

func TestLastingGateGivesReceiveBack(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	require.NoError(t, r.Close(id, EgressDown))
	require.Equal(t, Again, r.step(us).Do)
	require.False(t, h.owned, "the same device carries the host's own packets")
	require.Equal(t, Block, r.step(us).Do)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleasedGate])

	// And while learning.
	h.learned = false
	require.NoError(t, r.Open(id, EgressDown))
	r.busy(src, 4)
	require.Equal(t, StateLearning, r.status(id).State)
	require.NoError(t, r.Close(id, Admin))
	require.Equal(t, Block, r.step(us).Do)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveLearnAbandoned])
}

func TestBoundedGateKeepsReceive(t *testing.T) {
	r := newRig(t, limited(10, true))
	src, h := &ring{name: "in"}, &handle{learned: true}
	r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	require.True(t, h.owned)
	src.waiting = 1000
	require.Equal(t, Next{Sleep, int64(10 * ms)}, r.step(2*ms), "the device drops, at no cost")
	require.True(t, h.owned)
	require.Zero(t, h.drives)
}

func TestNoFramesIsNotDrained(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":   nil,
		"no pause":  func(c *Config) { c.Own.Pause = 0 },
		"mode poll": func(c *Config) { c.Mode = Poll },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change)
			src, h := &ring{name: "in"}, &handle{learned: true}
			r.receive(src, ReceiverConfig{Owner: h})
			r.busy(src, 4)
			src.refuses = true
			for range 50 {
				next := r.step(10 * us)
				require.Equal(t, Next{Sleep, r.now + int64(50*us)}, next, "owned: it looks again soon, and does not give receive back")
				r.wake(50 * us)
			}
			require.True(t, h.owned)
		})
	}
}

func TestDrainReleasesOnlyWhatIsOpen(t *testing.T) {
	r := newRig(t, nil)
	full := &box{name: "full"}
	a, b := &ring{name: "a"}, &ring{name: "b", sink: full}
	ha, hb := &handle{learned: true}, &handle{learned: true}
	r.receive(a, ReceiverConfig{Owner: ha})
	idB := r.receive(b, ReceiverConfig{Owner: hb})
	for range 4 {
		b.waiting = 1000
		r.busy(a, 1)
	}
	require.True(t, ha.owned && hb.owned)
	a.waiting = 0
	q := paperQueue
	q.Timeout, q.Feeders = time.Second, []ReceiverID{idB}
	full.n = 24
	r.queue(full, q)
	for ha.owned {
		require.Less(t, r.now, int64(10*ms), "owned for ever")
		r.pass(10 * us)
	}
	require.Equal(t, Block, r.step(10*us).Do)
	require.True(t, hb.owned, "its gate opens within a bounded time")
}

func TestLost(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	require.NoError(t, r.Lost(id), "nothing to lose")
	r.busy(src, 4)
	h.learned = false
	require.NoError(t, r.Lost(id))
	require.Equal(t, StateInterrupt, r.status(id).State)
	r.busy(src, 4)
	require.Equal(t, StateLearning, r.status(id).State, "it learns again at once")
	require.NoError(t, r.Lost(id))
	require.Equal(t, StateInterrupt, r.status(id).State)
	m := r.status(id).Counters.Moves
	require.EqualValues(t, 1, m[MoveLostOwned])
	require.EqualValues(t, 1, m[MoveLostLearning])
	require.ErrorIs(t, r.Lost(99), ErrNotFound)
}

func TestInterruptModeNeverOwns(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Mode = Interrupt })
	src, h := &ring{name: "in"}, &handle{learned: true}
	r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 100)
	require.False(t, h.owned)
}

func TestPollModeSpinsOnlyWhileItOwnsEverything(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Mode = Poll })
	src, h := &ring{name: "in", waiting: 1}, &handle{learned: true}
	r.receive(src, ReceiverConfig{Owner: h})
	for range 1000 {
		require.Equal(t, Again, r.step(ms).Do)
	}
	require.True(t, h.owned)

	r.receive(&ring{name: "bare"}, ReceiverConfig{})
	next := r.step(ms)
	require.Equal(t, Again, next.Do, "the round that looks once more")
	require.Equal(t, Block, r.step(ms).Do)
	require.False(t, h.owned)
}
