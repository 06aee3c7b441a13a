package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestBurst (C01): after a burst and a moment of silence nothing is pending: what was received has been sent or is counted as dropped.
func TestBurst(t *testing.T) {
	top := nettest.T0(t)
	fixNeighbours(t, top)
	w := startT0(t, top)
	listen(t, top.Dst, nettest.AddrD0, testPort)
	out, err := top.Src.OpenPacket("s0")
	require.NoError(t, err)
	defer out.Close()

	const num = 5000
	p := top.P()
	for range 3 {
		before := w.atRest(t)
		refused := uint64(0) // by s0: the ring behind it was full
		for range num {
			if err := out.Send(p); errors.Is(err, unix.ENOBUFS) {
				refused++
			} else {
				require.NoError(t, err)
			}
		}
		time.Sleep(100 * time.Millisecond)
		after := w.stats(t)
		require.NoError(t, accountedFor(after))
		in, wasIn := portOf(t, after, "r0"), portOf(t, before, "r0")
		out, wasOut := portOf(t, after, "r1"), portOf(t, before, "r1")
		sent, dropped := out.Delivered-wasOut.Delivered, sum(after.Totals.Dropped)-sum(before.Totals.Dropped)
		t.Logf("%d sent, %d refused by s0, %d delivered, %d dropped", num, refused, sent, dropped)
		hosts := sum(in.Passed) - sum(wasIn.Passed) // ND and the like, between the hosts' kernels
		require.Equal(t, num-refused, in.Offered-wasIn.Offered-hosts, "offered")
		require.Equal(t, num-refused, sent+dropped, "sent and dropped")
		require.Zero(t, out.Sent-out.Completed, "frames not completed")
	}
}
