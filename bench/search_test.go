package bench

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSearch: wherever the limit is, it is found from below, to within the precision, in few steps.
func TestSearch(t *testing.T) {
	const most = 5 << 20
	for _, limit := range []uint64{most / searchSpan, 6_000, 17_431, 400_000, 3_999_999, most - 1} {
		steps := 0
		got, err := search(most, func(rate uint64) (bool, error) {
			steps++
			return rate <= limit, nil
		})
		require.NoError(t, err, limit)
		require.LessOrEqual(t, got, limit)
		require.GreaterOrEqual(t, float64(got)*searchPrecision, float64(limit)*0.999)
		require.LessOrEqual(t, steps, 12)
	}
	_, err := search(most, func(uint64) (bool, error) { return false, nil })
	require.ErrorIs(t, err, errLossy)
	broken := errors.New("broken")
	for after := range 4 {
		steps := 0
		_, err = search(most, func(rate uint64) (bool, error) {
			if steps++; steps > after {
				return false, broken
			}
			return rate < most/2, nil
		})
		require.ErrorIs(t, err, broken)
	}
	_, err = search(searchSpan-1, func(uint64) (bool, error) { panic("nothing was offered") })
	require.ErrorIs(t, err, errLossy)
}

// TestPasses: one trial without loss suffices; what others did to a trial is no proof of loss, and nobody waits for ever.
func TestPasses(t *testing.T) {
	good := Trial{Asked: 1000, Offered: 1000, Lost: maxLoss}
	lossy := Trial{Asked: 1000, Offered: 1000, Lost: 0.01}
	disturbed := lossy
	disturbed.Invalid = "others"
	slow := Trial{Asked: 1000, Offered: 900, Missed: true, Invalid: "the generator"}
	for _, c := range []struct {
		name  string
		trial []Trial
		want  bool
		took  int
	}{
		{"at once", []Trial{good}, true, 1},
		{"at last", []Trial{lossy, disturbed, lossy, disturbed, good}, true, 5},
		{"lossy", []Trial{lossy, disturbed, lossy}, false, searchTrials + 1},
		{"not reached", []Trial{slow}, false, searchTrials},
		{"always disturbed", []Trial{disturbed}, false, searchAttempts},
	} {
		t.Run(c.name, func(t *testing.T) {
			took := 0
			got, err := passes(1000, func(uint64) (Trial, error) {
				took++
				return c.trial[min(took, len(c.trial))-1], nil
			})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.Equal(t, c.took, took)
		})
	}
	broken := errors.New("broken")
	_, err := passes(1000, func(uint64) (Trial, error) { return good, broken })
	require.ErrorIs(t, err, broken)
}
