package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestOffloads (A06): hosts leave segmentation and checksums to their devices, as they do by default; weir's peer gets whole packets with
// right checksums.
func TestOffloads(t *testing.T) {
	top := nettest.T0(t)
	fixNeighbours(t, top)
	require.NoError(t, top.Src.Offload("s0", "tx-tcp-segmentation", true))
	require.NoError(t, top.Src.Offload("s0", "tx-generic-segmentation", true))
	require.NoError(t, top.Rtr.Offload("r0", "rx-gro", true))
	w := startT0(t, top)

	t.Run("tcp", func(t *testing.T) {
		const size = 100 << 20
		seen := verifyFrames(t, top.Dst, "d0", 5000)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		got, err := nettest.TransferTCP(ctx, top.Src, top.Dst, nettest.AddrD0, size)
		require.NoError(t, err)
		t.Logf("%d MB in %s (%.2f Gbit/s); checksums of %d frames verified at d0",
			size>>20, got.Elapsed.Round(time.Millisecond), size*8/got.Elapsed.Seconds()/1e9, seen())
		require.Zero(t, snmp(t, top.Dst, "Tcp", "InCsumErrors"), "segments with a wrong checksum at d0")
		st := w.atRest(t)
		t.Logf("dropped: %v", nonZero(st.Totals.Dropped))
		for _, reason := range []string{"too_big", "malformed_length", "bad_descriptor", "door_too_long"} {
			require.Zero(t, st.Totals.Dropped[reason], reason)
		}
	})
	t.Run("udp", func(t *testing.T) {
		in, err := top.Dst.OpenPacket("d0")
		require.NoError(t, err)
		defer in.Close()
		for _, dst := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
			listen(t, top.Dst, dst, testPort)
			conn, err := top.Src.Dial(t.Context(), "udp", netip.AddrPortFrom(dst, testPort).String())
			require.NoError(t, err)
			defer conn.Close()
			for _, size := range []int{0, 1, 17, 18, 1000, 1452} {
				_, err := conn.Write(make([]byte, size))
				require.NoError(t, err)
				f, err := in.Expect(restTimeout, func(f nettest.Frame) bool { return to(f.Data, dst) })
				require.NoError(t, err, "%d bytes to %s", size, dst)
				require.False(t, f.Partial)
				require.NoError(t, nettest.VerifyChecksums(f.Data), "%d bytes to %s", size, dst)
			}
		}
	})
	t.Run("udp checksum 0", func(t *testing.T) {
		in, err := top.Dst.OpenPacket("d0")
		require.NoError(t, err)
		defer in.Close()
		out, err := top.Src.OpenPacket("s0")
		require.NoError(t, err)
		defer out.Close()
		p := top.P()
		copy(p[etherLen+ipv4Len+6:], []byte{0, 0})
		require.NoError(t, out.Send(p))
		f, err := in.Expect(restTimeout, isTestPacket)
		require.NoError(t, err)
		require.Equal(t, []byte{0, 0}, f.Data[etherLen+ipv4Len+6:][:2], "no checksum stays no checksum")
		require.Equal(t, p[etherLen+ipv4Len:], f.Data[etherLen+ipv4Len:])
	})
}

// to tells UDP frames to testPort of an address.
func to(frame []byte, dst netip.Addr) bool {
	at, end := etherLen+16, etherLen+ipv4Len
	if dst.Is6() {
		at, end = etherLen+24, etherLen+40
	}
	return len(frame) >= end+udpLen && bytes.Equal(frame[at:end], dst.AsSlice()) && binary.BigEndian.Uint16(frame[end+2:]) == testPort
}

// verifyFrames verifies the checksums and lengths of the first most TCP frames that arrive on a link, until the test ends. The function
// it returns ends it and says how many they were.
func verifyFrames(t *testing.T, ns *nettest.NS, link string, most int) func() int {
	t.Helper()
	in, err := ns.OpenPacket(link)
	require.NoError(t, err)
	seen := 0
	var wrong error
	var wg sync.WaitGroup
	wg.Go(func() {
		defer in.Close()
		for seen < most && wrong == nil {
			f, err := in.Recv(10 * time.Second)
			if err != nil {
				return
			}
			if len(f.Data) < etherLen+ipv4Len || f.Data[etherLen+9] != unix.IPPROTO_TCP {
				continue
			}
			seen++
			if wrong = nettest.VerifyChecksums(f.Data); wrong == nil && (f.Partial || f.GSOSize != 0 || len(f.Data) > etherLen+1500) {
				wrong = &net.ParseError{Type: "frame on the wire", Text: "longer than the MTU, or with something left to a device"}
			}
		}
	})
	return func() int {
		t.Helper()
		_ = in.Close() // it may have closed itself
		wg.Wait()
		require.NoError(t, wrong)
		require.NotZero(t, seen)
		return seen
	}
}
