package xdpprog

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

var (
	broadcastMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	groupMAC     = [6]byte{0x01, 0x00, 0x5e, 0, 0, 5}
	group6MAC    = [6]byte{0x33, 0x33, 0, 0, 0, 1}
	farMAC       = [6]byte{2, 0, 0, 0, 9, 9}
)

const (
	ethIP4  = 0x0800
	ethARP  = 0x0806
	ethVLAN = 0x8100
	ethQinQ = 0x88a8
	ethIP6  = 0x86dd
	ethLLDP = 0x88cc
)

// rxCase is a frame and how it must be counted while the door is open and has a socket: nil is "redirected".
type rxCase struct {
	name  string
	frame []byte
	class any // a Class, or nil for a frame to be forwarded
}

func rxCases() []rxCase {
	v4, v6 := ip4("10.0.2.2"), ip6("2001:db8:2::2", unix.IPPROTO_UDP, 0)
	broken := func(at int, v byte) []byte {
		p := slices.Clone(v4)
		p[at] = v
		return ethernet(portMAC, ethIP4, p...)
	}
	cases := []rxCase{
		{"v4 transit", ethernet(portMAC, ethIP4, v4...), nil},
		{"v6 transit", ethernet(portMAC, ethIP6, v6...), nil},
		{"v4 unpadded 42 bytes", ethernet(portMAC, ethIP4, v4[:28]...), nil},
		{"v4 1514 bytes", pad(ethernet(portMAC, ethIP4, v4...), 1514), nil},
		{"v4 9000 bytes in fragments", pad(ethernet(portMAC, ethIP4, v4...), 9000), nil},
		{"v4 ttl 0", broken(8, 0), nil},

		// Malformed IP is the engine's business (A05).
		{"v4 ihl 3", broken(0, 0x43), nil},
		{"v4 version 5", broken(0, 0x55), nil},
		{"v4 total length 1400 in 60 bytes", broken(2, 1400>>8), nil},
		{"v4 total length 10", broken(3, 10), nil},
		{"v4 24 bytes", ethernet(portMAC, ethIP4, v4[:10]...), nil},
		{"v4 33 bytes", ethernet(portMAC, ethIP4, v4[:19]...), nil},
		{"v4 no header", ethernet(portMAC, ethIP4), nil},
		{"v6 53 bytes", ethernet(portMAC, ethIP6, v6[:39]...), nil},
		{"v6 no header", ethernet(portMAC, ethIP6), nil},
		{"v6 header only", ethernet(portMAC, ethIP6, v6[:40]...), nil},
		{"v4 header only, local", ethernet(portMAC, ethIP4, ip4("10.0.1.1")[:20]...), ClassLocal},

		{"v4 to another MAC", ethernet(farMAC, ethIP4, v4...), ClassOtherMAC},
		{"v4 to another MAC, local address", ethernet(farMAC, ethIP4, ip4("10.0.1.1")...), ClassOtherMAC},
		{"other MAC before not IP", pad(ethernet(farMAC, ethLLDP), 60), ClassOtherMAC},
		{"other MAC, last byte differs", ethernet([6]byte{2, 0, 0, 0, 1, 0}, ethIP4, v4...), ClassOtherMAC},
		{"other MAC, first byte differs", ethernet([6]byte{6, 0, 0, 0, 1, 1}, ethIP4, v4...), ClassOtherMAC},
		{"other MAC, third byte differs", ethernet([6]byte{2, 0, 1, 0, 1, 1}, ethIP4, v4...), ClassOtherMAC},

		{"LLDP", pad(ethernet([6]byte{1, 0x80, 0xc2, 0, 0, 0xe}, ethLLDP), 60), ClassNotIP},
		{"802.3 length", pad(ethernet(portMAC, 46), 60), ClassNotIP},
		{"empty frame of ours", ethernet(portMAC, 0), ClassNotIP},

		// A04: a tagged frame is never forwarded, whatever it holds.
		{"802.1Q vid 100", ethernet(portMAC, ethVLAN, append([]byte{0, 100, 0x08, 0}, v4...)...), ClassNotIP},
		{"802.1Q vid 0", ethernet(portMAC, ethVLAN, append([]byte{0, 0, 0x08, 0}, v4...)...), ClassNotIP},
		{"802.1ad over 802.1Q", ethernet(portMAC, ethQinQ, append([]byte{0, 208, 0x81, 0, 0, 4, 0x08, 0}, v4...)...), ClassNotIP},
		{"three tags", ethernet(portMAC, ethVLAN, append([]byte{0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3, 0x08, 0}, v4...)...), ClassNotIP},

		{"ARP request", pad(ethernet(broadcastMAC, ethARP), 60), ClassNeighbour},
		{"ARP reply", pad(ethernet(portMAC, ethARP), 42), ClassNeighbour},
		{"ARP reply to another", pad(ethernet(farMAC, ethARP), 42), ClassOtherMAC},
		{"neighbour solicitation to a group", ethernet([6]byte{0x33, 0x33, 0xff, 0, 0, 1}, ethIP6, ip6("ff02::1:ff00:1", unix.IPPROTO_ICMPV6, 135)...), ClassNeighbour},
		{"neighbour advertisement to us", ethernet(portMAC, ethIP6, ip6("fe80::1", unix.IPPROTO_ICMPV6, 136)...), ClassNeighbour},
		{"neighbour advertisement of 55 bytes", ethernet(portMAC, ethIP6, ip6("fe80::1", unix.IPPROTO_ICMPV6, 136)[:41]...), ClassNeighbour},
		{"router solicitation", ethernet(group6MAC, ethIP6, ip6("ff02::2", unix.IPPROTO_ICMPV6, 133)...), ClassNeighbour},
		{"redirect to us", ethernet(portMAC, ethIP6, ip6("2001:db8:1::1", unix.IPPROTO_ICMPV6, 137)...), ClassNeighbour},
		{"neighbour solicitation to a group in a frame to us", ethernet(portMAC, ethIP6, ip6("ff02::1", unix.IPPROTO_ICMPV6, 135)...), ClassNeighbour},
		{"neighbour advertisement to a third party", ethernet(portMAC, ethIP6, ip6("2001:db8:2::2", unix.IPPROTO_ICMPV6, 136)...), nil},
		{"echo to us", ethernet(portMAC, ethIP6, ip6("fe80::1", unix.IPPROTO_ICMPV6, 128)...), ClassLocal},
		{"MLD report", ethernet(group6MAC, ethIP6, ip6("ff02::16", unix.IPPROTO_ICMPV6, 143)...), ClassMulticast},
		{"MLD type 132", ethernet(group6MAC, ethIP6, ip6("ff02::2", unix.IPPROTO_ICMPV6, 132)...), ClassMulticast},
		{"type 138", ethernet(group6MAC, ethIP6, ip6("ff02::2", unix.IPPROTO_ICMPV6, 138)...), ClassMulticast},
		{"UDP that begins like a solicitation", ethernet(group6MAC, ethIP6, ip6("ff02::1", unix.IPPROTO_UDP, 135)...), ClassMulticast},

		{"v4 to a group MAC", ethernet(groupMAC, ethIP4, ip4("224.0.0.5")...), ClassMulticast},
		{"v4 unicast in a group frame", ethernet(groupMAC, ethIP4, v4...), ClassMulticast},
		{"v4 multicast in a frame to us", ethernet(portMAC, ethIP4, ip4("239.255.255.255")...), ClassMulticast},
		{"v4 multicast, lowest", ethernet(portMAC, ethIP4, ip4("224.0.0.0")...), ClassMulticast},
		{"v4 below multicast", ethernet(portMAC, ethIP4, ip4("223.255.255.255")...), nil},
		{"v4 above multicast", ethernet(portMAC, ethIP4, ip4("240.0.0.0")...), nil},
		{"v6 to a group MAC", ethernet(group6MAC, ethIP6, v6...), ClassMulticast},
		{"v6 multicast in a frame to us", ethernet(portMAC, ethIP6, ip6("ff0e::1", unix.IPPROTO_UDP, 0)...), ClassMulticast},
		{"v6 to a group MAC, no header", ethernet(group6MAC, ethIP6), ClassMulticast},

		{"v4 limited broadcast", ethernet(broadcastMAC, ethIP4, ip4("255.255.255.255")...), ClassBroadcast},
		{"v4 limited broadcast in a frame to us", ethernet(portMAC, ethIP4, ip4("255.255.255.255")...), ClassBroadcast},
		{"v4 unicast in a broadcast frame", ethernet(broadcastMAC, ethIP4, v4...), ClassBroadcast},
		{"v4 no header in a broadcast frame", ethernet(broadcastMAC, ethIP4), ClassBroadcast},
		{"v6 in a broadcast frame", ethernet(broadcastMAC, ethIP6, v6...), ClassBroadcast},

		{"v4 local", ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), ClassLocal},
		{"v4 subnet broadcast", ethernet(portMAC, ethIP4, ip4("10.0.1.255")...), ClassLocal},
		{"v4 beside local", ethernet(portMAC, ethIP4, ip4("10.0.1.3")...), nil},
		{"v6 local", ethernet(portMAC, ethIP6, ip6("2001:db8:1::1", unix.IPPROTO_TCP, 0)...), ClassLocal},
		{"v6 link local of ours", ethernet(portMAC, ethIP6, ip6("fe80::1", unix.IPPROTO_TCP, 0)...), ClassLocal},
		{"v6 link local of another", ethernet(portMAC, ethIP6, ip6("fe80::2", unix.IPPROTO_TCP, 0)...), nil},

		// A10: loopback never comes from a wire; the engine drops it.
		{"v4 loopback", ethernet(portMAC, ethIP4, ip4("127.0.0.1")...), nil},
		{"v6 loopback", ethernet(portMAC, ethIP6, ip6("::1", unix.IPPROTO_UDP, 0)...), nil},
		{"v4 zero", ethernet(portMAC, ethIP4, ip4("0.0.0.0")...), nil},
	}
	// Every length down to a bare Ethernet header: an IP frame whose destination cannot be read is the engine's.
	for n := 14; n <= 60; n++ {
		class := any(nil)
		if n >= 34 {
			class = ClassLocal
		}
		cases = append(cases, rxCase{fmt.Sprintf("v4 local cut to %d bytes", n), pad(ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), 60)[:n], class})
		class = nil
		if n >= 54 {
			class = ClassLocal
		}
		cases = append(cases, rxCase{fmt.Sprintf("v6 local cut to %d bytes", n), ethernet(portMAC, ethIP6, ip6("2001:db8:1::1", 6, 0)...)[:n], class})
	}
	return cases
}

