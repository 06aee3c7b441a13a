package bench

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSearch: wherever the limit is, it is found from below, to within the precision, in few steps.
func TestSearch(t *testing.T) {
	const most = 5 << 20
	for _, limit := range []uint64{most / searchSpan, 6_000, 17_431, 400_000, 3_999_999, most - 1, most, 2 * most} {
		steps := 0
		got, err := search(most, func(rate uint64) (bool, error) {
			steps++
			return rate <= limit, nil
		})
		require.NoError(t, err, limit)
		limit = min(limit, most)
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
	_, err = search(0, func(uint64) (bool, error) { panic("nothing was offered") })
	require.ErrorIs(t, err, errLossy)
}
