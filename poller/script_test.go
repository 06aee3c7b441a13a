package poller

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Random scripts, the same ones every time, against the invariants of world.
// Together they end every turn, gate and state in every way there is.
func TestScripts(t *testing.T) {
	var turns [NumTurnEnds]uint64
	var moves [NumMoves]uint64
	var gates [NumReasons]uint64
	var queues QueueCounters
	var held heldBy
	for seed := range uint64(600) {
		rng := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 3+2*rng.IntN(60))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		w := play(t, script)
		if w == nil {
			continue
		}
		for _, r := range w.s.receivers {
			for i, n := range r.c.Turns {
				turns[i] += n
			}
			for i, n := range r.c.Moves {
				moves[i] += n
			}
			for i, n := range r.c.GateOpened {
				gates[i] += n
			}
		}
		for _, q := range w.s.queues {
			queues.OpenedLow += q.c.OpenedLow
			queues.TimedOutSlow += q.c.TimedOutSlow
			queues.TimedOutStuck += q.c.TimedOutStuck
		}
		held.add(w.held)
	}
	for i, n := range turns {
		require.Positive(t, n, "no turn ended by %v", TurnEnd(i))
	}
	for i, n := range moves {
		if Move(i) == MoveReleasedCalm {
			continue // only with Own.Gather: TestCalm
		}
		require.Positive(t, n, "no move %v", Move(i))
	}
	for i, n := range gates {
		require.Positive(t, n, "no gate opened from %v", Reason(1)<<i)
	}
	require.Positive(t, queues.OpenedLow)
	require.Positive(t, queues.TimedOutSlow)
	require.Positive(t, queues.TimedOutStuck)
	held.requireAll(t)
}

func FuzzScripts(f *testing.F) {
	f.Add([]byte{0, 0, 0x05, 3, 200, 15, 50, 6, 0, 3, 255, 15, 200})
	f.Add([]byte{2, 2, 0x86, 3, 255, 14, 0, 15, 255, 10, 7, 3, 255, 15, 255})
	f.Add([]byte{0, 0, 0x01, 0, 255, 0, 255, 0, 255, 15, 1, 8, 1, 15, 3, 11, 0})
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 400 {
			return
		}
		play(t, script)
	})
}