func modes(t *testing.T, f func(t *testing.T, mode AttachMode)) {
	for _, mode := range []AttachMode{AttachNative, AttachGeneric} {
		t.Run(mode.String(), func(t *testing.T) { f(t, mode) })
	}
}

func TestRXVerdicts(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		for _, door := range []struct {
			name    string
			set     func(*testing.T, *Port)
			credit  uint64 // for each frame
			verdict uint32
			count   func(*Counters)
		}{
			{"open", func(t *testing.T, p *Port) {
				require.NoError(t, p.SetSocket(0, newXSK(t)))
			}, 1, xdpRedirect, func(c *Counters) { c.Redirected++ }},
			{"unlimited", func(t *testing.T, p *Port) {
				require.NoError(t, p.SetSocket(0, newXSK(t)))
				p.Door(0).SetUnlimited(true)
			}, 0, xdpRedirect, func(c *Counters) { c.Redirected++ }},
			{"no credit", func(t *testing.T, p *Port) {
				require.NoError(t, p.SetSocket(0, newXSK(t)))
			}, 0, xdpDrop, func(c *Counters) { c.DroppedNoCredit++ }},
			{"gate closed", func(t *testing.T, p *Port) {
				require.NoError(t, p.SetSocket(0, newXSK(t)))
				p.Door(0).SetUnlimited(true)
				p.Door(0).SetGate(1 << 1)
			}, 1, xdpDrop, func(c *Counters) { c.DroppedGate[1]++ }},
			{"no socket", func(*testing.T, *Port) {}, 1, xdpPass, func(c *Counters) { c.Passed[ClassNoSocket]++ }},
		} {
			t.Run(door.name, func(t *testing.T) {
				p := newPort(t, mode)
				door.set(t, p)
				for _, tc := range rxCases() {
					before := p.Counters()
					p.Door(0).Grant(p.Door(0).Spent() + door.credit)
					want, verdict := Counters{Seen: 1}, door.verdict
					if class, ok := tc.class.(Class); ok {
						want.Passed[class]++
						verdict = xdpPass
					} else {
						door.count(&want)
					}
					want.Add(&before)
					require.Equal(t, verdict, run(t, p.program, tc.frame, nil), tc.name)
					require.Equal(t, want, p.Counters(), tc.name)
					require.Equal(t, want.Seen, want.Sum(), tc.name)
				}
			})
		}
	})
}

