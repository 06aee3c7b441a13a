package poller

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker that gets little of the CPU: its ring is empty after each turn, and
// packets were lost before it.
func TestLossIsReasonToOwn(t *testing.T) {
	for _, test := range []struct {
		name    string
		mode    Mode
		h       handle
		waiting int
		state   OwnState
		asked   int // of Competes
	}{
		{"handle known", Hybrid, handle{learned: true, losing: true}, 1, StateOwned, 1},
		{"handle not known", Hybrid, handle{losing: true}, 1, StateLearning, 1},
		{"no loss", Hybrid, handle{learned: true}, 1, StateInterrupt, 0},
		{"another CPU does it", Hybrid, handle{learned: true, losing: true, away: true}, 1, StateInterrupt, 1},
		{"nothing taken", Hybrid, handle{learned: true, losing: true}, 0, StateInterrupt, 0},
		{"mode interrupt", Interrupt, handle{learned: true, losing: true}, 1, StateInterrupt, 0},
		{"mode poll owns anyway", Poll, handle{learned: true}, 1, StateOwned, 0},
		{"mode poll, nothing taken", Poll, handle{learned: true, losing: true}, 0, StateInterrupt, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Mode = test.mode })
			src, h := &ring{name: "in", waiting: test.waiting}, test.h
			id := r.receive(src, ReceiverConfig{Owner: &h})
			r.receive(&ring{name: "bare"}, ReceiverConfig{})
			r.step(us)
			require.Equal(t, test.state, r.status(id).State)
			require.Equal(t, test.state == StateOwned, h.owned)
			require.Equal(t, test.asked, h.asked)
			if test.mode == Hybrid {
				require.Equal(t, 1, h.losses, "asked once per round")
			}
		})
	}
}

// One loss is reason once: what was lost while nothing could follow from it is
// forgotten.
func TestOldLossIsForgotten(t *testing.T) {
	for _, test := range []struct {
		name string
		h    handle
		past func(t *testing.T, r *rig, id ReceiverID, src *ring, h *handle) // ends in interrupt
	}{
		{"before an empty turn", handle{learned: true}, func(_ *testing.T, r *rig, _ ReceiverID, _ *ring, h *handle) {
			h.losing = true
			r.step(us)
		}},
		{"before a turn that another CPU has helped", handle{learned: true, away: true}, func(_ *testing.T, r *rig, _ ReceiverID, src *ring, h *handle) {
			h.losing, src.waiting = true, 1
			r.step(us)
			h.away = false
		}},
		{"during a hold-off", handle{learned: true, ownErr: errFake}, func(t *testing.T, r *rig, id ReceiverID, src *ring, h *handle) {
			r.busy(src, 4)
			require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveOwnRefused])
			h.ownErr = nil
			asked := h.asked
			h.losing, src.waiting = true, 1
			r.step(us)
			require.Equal(t, asked, h.asked, "nothing could follow")
			r.now += int64(100 * ms)
		}},
		{"before the attempt that failed", handle{learned: true, ownErr: errFake}, func(_ *testing.T, r *rig, _ ReceiverID, src *ring, h *handle) {
			h.losing = true
			r.busy(src, 4)
			h.ownErr = nil
			r.now += int64(100 * ms)
		}},
		{"while a lasting gate was closed", handle{learned: true}, func(t *testing.T, r *rig, id ReceiverID, src *ring, h *handle) {
			require.NoError(t, r.Close(id, Admin))
			h.losing, src.waiting = true, 1
			r.step(us)
			require.Zero(t, h.asked)
			require.NoError(t, r.Open(id, Admin))
		}},
		{"while it was owned", handle{learned: true}, func(t *testing.T, r *rig, id ReceiverID, src *ring, h *handle) {
			r.busy(src, 4)
			h.losing = true
			src.waiting = 0
			for r.status(id).State != StateInterrupt {
				require.Less(t, r.now, int64(10*ms), "owned for ever")
				r.step(us)
				r.wake(us)
			}
		}},
		{"while it was learned", handle{}, func(t *testing.T, r *rig, id ReceiverID, src *ring, h *handle) {
			r.busy(src, 4)
			h.losing = true
			require.NoError(t, r.Close(id, Admin))
			r.step(us)
			require.NoError(t, r.Open(id, Admin))
			h.learned = true
			require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveLearnAbandoned])
		}},
		{"before the handle became void", handle{learned: true}, func(t *testing.T, r *rig, id ReceiverID, src *ring, h *handle) {
			r.busy(src, 4)
			h.losing = true
			require.NoError(t, r.Lost(id))
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, nil)
			src, h := &ring{name: "in"}, test.h
			id := r.receive(src, ReceiverConfig{Owner: &h})
			test.past(t, r, id, src, &h)
			require.Equal(t, StateInterrupt, r.status(id).State)

			for range 3 {
				src.waiting = 1
				r.step(us)
				require.Equal(t, StateInterrupt, r.status(id).State, "light load, and no loss")
			}
			h.losing, src.waiting = true, 1
			r.step(us)
			require.Equal(t, StateOwned, r.status(id).State, "a new one")
		})
	}
}

// What is owned for a loss is given back like all that is drained, and taken
// again with the next loss.
func TestOwnedForLossDrains(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	for n := range uint64(3) {
		h.losing, src.waiting = true, 1
		begin := r.now
		require.Equal(t, Again, r.step(us).Do, "owned and progress")
		require.True(t, h.owned)
		losses := h.losses
		for h.owned {
			require.LessOrEqual(t, r.now-begin, int64(ms+102*us), "owned for ever")
			r.pass(us)
		}
		require.Equal(t, losses, h.losses, "not asked while it is owned")
		require.Equal(t, Block, r.step(us).Do)
		m := r.status(id).Counters.Moves
		require.Equal(t, [NumMoves]uint64{MoveOwnedKnown: n + 1, MoveReleasedDrained: n + 1, MoveRestedEmpty: n + 1}, m)
	}
}
