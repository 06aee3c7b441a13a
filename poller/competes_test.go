package poller

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHybridOwnsOnlyWhatCompetes(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{teaching: true, away: true}
	id := r.receive(src, ReceiverConfig{Owner: h})

	r.busy(src, 3)
	src.waiting = 1
	r.step(us)
	require.Zero(t, h.asked, "no backlog, no question")
	r.busy(src, 100)
	require.Equal(t, 97, h.asked, "once per round from the fourth turn on")
	require.Equal(t, StateInterrupt, r.status(id).State)
	require.Zero(t, h.lessons, "another CPU does it: nothing to learn")

	src.waiting = 1
	require.Equal(t, Block, r.step(us).Do, "and the worker sleeps as ever")
	require.Equal(t, 97, h.asked)

	h.away = false
	r.busy(src, 4)
	require.Equal(t, StateLearning, r.status(id).State)
	r.busy(src, 1)
	require.Equal(t, StateOwned, r.status(id).State)
	require.Equal(t, 99, h.asked, "before learning and before owning")
}

func TestReceiveWorkThatMovesAwayIsGivenBack(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	require.Equal(t, 1, h.asked)
	r.busy(src, 10)
	require.Equal(t, 11, h.asked, "once per round while owned")
	require.Equal(t, StateOwned, r.status(id).State)

	h.away = true
	require.Equal(t, Again, r.busy(src, 1).Do)
	require.Equal(t, StateReleasing, r.status(id).State)
	require.False(t, h.owned)
	require.Equal(t, 1, h.drives, "one look into the device after unmasking")
	require.Equal(t, 12, h.asked)
	src.waiting = 1
	require.Equal(t, Block, r.step(us).Do, "one round looks at the rings")
	require.Equal(t, StateInterrupt, r.status(id).State)
	require.Equal(t, 12, h.asked)

	h.away = false
	r.wake(us)
	r.busy(src, 4)
	require.Equal(t, StateOwned, r.status(id).State, "no hold-off")
	m := r.status(id).Counters.Moves
	require.Equal(t, [NumMoves]uint64{MoveOwnedKnown: 2, MoveReleasedElsewhere: 1, MoveRestedWork: 1}, m)
	require.Equal(t, "released_elsewhere", MoveReleasedElsewhere.String())
}

func TestReceiveWorkThatMovesAwayWhileItIsLearned(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	require.Equal(t, StateLearning, r.status(id).State)
	h.away = true
	r.busy(src, 3)
	require.Equal(t, StateLearning, r.status(id).State, "the handle may still be of use")
	require.Equal(t, 1, h.asked, "not asked before it has come")
	h.learned = true
	r.busy(src, 1)
	require.Equal(t, StateInterrupt, r.status(id).State)
	require.False(t, h.owned)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveLearnedElsewhere])
	require.Equal(t, "learned_elsewhere", MoveLearnedElsewhere.String())

	h.away = false
	r.busy(src, 3)
	require.False(t, h.owned, "the backlog is counted anew")
	r.busy(src, 1)
	require.True(t, h.owned, "no hold-off, no further lesson")
	require.Equal(t, 1, h.lessons)
}

func TestGivingBackThatFailsWaits(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true, freeErr: errFake}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	h.away = true
	r.busy(src, 50)
	require.Equal(t, StateOwned, r.status(id).State)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleaseFailed])
	require.Equal(t, 2, h.asked, "and is not asked meanwhile")
	h.freeErr = nil
	r.now += int64(100 * ms)
	r.busy(src, 1)
	require.Equal(t, StateReleasing, r.status(id).State)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleasedElsewhere])
}

// A gate decides before the owner is asked.
func TestClosedSourcesAreNotAsked(t *testing.T) {
	for _, test := range []struct {
		name  string
		close func(r *rig, id ReceiverID, out *box)
		state OwnState
		move  Move
	}{
		{"for a bounded time: kept", func(_ *rig, _ ReceiverID, out *box) { out.n = 24 }, StateOwned, MoveOwnedKnown},
		{"lasting: given back for that", func(r *rig, id ReceiverID, _ *box) { _ = r.Close(id, Admin) }, StateReleasing, MoveReleasedGate},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, nil)
			src, h, out := &ring{name: "in"}, &handle{learned: true}, &box{name: "out"}
			id := r.receive(src, ReceiverConfig{Owner: h})
			r.queue(out, paperQueue)
			r.busy(src, 4)
			asked := h.asked
			h.away = true
			test.close(r, id, out)
			r.step(us)
			require.Equal(t, test.state, r.status(id).State)
			require.Equal(t, asked, h.asked)
			require.EqualValues(t, 1, r.status(id).Counters.Moves[test.move])
		})
	}
}