// A frame that no packet buffer takes is refused before it costs a credit; one for the kernel passes whatever its length.
func TestRXTooLong(t *testing.T) {
	p := newPort(t, AttachNative)
	require.NoError(t, p.SetSocket(0, newXSK(t)))
	p.shared.elems[0].maxLen.Store(100)
	p.Door(0).Grant(10)
	long := append(transit(), make([]byte, 101-len(transit()))...)
	require.Equal(t, uint32(xdpRedirect), run(t, p.program, long[:100], nil))
	require.Equal(t, uint32(xdpDrop), run(t, p.program, long, nil))
	require.Equal(t, uint32(xdpPass), run(t, p.program, append(ethernet(portMAC, ethARP), make([]byte, 200)...), nil))
	require.Equal(t, Counters{
		Seen: 3, Redirected: 1, DroppedTooLong: 1, Passed: [NumClasses]uint64{ClassNeighbour: 1},
	}, p.Counters())
	require.EqualValues(t, 1, p.Door(0).Spent())
}

// A driver may split a frame anywhere: the verdict is the same however little of it is linear.
func TestRXLinearPart(t *testing.T) {
	p := newPort(t, AttachNative)
	if _, err := tryRun(p.program, transit(), &xdpMD{DataEnd: 14}); errors.Is(err, unix.EINVAL) {
		t.Skip("this kernel (before 6.18) cannot run a program on a frame that is not linear")
	}
	for _, tc := range rxCases() {
		for _, linear := range []uint32{14, 20, 33, 34, 54, 55} {
			if int(linear) >= len(tc.frame) {
				continue
			}
			before := p.Counters()
			run(t, p.program, tc.frame, &xdpMD{DataEnd: linear})
			want := Counters{Seen: 1}
			if class, ok := tc.class.(Class); ok {
				want.Passed[class]++
			} else {
				want.DroppedNoCredit++
			}
			want.Add(&before)
			require.Equal(t, want, p.Counters(), "%s, %d bytes linear", tc.name, linear)
		}
	}
}

