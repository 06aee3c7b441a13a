package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// TestMTU (C05): a frame that does not fit a buffer is refused before it can be truncated: at the start, by the MTU; and up to the
// largest MTU that is accepted, frames arrive whole.
func TestMTU(t *testing.T) {
	for _, c := range []struct {
		mtu, frameSize int
		refused        []string // what the refusal says; nil if it forwards
	}{
		{9000, 2048, []string{"r0", "MTU 9000", "umem.frame_size 2048", "lower the MTU"}},
		{9000, 4096, []string{"r0", "MTU 9000", "umem.frame_size 4096", "lower the MTU"}},
		{1779, 2048, []string{"r0", "MTU 1779", "umem.frame_size: 4096"}},
		{3827, 4096, []string{"r0", "MTU 3827", "lower the MTU"}},
		{1778, 2048, nil},
		{3000, 4096, nil},
		{3826, 4096, nil},
	} {
		t.Run(fmt.Sprintf("MTU %d, frames of %d bytes", c.mtu, c.frameSize), func(t *testing.T) {
			top := nettest.T0With(t, nettest.TopologyOptions{MTU: c.mtu})
			size := fmt.Sprintf("umem.frame_size=%d", c.frameSize)
			if c.refused != nil {
				refuse(t, top.Rtr, weir("run", "--port", "r0", "--port", "r1", "--set", size), exitFailure, c.refused...)
				return
			}
			fixNeighbours(t, top)
			w := startT0(t, top, "--set", size)
			wholeFrames(t, top, c.mtu)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := nettest.TransferTCP(ctx, top.Src, top.Dst, nettest.AddrD0, 4<<20)
			require.NoError(t, err)
			st := w.atRest(t)
			t.Logf("dropped: %v", nonZero(st.Totals.Dropped))
			require.Zero(t, st.Totals.Dropped["too_big"]+st.Totals.Dropped["malformed_length"])
		})
	}
}

// wholeFrames sends frames up to the MTU through weir and compares every byte behind the IP header.
func wholeFrames(t *testing.T, top *nettest.Topology, mtu int) {
	t.Helper()
	listen(t, top.Dst, nettest.AddrD0, testPort)
	out, err := top.Src.OpenPacket("s0")
	require.NoError(t, err)
	defer out.Close()
	in, err := top.Dst.OpenPacket("d0")
	require.NoError(t, err)
	defer in.Close()
	for _, length := range []int{mtu / 2, mtu - 1, mtu} {
		payload := make([]byte, length-ipv4Len-udpLen)
		_, _ = rand.Read(payload) // never fails
		p := nettest.Ethernet(nettest.MACr0, nettest.MACs0, nettest.NewIP(nettest.AddrS0, nettest.AddrD0).UDP(1, testPort, payload))
		require.NoError(t, out.Send(p))
		f, err := in.Expect(restTimeout, isTestPacket)
		require.NoError(t, err, "packet of %d bytes", length)
		require.True(t, bytes.Equal(p[etherLen+ipv4Len:], f.Data[etherLen+ipv4Len:]), "packet of %d bytes changed on the way", length)
		require.NoError(t, nettest.VerifyChecksums(f.Data))
	}
}