// Nor is what is closed for long taken for the backlog of its last turns.
func TestLastingGateKeepsFromOwning(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true, away: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 10)
	require.NoError(t, r.Close(id, EgressDown))
	h.away = false
	asked := h.asked
	r.busy(src, 10)
	require.Equal(t, StateInterrupt, r.status(id).State)
	require.Equal(t, asked, h.asked)
	require.NoError(t, r.Open(id, EgressDown))
	r.busy(src, 1)
	require.True(t, h.owned)
}

func TestOtherModesDoNotAsk(t *testing.T) {
	for mode, owned := range map[Mode]bool{Interrupt: false, Poll: true} {
		r := newRig(t, func(c *Config) { c.Mode = mode })
		src, h := &ring{name: "in"}, &handle{teaching: true, away: true}
		r.receive(src, ReceiverConfig{Owner: h})
		r.busy(src, 100)
		require.Zero(t, h.asked, "%v", mode)
		require.Equal(t, owned, h.owned, "%v", mode)
	}
}

// Among many sources one is owned. The others are looked at in every round and
// neither keep it owned nor wait for it.
func TestOneOwnedAmongMany(t *testing.T) {
	for _, test := range []struct {
		name   string
		others ring
		does   Action
	}{
		{"the others idle", ring{}, Block},
		{"the others under light load", ring{waiting: 1}, Again},
		{"the others never empty", ring{waiting: 1000}, Again},
		{"the others out of frames", ring{waiting: 1000, refuses: true}, Sleep},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, nil)
			src, h := &ring{name: "owned"}, &handle{learned: true}
			id := r.receive(src, ReceiverConfig{Owner: h})
			others := make([]ring, 5)
			far := &handle{learned: true, away: true}
			for i := range others {
				others[i] = test.others
				others[i].name = "other"
				rc := ReceiverConfig{}
				if i%2 == 0 {
					rc.Owner = far
				}
				r.receive(&others[i], rc)
			}
			refill := func() {
				for i := range others {
					others[i].waiting = test.others.waiting
				}
			}
			for range 4 {
				refill()
				r.busy(src, 1)
			}
			require.True(t, h.owned)
			require.False(t, far.owned)

			src.waiting = 0
			drainedSince := r.now
			rounds := src.turns
			for h.owned {
				require.Less(t, r.now-drainedSince, int64(ms+51*us), "owned for ever")
				refill()
				next := r.step(us)
				if !h.owned {
					break
				}
				require.Equal(t, test.does, next.Do)
				if next.Do != Again {
					require.Equal(t, r.now+int64(50*us), next.UntilNS)
					r.wake(50 * us)
				}
			}
			require.GreaterOrEqual(t, r.now-drainedSince, int64(ms))
			require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleasedDrained])
			require.Greater(t, src.turns, rounds)
			for i := range others {
				require.Equal(t, src.turns, others[i].turns, "a source was left out")
			}
			require.False(t, far.owned)
		})
	}
}

func TestOwnedSourcesDrainTogether(t *testing.T) {
	r := newRig(t, nil)
	a, b := &ring{name: "a"}, &ring{name: "b"}
	ha, hb := &handle{learned: true}, &handle{learned: true}
	r.receive(a, ReceiverConfig{Owner: ha})
	r.receive(b, ReceiverConfig{Owner: hb})
	for range 4 {
		b.waiting = 1000
		r.busy(a, 1)
	}
	b.waiting = 0
	for range 1000 {
		a.waiting = 1
		require.Equal(t, Again, r.step(us).Do)
	}
	require.True(t, ha.owned && hb.owned, "the worker is awake anyway")
	a.waiting, a.refuses = 1, true
	for range 100 {
		r.step(us)
		r.wake(50 * us)
	}
	require.True(t, ha.owned && hb.owned, "what is there and not taken is work too")
	a.waiting = 0
	for range 20 {
		require.True(t, ha.owned && hb.owned)
		r.pass(us)
	}
	require.False(t, ha.owned || hb.owned)
}