// In generic mode several CPUs may run the program for one queue: nothing is lost or let through twice.
func TestRXGenericOnSeveralCPUs(t *testing.T) {
	const threads, frames = 4, 50_000
	p := newPort(t, AttachGeneric)
	_, err := p.SetLimit(ClassLocal, Limit{Rate: 1, Burst: 1000})
	require.NoError(t, err)
	for _, frame := range [][]byte{ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), transit()} {
		var wg sync.WaitGroup
		errs := make([]error, threads)
		for i := range threads {
			wg.Go(func() { errs[i] = repeat(p.program, frame, frames) })
		}
		wg.Wait()
		require.NoError(t, errors.Join(errs...))
	}
	require.Equal(t, Counters{
		Seen: 2 * threads * frames, DroppedNoCredit: threads * frames,
		Passed: [NumClasses]uint64{ClassLocal: 1000}, Limited: [NumClasses]uint64{ClassLocal: threads*frames - 1000},
	}, p.Counters())
}

func transit() []byte { return ethernet(portMAC, ethIP4, ip4("10.0.2.2")...) }

func TestRXGateReasons(t *testing.T) {
	p := newPort(t, AttachNative)
	require.NoError(t, p.SetSocket(0, newXSK(t)))
	d := p.Door(0)
	d.Grant(1)
	for _, tc := range []struct {
		gate   uint32
		reason int
	}{{1, 0}, {2, 1}, {4, 2}, {8, 3}, {16, 4}, {3, 0}, {0b11100, 2}, {0x80000000, 4}, {32, 4}, {0xffffffff, 0}} {
		before := p.Counters()
		d.SetGate(tc.gate)
		require.Equal(t, xdpDrop, run(t, p.program, transit(), nil))
		want := Counters{Seen: 1}
		want.DroppedGate[tc.reason]++
		want.Add(&before)
		require.Equal(t, want, p.Counters(), "gate %#x", tc.gate)
	}
	require.Zero(t, d.Spent(), "a closed gate spends nothing")
	d.SetGate(0)
	require.Equal(t, xdpRedirect, run(t, p.program, transit(), nil))
}

