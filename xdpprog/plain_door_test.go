package xdpprog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlainDoor(t *testing.T) {
	d := NewDoor()
	admitted := func(n int) (in int) {
		for range n {
			if d.Admit() {
				in++
			}
		}
		return in
	}
	require.Zero(t, admitted(1), "no credit at first")
	d.Grant(2)
	require.Equal(t, 2, admitted(5))
	require.EqualValues(t, 2, d.Spent())
	d.Grant(1)
	require.Zero(t, admitted(1), "granted is below spent")
	d.SetUnlimited(true)
	require.Equal(t, 3, admitted(3))
	require.EqualValues(t, 2, d.Spent(), "unlimited spends nothing")
	for _, gate := range []uint32{1 << 1, 1<<1 | 1<<2, 1 << 9} {
		d.SetGate(gate)
		require.Zero(t, admitted(1))
	}
	d.SetGate(0)
	require.Equal(t, 1, admitted(1))
	var c Counters
	d.Counters(&c)
	require.Equal(t, Counters{Seen: 14, Redirected: 6, DroppedNoCredit: 5, DroppedGate: [NumReasons]uint64{1: 2, 4: 1}}, c)
	require.Equal(t, c.Seen, c.Sum())
}
