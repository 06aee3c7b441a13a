package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// TestSlowEgress: a second egress takes what comes, nearly nothing and nothing, as it is told, and leaves nothing behind. The kernel
// forwards.
func TestSlowEgress(t *testing.T) {
	nettest.RequirePrivilege(t)
	rig, err := NewRig(1)
	require.NoError(t, err)
	defer func() { require.NoError(t, rig.Close()) }()
	require.NoError(t, rig.FixNeighbours())
	egress, err := rig.addEgress()
	require.NoError(t, err)
	defer func() { require.NoError(t, egress.close()) }()
	rig.traffic = toBoth
	d, err := install(t.Context(), rig, DUTKernel("kernel"), Pipeline)
	require.NoError(t, err)
	defer func() { require.NoError(t, d.remove()) }()
	delivered := func(state Egress) uint64 {
		require.NoError(t, egress.set(state))
		var before, after uint64
		_, err := d.flood(context.Background(), flood{rate: 40000, warmUp: 50 * time.Millisecond, measured: 300 * time.Millisecond, beside: func() (func() error, error) {
			before, err = egress.delivered()
			return func() (err error) { after, err = egress.delivered(); return err }, err
		}})
		require.NoError(t, err)
		t.Log(state, after-before)
		require.NoError(t, egress.free(t.Context()))
		return after - before
	}
	egress.pause = 100 * time.Millisecond
	require.NotZero(t, delivered(EgressFree))
	require.LessOrEqual(t, delivered(EgressStuck), uint64(256), "no more than the peer's ring held")
	require.NotZero(t, delivered(EgressSlow))
	require.Zero(t, delivered(EgressDown))
	require.NotZero(t, delivered(EgressFree), "it works again")
}