func TestOwnedForAtLeastDrain(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	src.waiting = 0
	h.learned = true
	r.now += int64(5 * ms) // learning took its time, and the load is gone
	r.step(us)
	require.Equal(t, StateOwned, r.status(id).State)
	for range 19 {
		r.pass(us)
		require.True(t, h.owned)
	}
	r.pass(us)
	r.pass(us)
	require.False(t, h.owned)
}

func TestWhatWasClosedIsLookedAtBeforeItCountsAsDrained(t *testing.T) {
	r := newRig(t, nil)
	src, h, out := &ring{name: "in"}, &handle{learned: true}, &box{name: "out"}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.queue(out, paperQueue)
	r.busy(src, 4)
	out.n = 24
	r.step(us)
	require.Equal(t, Feedback, src.gate)
	r.now += int64(10 * ms)
	out.n = 0
	require.Equal(t, Again, r.Settle(r.now, 0).Do, "the gate opens")
	require.Zero(t, src.gate)
	require.True(t, h.owned)
	r.busy(src, 1)
	require.True(t, h.owned)
	require.Zero(t, r.status(id).Counters.Moves[MoveReleasedDrained])
}

// Backlog that stands because nothing can be done with it is no reason to spin,
// whoever does the receive work.
func TestStandingBacklogThatIsNotOwnedDoesNotSpin(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in", waiting: 5, refuses: true}, &handle{learned: true, away: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	wait := int64(50 * us)
	for range 20 {
		require.Equal(t, Next{Sleep, r.now + int64(us) + wait}, r.step(us))
		r.wake(us)
		wait = min(2*wait, int64(10*ms))
	}
	require.Equal(t, StateInterrupt, r.status(id).State)
	require.Equal(t, 17, h.asked)
}

// The control experiment: a loop that spins whatever there is to do.
func TestPollWithoutOwnersNeverBlocks(t *testing.T) {
	poll := func(c *Config) { c.Mode = Poll }
	spins := func(t *testing.T, r *rig) {
		t.Helper()
		for range 1000 {
			require.Equal(t, Again, r.step(us).Do)
		}
	}
	t.Run("nothing to do", func(t *testing.T) {
		r := newRig(t, poll)
		r.receive(&ring{name: "in"}, ReceiverConfig{})
		spins(t, r)
	})
	t.Run("nothing can be done", func(t *testing.T) {
		r := newRig(t, poll)
		id := r.receive(&ring{name: "in", waiting: 5, refuses: true}, ReceiverConfig{})
		r.transmit(&box{name: "out", n: 5, pending: true})
		spins(t, r)
		require.NoError(t, r.Close(id, Admin))
		spins(t, r)
		require.Zero(t, r.Counters().FruitlessWaits)
	})
	t.Run("share used up", func(t *testing.T) {
		r := newRig(t, func(c *Config) { limited(10, true)(c); poll(c) })
		r.receive(&ring{name: "in"}, ReceiverConfig{})
		require.Equal(t, Again, r.step(ms).Do)
		require.Equal(t, Next{Sleep, int64(10 * ms)}, r.step(us))
		r.wake(9 * ms)
		require.Equal(t, Again, r.step(us).Do)
	})
	t.Run("an owner comes and goes", func(t *testing.T) {
		r := newRig(t, poll)
		r.receive(&ring{name: "bare"}, ReceiverConfig{})
		spins(t, r)
		id := r.receive(&ring{name: "in"}, ReceiverConfig{Owner: &handle{learned: true}})
		require.Equal(t, Next{Block, math.MaxInt64}, r.step(us))
		r.wake(us)
		require.NoError(t, r.RemoveReceiver(id))
		spins(t, r)
	})
	for _, mode := range []Mode{Hybrid, Interrupt} {
		r := newRig(t, func(c *Config) { c.Mode = mode })
		r.receive(&ring{name: "in"}, ReceiverConfig{})
		require.Equal(t, Next{Block, math.MaxInt64}, r.step(us), "%v", mode)
	}
}