func TestRXCreditsAreSpentExactly(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		require.NoError(t, p.SetSocket(0, newXSK(t)))
		d := p.Door(0)
		send := func(n int) (redirected int) {
			for range n {
				if run(t, p.program, transit(), nil) == xdpRedirect {
					redirected++
				}
			}
			return redirected
		}
		require.Zero(t, send(3))
		d.Grant(5)
		require.Equal(t, 5, send(8))
		require.EqualValues(t, 5, d.Spent())
		d.Grant(d.Spent() + 2)
		require.Equal(t, xdpPass, run(t, p.program, ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), nil))
		require.Equal(t, 2, send(3), "a frame for the host spends no credit")
		d.Grant(3)
		require.Zero(t, send(1), "a total below what is spent lets none in")
		d.SetUnlimited(true)
		require.Equal(t, 4, send(4))
		require.EqualValues(t, 7, d.Spent(), "unlimited spends none")
		d.SetUnlimited(false)
		require.Zero(t, send(1))

		require.NoError(t, p.ClearSocket(0))
		d.Grant(d.Spent() + 1)
		require.Equal(t, xdpPass, run(t, p.program, transit(), nil))
		require.EqualValues(t, 7, d.Spent(), "a frame that found no socket spends none")
		require.Equal(t, Counters{Seen: 22, Redirected: 11, DroppedNoCredit: 9, Passed: [NumClasses]uint64{ClassLocal: 1, ClassNoSocket: 1}}, p.Counters())
	})
}

func TestRXSocketThatCloses(t *testing.T) {
	p := newPort(t, AttachNative)
	fd := newXSK(t)
	dup, err := unix.Dup(fd)
	require.NoError(t, err)
	require.NoError(t, unix.Close(fd))
	require.NoError(t, p.SetSocket(0, dup))
	p.Door(0).SetUnlimited(true)
	require.Equal(t, xdpRedirect, run(t, p.program, transit(), nil))
	require.NoError(t, unix.Close(dup))
	require.Equal(t, xdpPass, run(t, p.program, transit(), nil))
	require.NoError(t, p.ClearSocket(0), "clearing what is gone already")
}

func TestRXLimits(t *testing.T) {
	frames := [NumClasses][]byte{
		ClassOtherMAC:  ethernet(farMAC, ethIP4, ip4("10.0.2.2")...),
		ClassNotIP:     pad(ethernet(portMAC, ethLLDP), 60),
		ClassNeighbour: pad(ethernet(broadcastMAC, ethARP), 60),
		ClassMulticast: ethernet(groupMAC, ethIP4, ip4("224.0.0.5")...),
		ClassBroadcast: ethernet(broadcastMAC, ethIP4, ip4("255.255.255.255")...),
		ClassLocal:     ethernet(portMAC, ethIP4, ip4("10.0.1.1")...),
		ClassNoSocket:  transit(),
	}
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		p.Door(0).SetUnlimited(true)
		for c := ClassOtherMAC; c < NumClasses; c++ {
			// One frame per second: the test sees the burst and nothing else.
			granted, err := p.SetLimit(c, Limit{Rate: 1, Burst: 10})
			require.NoError(t, err)
			require.Equal(t, Limit{Rate: 1, Burst: 10}, granted)
			before := p.Counters()
			for i := range 25 {
				want := xdpPass
				if i >= 10 {
					want = xdpDrop
				}
				require.Equal(t, want, run(t, p.program, frames[c], nil), "class %s frame %d", c, i)
			}
			want := Counters{Seen: 25}
			want.Passed[c], want.Limited[c] = 10, 15
			want.Add(&before)
			require.Equal(t, want, p.Counters(), "class %s", c)

			// Other classes have room; none passes; then all do.
			other := (c+1)%(NumClasses-1) + 1
			if other > c {
				require.Equal(t, xdpPass, run(t, p.program, frames[other], nil), "class %s while %s is used up", other, c)
			}
			_, err = p.SetLimit(c, Limit{})
			require.NoError(t, err)
			require.Equal(t, xdpDrop, run(t, p.program, frames[c], nil))
		}
	})
}

func TestRXLimitRefills(t *testing.T) {
	p := newPort(t, AttachNative)
	// A million per second, one at a time: by the time of the next run there is room again.
	_, err := p.SetLimit(ClassLocal, Limit{Rate: 1_000_000, Burst: 1})
	require.NoError(t, err)
	for range 100 {
		require.Equal(t, xdpPass, run(t, p.program, ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), nil))
	}
}

func TestSetLimitBounds(t *testing.T) {
	p := newPort(t, AttachNative)
	granted, err := p.SetLimit(ClassLocal, Limit{Rate: 300_000, Burst: 7})
	require.NoError(t, err)
	require.Equal(t, Limit{Rate: 300_030, Burst: 7}, granted, "3333 ns")
	for _, l := range []Limit{{Rate: MaxRate + 1}, {Rate: 1, Burst: maxBurst + 1}} {
		_, err = p.SetLimit(ClassLocal, l)
		require.Error(t, err)
	}
	_, err = p.SetLimit(NumClasses, Limit{})
	require.Error(t, err)
}

