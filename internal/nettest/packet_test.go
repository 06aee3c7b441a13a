package nettest_test

import (
	"bytes"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// fakeT stands for a test whose require has failed.
type fakeT struct{}

func (*fakeT) FailNow() { runtime.Goexit() }

var (
	v4 = nettest.NewIP(nettest.AddrS0, nettest.AddrD0)
	v6 = nettest.NewIP(nettest.Addr6S0, nettest.Addr6D0)
)

// gopacket, which shares nothing with the builders, must come to the same bytes.
func TestBuildersAgreeWithGopacket(t *testing.T) {
	odd := []byte("an odd payload.")
	eth := func(etherType layers.EthernetType) *layers.Ethernet {
		return &layers.Ethernet{DstMAC: nettest.MACr0, SrcMAC: nettest.MACs0, EthernetType: etherType}
	}
	ip4 := func(p layers.IPProtocol) *layers.IPv4 {
		return &layers.IPv4{Version: 4, TTL: 64, Id: 1, Flags: layers.IPv4DontFragment, Protocol: p,
			SrcIP: nettest.AddrS0.AsSlice(), DstIP: nettest.AddrD0.AsSlice()}
	}
	ip6 := func(p layers.IPProtocol) *layers.IPv6 {
		return &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: p,
			SrcIP: nettest.Addr6S0.AsSlice(), DstIP: nettest.Addr6D0.AsSlice()}
	}
	udp := func(n gopacket.NetworkLayer) *layers.UDP {
		u := &layers.UDP{SrcPort: 1, DstPort: 9}
		require.NoError(t, u.SetNetworkLayerForChecksum(n))
		return u
	}
	tcp := func(n gopacket.NetworkLayer) *layers.TCP {
		s := &layers.TCP{SrcPort: 1, DstPort: 9, Seq: 7, Ack: 8, SYN: true, ACK: true, Window: 0xffff}
		require.NoError(t, s.SetNetworkLayerForChecksum(n))
		return s
	}
	icmp6 := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}
	require.NoError(t, icmp6.SetNetworkLayerForChecksum(ip6(layers.IPProtocolICMPv6)))
	u4, u6, t4, t6 := ip4(layers.IPProtocolUDP), ip6(layers.IPProtocolUDP), ip4(layers.IPProtocolTCP), ip6(layers.IPProtocolTCP)
	for _, c := range []struct {
		name string
		got  []byte
		want []gopacket.SerializableLayer
	}{
		{"udp4", v4.UDP(1, 9, odd), []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv4), u4, udp(u4)}},
		{"udp6", v6.UDP(1, 9, odd), []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv6), u6, udp(u6)}},
		{"tcp4", v4.TCP(1, 9, 7, 8, nettest.SYN|nettest.ACK, odd), []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv4), t4, tcp(t4)}},
		{"tcp6", v6.TCP(1, 9, 7, 8, nettest.SYN|nettest.ACK, odd), []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv6), t6, tcp(t6)}},
		{"icmp4", v4.Echo(3, 4, odd), []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv4), ip4(layers.IPProtocolICMPv4),
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 3, Seq: 4}}},
		{"icmp6", v6.Echo(3, 4, odd), []gopacket.SerializableLayer{eth(layers.EthernetTypeIPv6), ip6(layers.IPProtocolICMPv6),
			icmp6, &layers.ICMPv6Echo{Identifier: 3, SeqNumber: 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			frame := nettest.Ethernet(nettest.MACr0, nettest.MACs0, c.got)
			b := gopacket.NewSerializeBuffer()
			err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
				append(c.want, gopacket.Payload(odd))...)
			require.NoError(t, err)
			want := b.Bytes()
			if len(want) > len(frame) { // gopacket pads to 60 bytes
				require.Empty(t, bytes.Trim(want[len(frame):], "\x00"))
				want = want[:len(frame)]
			}
			require.Equal(t, want, frame)
			require.NoError(t, nettest.VerifyChecksums(frame))
			frame[len(frame)-1]++
			require.Error(t, nettest.VerifyChecksums(frame))
		})
	}
}

