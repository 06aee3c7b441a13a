package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// TestPayloads (C06): frames of either size, on two ports with two queues each and both directions at once, come out with the bytes they
// went in with, each once.
func TestPayloads(t *testing.T) {
	for _, size := range []int{2048, 4096} {
		for _, cpus := range []string{"1", "0,1"} {
			t.Run(fmt.Sprintf("frames of %d bytes, CPUs %s", size, cpus), func(t *testing.T) {
				num, flows := uint64(often(10_000, 500_000)), 64
				top := nettest.T0With(t, nettest.TopologyOptions{RX: 2, TX: 2})
				fixNeighbours(t, top)
				w := startT0(t, top, "--cpus", cpus, "--set", fmt.Sprintf("umem.frame_size=%d", size))
				atDst, atSrc := listen(t, top.Dst, nettest.AddrD0, testPort), listen(t, top.Src, nettest.AddrS0, testPort)
				before := w.atRest(t)

				type outcome struct {
					arrivals
					err error
				}
				back := make(chan outcome, 1)
				go func() {
					got, err := exchange(t.Context(), top.Dst, atSrc, num, flows)
					back <- outcome{got, err}
				}()
				there, err := exchange(t.Context(), top.Src, atDst, num, flows)
				require.NoError(t, err)
				other := <-back
				require.NoError(t, other.err)

				after := w.atRest(t)
				behindDst, behindSrc := droppedBehind(t, top.Dst, "d0"), droppedBehind(t, top.Src, "s0")
				lost := droppedBy(t, top.Src, "s0") + droppedBy(t, top.Dst, "d0") + sum(after.Totals.Dropped) - sum(before.Totals.Dropped) +
					behindDst + behindSrc
				t.Logf("dropped by s0 %d, by d0 %d, by weir %v, behind d0 %d, behind s0 %d", droppedBy(t, top.Src, "s0"), droppedBy(t, top.Dst, "d0"),
					nonZero(after.Totals.Dropped), behindDst, behindSrc)
				require.Equal(t, 2*num, there.unique+other.unique+lost, "each datagram arrived or was counted")
				for _, c := range []struct {
					port   string
					got    arrivals
					behind uint64
				}{{"r1", there, behindDst}, {"r0", other.arrivals, behindSrc}} {
					delivered := portOf(t, after, c.port).Delivered - portOf(t, before, c.port).Delivered
					t.Logf("out of %s: %d sent, %s, weir delivered %d", c.port, num, c.got, delivered)
					require.Zero(t, c.got.corrupt+c.got.duplicate, "%s", c.got)
					require.Equal(t, delivered, c.got.unique+c.behind, "what weir delivered has arrived")
					require.Greater(t, c.got.unique, num/4)
				}
				requireQueuesUsed(t, w, "r0", 2)
				requireQueuesUsed(t, w, "r1", 2)
			})
		}
	}
}