func TestRXSetMAC(t *testing.T) {
	p := newPort(t, AttachNative)
	frame := pad(ethernet(farMAC, ethARP), 60)
	run(t, p.program, frame, nil)
	require.NoError(t, p.SetMAC(farMAC))
	run(t, p.program, frame, nil)
	require.Equal(t, Counters{Seen: 2, Passed: [NumClasses]uint64{ClassOtherMAC: 1, ClassNeighbour: 1}}, p.Counters())
	require.Error(t, p.SetMAC(groupMAC))
}

func TestSetLocal(t *testing.T) {
	p := newPort(t, AttachNative)
	p.Door(0).SetUnlimited(true)
	local := func(dst string) bool {
		addr := netip.MustParseAddr(dst)
		frame := ethernet(portMAC, ethIP6, ip6("::2", unix.IPPROTO_TCP, 0)...)
		if addr.Is4() {
			frame = ethernet(portMAC, ethIP4, ip4(dst)...)
		} else {
			copy(frame[38:], addr.AsSlice())
		}
		before := p.Counters().Passed[ClassLocal]
		run(t, p.program, frame, nil)
		return p.Counters().Passed[ClassLocal] > before
	}
	set := func(prefixes ...string) {
		var s []netip.Prefix
		for _, pfx := range prefixes {
			s = append(s, netip.MustParsePrefix(pfx))
		}
		require.NoError(t, p.SetLocal(s))
	}
	for _, tc := range []struct {
		set  []string
		in   []string
		out  []string
		pfx4 uint32
		pfx6 uint32
	}{
		{nil, nil, []string{"10.0.1.1", "2001:db8:1::1", "10.9.0.1"}, 0, 0},
		{[]string{"10.0.1.1/32", "2001:db8:1::1/128"}, []string{"10.0.1.1", "2001:db8:1::1"}, []string{"10.0.1.2", "2001:db8:1::"}, 0, 0},
		{[]string{"10.0.1.2/32", "10.9.0.0/16", "2001:db8:9::/48"}, []string{"10.0.1.2", "10.9.0.0", "10.9.255.255", "2001:db8:9::7"},
			[]string{"10.0.1.1", "10.8.255.255", "10.10.0.0", "2001:db8:1::1", "2001:db8:8::1"}, 1, 1},
		{[]string{"10.9.1.7/24", "10.9.0.0/16", "10.9.1.0/24", "10.9.1.3/32"}, []string{"10.9.1.3", "10.9.1.9", "10.9.2.1"}, []string{"10.0.1.2"}, 2, 0},
		{[]string{"10.9.1.0/24"}, []string{"10.9.1.3"}, []string{"10.9.2.1"}, 1, 0},
		{[]string{"127.0.0.0/8", "127.0.0.1/32", "::1/128", "ff00::/8"}, nil, []string{"127.0.0.1", "::1", "10.9.1.3"}, 0, 0},
		{[]string{"0.0.0.0/0", "::/0"}, []string{"10.0.0.1", "127.0.0.1", "2001:db8::1"}, nil, 1, 1},
		{nil, nil, []string{"10.0.0.1", "2001:db8::1"}, 0, 0},
	} {
		set(tc.set...)
		for _, a := range tc.in {
			require.True(t, local(a), "%s in %v", a, tc.set)
		}
		for _, a := range tc.out {
			require.False(t, local(a), "%s in %v", a, tc.set)
		}
		require.Equal(t, tc.pfx4, p.shared.elems[0].numPrefixes4.Load())
		require.Equal(t, tc.pfx6, p.shared.elems[0].numPrefixes6.Load())
	}
	require.Error(t, p.SetLocal([]netip.Prefix{{}}))
}

func TestSetLocalBeyondItsRoom(t *testing.T) {
	p := newPort(t, AttachNative)
	many := make([]netip.Prefix, 1500)
	for i := range many {
		many[i] = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	err := p.SetLocal(many)
	require.ErrorIs(t, err, unix.E2BIG)
	require.Contains(t, err.Error(), "more than 1024")
	require.Len(t, p.local, len(localAddrs)-3, "refused as a whole")

	require.NoError(t, p.SetLocal(many[:1024]))
	require.NoError(t, p.SetLocal(many[400:1424]), "room for old and new")
	require.EqualValues(t, 1024, p.shared.elems[0].numPrefixes4.Load())
}