func TestIPOptionsArePadded(t *testing.T) {
	h := v4
	h.Options = []byte{1, 1, 1}
	p := h.UDP(1, 9, nil)
	require.Equal(t, byte(0x46), p[0])
	require.NoError(t, nettest.VerifyChecksums(nettest.Ethernet(nettest.MACr0, nettest.MACs0, p)))
}

func TestVerifyChecksumsTakesZeroUDPInIPv4Only(t *testing.T) {
	p4, p6 := v4.UDP(1, 9, nil), v6.UDP(1, 9, nil)
	p4[26], p4[27] = 0, 0
	p6[46], p6[47] = 0, 0
	require.NoError(t, nettest.VerifyChecksums(nettest.Ethernet(nettest.MACr0, nettest.MACs0, p4)))
	require.Error(t, nettest.VerifyChecksums(nettest.Ethernet(nettest.MACr0, nettest.MACs0, p6)))
}

func FuzzVerifyChecksums(f *testing.F) {
	f.Add(nettest.Ethernet(nettest.MACr0, nettest.MACs0, v4.UDP(1, 9, nil)))
	f.Add(nettest.Ethernet(nettest.MACr0, nettest.MACs0, v6.Echo(1, 9, nil)))
	f.Fuzz(func(t *testing.T, frame []byte) { _ = nettest.VerifyChecksums(frame) })
}

func is(frame []byte) func(nettest.Frame) bool {
	return func(f nettest.Frame) bool { return bytes.Equal(f.Data, frame) }
}

func TestPacketConn(t *testing.T) {
	top := nettest.T0(t)
	src, err := top.Src.OpenPacket("s0")
	require.NoError(t, err)
	defer src.Close()
	rtr, err := top.Rtr.OpenPacket("r0")
	require.NoError(t, err)
	defer rtr.Close()

	for i, frame := range [][]byte{
		top.P(),
		top.P6(),
		nettest.EthernetType(nettest.MACr0, nettest.MACs0, 0x8100, append([]byte{0x20, 100, 8, 0}, v4.UDP(1, 9, nil)...)),
		nettest.EthernetType(nettest.MACr0, nettest.MACs0, 0x88a8, append([]byte{0, 208, 0x81, 0, 0, 4, 8, 0}, v4.UDP(1, 9, nil)...)),
	} {
		require.NoError(t, src.Send(frame))
		got, err := rtr.Expect(5*time.Second, is(frame))
		require.NoError(t, err, i)
		require.False(t, got.Partial)
	}

	partial := top.P()
	require.NoError(t, src.SendPartial(partial, 34, 6))
	got, err := rtr.Expect(5*time.Second, is(partial))
	require.NoError(t, err)
	require.Equal(t, [3]any{true, 34, 6}, [3]any{got.Partial, got.ChecksumStart, got.ChecksumOffset})

	_, err = src.Expect(50*time.Millisecond, is(partial))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "own frames are not received")

	for range 3 {
		require.NoError(t, src.Send(top.P()))
	}
	frames, err := rtr.Collect(100*time.Millisecond, is(top.P()))
	require.NoError(t, err)
	require.Len(t, frames, 3)
	dropped, err := rtr.Dropped()
	require.NoError(t, err)
	require.Zero(t, dropped)
}

// What the kernel's own UDP leaves unfinished on a veth is what weir has to complete: the socket must show it.
func TestPacketConnShowsPartialChecksums(t *testing.T) {
	top := nettest.T0(t)
	rtr, err := top.Rtr.OpenPacket("r0")
	require.NoError(t, err)
	defer rtr.Close()
	c, err := top.Src.Dial(t.Context(), "udp", netip.AddrPortFrom(nettest.AddrR0, 9).String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("hello"))
	require.NoError(t, err)
	got, err := rtr.Expect(5*time.Second, func(f nettest.Frame) bool { return bytes.HasSuffix(f.Data, []byte("hello")) })
	require.NoError(t, err)
	require.True(t, got.Partial)
	require.Equal(t, 34, got.ChecksumStart)
	require.Equal(t, 6, got.ChecksumOffset)
	require.Error(t, nettest.VerifyChecksums(got.Data))
}
