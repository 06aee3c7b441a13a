package main

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// TestMalformed (A05): what is no whole IP packet is dropped as malformed, and padding is neither a part of the packet nor passed on.
func TestMalformed(t *testing.T) {
	top := nettest.T0(t)
	fixNeighbours(t, top)
	w := startT0(t, top)
	listen(t, top.Dst, nettest.AddrD0, testPort)
	listen(t, top.Dst, nettest.Addr6D0, testPort)
	out, err := top.Src.OpenPacket("s0")
	require.NoError(t, err)
	defer out.Close()
	in, err := top.Dst.OpenPacket("d0")
	require.NoError(t, err)
	defer in.Close()

	p, p6 := top.P(), top.P6()
	short := nettest.Ethernet(nettest.MACr0, nettest.MACs0, nettest.NewIP(nettest.AddrS0, nettest.AddrD0).UDP(1, testPort, nil))
	short6 := nettest.Ethernet(nettest.MACr0, nettest.MACs0, nettest.NewIP(nettest.Addr6S0, nettest.Addr6D0).UDP(1, testPort, nil))
	edit6 := func(change func(ip []byte)) []byte {
		frame := bytes.Clone(p6)
		change(frame[etherLen:])
		return frame
	}
	for _, c := range []struct {
		name   string
		frame  []byte
		reason string // why it is dropped; forwarded if empty
		length int    // of the IP packet that arrives
	}{
		{"header of three words", edit(p, func(ip []byte) { ip[0] = 0x43 }), "malformed_header", 0},
		{"version 5", edit(p, func(ip []byte) { ip[0] = 0x55 }), "malformed_header", 0},
		{"total length 1400 in 60 bytes", edit(p, func(ip []byte) { binary.BigEndian.PutUint16(ip[2:], 1400) }), "malformed_length", 0},
		{"total length 10", edit(p, func(ip []byte) { binary.BigEndian.PutUint16(ip[2:], 10) }), "malformed_length", 0},
		{"24 byte frame", p[:24], "malformed_header", 0},
		{"total length 28, padded", pad(short), "", ipv4Len + udpLen},
		{"total length 28, not padded", short, "", ipv4Len + udpLen},
		{"header of 15 words in 60 bytes", edit(p, func(ip []byte) { ip[0] = 0x4f }), "malformed_header", 0},
		{"wrong header checksum", func() []byte { b := bytes.Clone(p); b[etherLen+10] ^= 0x5a; return b }(), "bad_checksum", 0},

		{"IPv6: version 4", edit6(func(ip []byte) { ip[0] = 0x40 }), "malformed_header", 0},
		{"IPv6: payload length 1400 in 80 bytes", edit6(func(ip []byte) { binary.BigEndian.PutUint16(ip[4:], 1400) }), "malformed_length", 0},
		{"IPv6: 50 byte frame", p6[:50], "malformed_header", 0},
		{"IPv6: padded", pad(short6), "", 40 + udpLen},
		{"IPv6: not padded", short6, "", 40 + udpLen},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := w.atRest(t)
			require.NoError(t, out.Send(c.frame))
			if c.reason == "" {
				f, err := in.Expect(restTimeout, isTestPacket)
				require.NoError(t, err)
				require.Len(t, f.Data, etherLen+c.length, "the padding has gone")
				require.NoError(t, nettest.VerifyChecksums(f.Data))
			} else {
				awaitDrop(t, w, before, "r0", c.reason, 1)
			}
			after := w.atRest(t)
			forwarded := portOf(t, after, "r1").Delivered - portOf(t, before, "r1").Delivered
			dropped := sum(after.Totals.Dropped) - sum(before.Totals.Dropped)
			if c.reason == "" {
				require.Equal(t, [2]uint64{1, 0}, [2]uint64{forwarded, dropped}, "copies forwarded, packets dropped")
			} else {
				require.Equal(t, [2]uint64{0, 1}, [2]uint64{forwarded, dropped}, "copies forwarded, packets dropped")
			}
		})
	}
}
