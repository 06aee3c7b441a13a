package xdpprog

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// frameTo is a frame to be forwarded, of 60 bytes for IPv4 and 74 for IPv6.
func frameTo(dst netip.Addr) []byte {
	if dst.Is4() {
		f := transit4(60)
		copy(f[30:], dst.AsSlice())
		return f
	}
	f := transit6(74)
	copy(f[38:], dst.AsSlice())
	return f
}

func slotOf(dst netip.Addr) uint64 {
	high, low, _ := split(dst)
	return hash(high, low)
}

// collide returns the n-th other address of dst's family that has dst's slot.
func collide(dst netip.Addr, n int) netip.Addr {
	for b := dst.AsSlice(); ; {
		at := len(b) - 4
		binary.BigEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:])+0x00010001)
		a, _ := netip.AddrFromSlice(b)
		if slotOf(a) == slotOf(dst) && !a.IsMulticast() {
			if n == 0 {
				return a
			}
			n--
		}
	}
}

// A destination's slot holds what was learnt last, and a frame is refused if that is its own destination and the egress is shut.
func TestShutEgress(t *testing.T) {
	type known struct {
		dst    string
		egress int
	}
	const both = 1<<3 | 1<<63
	other4 := collide(netip.MustParseAddr("10.0.2.2"), 0).String()
	other6 := collide(netip.MustParseAddr("2001:db8:2::2"), 0).String()
	for _, tc := range []struct {
		name     string
		learn    []known
		shut     uint64
		dropped  []string
		admitted []string
	}{
		{"nothing known", nil, ^uint64(0), nil, []string{"10.0.2.2", "2001:db8:2::2", "0.0.0.0", "::"}},
		{"nothing shut", []known{{"10.0.2.2", 3}, {"2001:db8:2::2", 63}}, 0, nil, []string{"10.0.2.2", "2001:db8:2::2"}},
		{"v4", []known{{"10.0.2.2", 3}}, 1 << 3, []string{"10.0.2.2"}, []string{"10.0.2.3", "10.0.3.2", "2.2.0.10", "::", "::10.0.2.2", "::ffff:10.0.2.2"}},
		{"v6", []known{{"2001:db8:2::2", 3}}, 1 << 3, []string{"2001:db8:2::2"}, []string{"2001:db8:2::3", "2001:db8:3::2", "::2", "2001:db8:2::"}},
		{"v6 that looks like v4", []known{{"::a00:202", 3}, {"::202:a", 3}, {"0:0:0:0:a00:202::", 3}, {"::ffff:10.0.2.2", 3}}, 1 << 3,
			[]string{"::a00:202", "::202:a", "::ffff:10.0.2.2"}, []string{"10.0.2.2"}},
		{"v6 over v4 of the same words", []known{{"10.0.2.2", 3}, {"0:0:0:0:a00:202::", 4}}, 1 << 3, nil, []string{"10.0.2.2", "0:0:0:0:a00:202::"}},
		{"v4 over v6 of the same words", []known{{"0:0:0:0:a00:202::", 3}, {"10.0.2.2", 3}}, 1 << 3, []string{"10.0.2.2"}, []string{"0:0:0:0:a00:202::"}},
		{"zero addresses", []known{{"0.0.0.0", 3}}, 1 << 3, []string{"0.0.0.0"}, []string{"::", "10.0.2.2"}},
		{"first egress", []known{{"10.0.2.2", 0}}, 1, []string{"10.0.2.2"}, nil},
		{"last egress", []known{{"2001:db8:2::2", 63}}, 1 << 63, []string{"2001:db8:2::2"}, nil},
		{"another egress is shut", []known{{"10.0.2.2", 4}, {"2001:db8:2::2", 5}}, both, nil, []string{"10.0.2.2", "2001:db8:2::2"}},
		{"several are shut", []known{{"10.0.2.2", 3}, {"2001:db8:2::2", 63}, {"10.0.2.9", 62}}, both,
			[]string{"10.0.2.2", "2001:db8:2::2"}, []string{"10.0.2.9"}},
		{"egress out of range", []known{{"10.0.2.2", 64}, {"2001:db8:2::2", -1}}, ^uint64(0), nil, []string{"10.0.2.2", "2001:db8:2::2"}},
		{"zone", []known{{"2001:db8:2::2%eth0", 3}}, both, []string{"2001:db8:2::2"}, nil},
		{"moved to an open egress", []known{{"10.0.2.2", 3}, {"10.0.2.2", 4}}, both, nil, []string{"10.0.2.2"}},
		{"moved to one that is shut", []known{{"10.0.2.2", 4}, {"10.0.2.2", 3}}, both, []string{"10.0.2.2"}, nil},
		{"two v4 in a slot", []known{{other4, 3}, {"10.0.2.2", 3}}, both, []string{"10.0.2.2"}, []string{other4}},
		{"two v4 in a slot, the other way", []known{{"10.0.2.2", 3}, {other4, 3}}, both, []string{other4}, []string{"10.0.2.2"}},
		{"two v6 in a slot", []known{{other6, 3}, {"2001:db8:2::2", 3}}, both, []string{"2001:db8:2::2"}, []string{other6}},
		{"two v6 in a slot, the other way", []known{{"2001:db8:2::2", 3}, {other6, 63}}, both, []string{other6}, []string{"2001:db8:2::2"}},
		{"loses its slot to one whose egress is open", []known{{"10.0.2.2", 3}, {other4, 9}}, both, nil, []string{"10.0.2.2", other4}},
	} {
		// verdicts sends every destination and compares what the door did with it.
		verdicts := func(t *testing.T, d *Door, send func(netip.Addr)) {
			t.Helper()
			for want, addrs := range map[Counters][]string{{Seen: 1, DroppedEgress: 1}: tc.dropped, {Seen: 1, DroppedNoCredit: 1}: tc.admitted} {
				for _, a := range addrs {
					var before, after Counters
					d.Counters(&before)
					send(netip.MustParseAddr(a))
					d.Counters(&after)
					before.Add(&want)
					require.Equal(t, before, after, a)
					require.Equal(t, after.Seen, after.Sum())
				}
			}
		}
		set := func(d *Door) {
			for _, k := range tc.learn {
				d.Learn(netip.MustParseAddr(k.dst), k.egress)
			}
			d.SetShut(tc.shut)
		}
		t.Run(tc.name, func(t *testing.T) {
			t.Run("plain", func(t *testing.T) {
				d := NewDoor()
				set(&d.Door)
				verdicts(t, &d.Door, func(a netip.Addr) { require.False(t, d.AdmitTo(a)) })
			})
			modes(t, func(t *testing.T, mode AttachMode) {
				p := newPort(t, mode)
				set(p.Door(0))
				verdicts(t, p.Door(0), func(a netip.Addr) {
					require.Equal(t, xdpDrop, run(t, p.program, frameTo(a), nil))
				})
			})
		})
	}
}

// Short frames, frames in fragments, and frames of which little is linear: the destination counts as soon as it is there.
func TestShutEgressWhateverTheFrame(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		d := p.Door(0)
		v4, v6 := netip.MustParseAddr("10.0.2.2"), netip.MustParseAddr("2001:db8:2::2")
		d.Learn(v4, 1)
		d.Learn(v6, 1)
		d.Learn(netip.MustParseAddr("0.0.0.0"), 1) // what a head that was not filled would look like
		d.Learn(netip.IPv6Unspecified(), 1)
		d.SetShut(1 << 1)
		// A frame that is not linear can be had since 6.18.
		_, err := tryRun(p.program, transit(), &xdpMD{DataEnd: 14})
		nonlinear := err == nil
		for _, dst := range []netip.Addr{v4, v6} {
			whole := 34
			if dst.Is6() {
				whole = 54
			}
			for _, n := range slices.Concat(seq(14, 60), []int{74, 1514, 4000, 9000}) {
				frame := numbered(frameTo(dst), n)
				for _, linear := range []int{0, 14, 33, 34, 53, 54, 55} {
					var md *xdpMD
					if linear > 0 {
						if linear >= n || !nonlinear {
							continue
						}
						md = &xdpMD{DataEnd: uint32(linear)}
					}
					want := Counters{Seen: 1}
					if n >= whole {
						want.DroppedEgress++
					} else {
						want.DroppedNoCredit++
					}
					before := p.Counters()
					want.Add(&before)
					require.Equal(t, xdpDrop, run(t, p.program, frame, md))
					require.Equal(t, want, p.Counters(), "%s, %d bytes, %d linear", dst, n, linear)
				}
			}
		}
	})
}

func seq(from, to int) (s []int) {
	for i := from; i <= to; i++ {
		s = append(s, i)
	}
	return s
}

// What else the door decides comes where doc.go says, and a queue knows its own destinations only.
func TestShutEgressAmongTheRest(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		require.NoError(t, p.SetSocket(0, newXSK(t)))
		d := p.Door(0)
		dst := netip.MustParseAddr("10.0.2.2")
		send := func(want Counters, verdict uint32) {
			t.Helper()
			before := p.Counters()
			want.Seen = 1
			want.Add(&before)
			require.Equal(t, verdict, run(t, p.program, frameTo(dst), nil))
			require.Equal(t, want, p.Counters())
		}
		p.Door(1).Learn(dst, 2)
		p.Door(3).Learn(dst, 2)
		d.SetShut(1 << 2)
		d.Grant(100)
		send(Counters{Redirected: 1}, xdpRedirect)
		d.Learn(dst, 2)
		p.shared.elems[0].maxLen.Store(20)
		send(Counters{DroppedEgress: 1}, xdpDrop)
		p.shared.elems[0].maxLen.Store(0)
		require.EqualValues(t, 1, d.Spent())
		d.SetUnlimited(true)
		send(Counters{DroppedEgress: 1}, xdpDrop)
		d.SetGate(1)
		send(Counters{DroppedGate: [NumReasons]uint64{1}}, xdpDrop)
		d.Teach(9)
		send(Counters{Lessons: 1}, xdpPass)
		d.SetGate(0)
		d.SetShut(1 << 3)
		send(Counters{Redirected: 1}, xdpRedirect)
		d.SetShut(1 << 2)
		require.NoError(t, p.SetLocal([]netip.Prefix{netip.PrefixFrom(dst, 32)}))
		send(Counters{Passed: [NumClasses]uint64{ClassLocal: 1}}, xdpPass)
	})
}

func TestForget(t *testing.T) {
	p := newPort(t, AttachNative)
	d := p.Door(0)
	a, b := netip.MustParseAddr("10.0.2.2"), netip.MustParseAddr("2001:db8:2::2")
	send := func(dst netip.Addr, refused bool) {
		t.Helper()
		before := p.Counters().DroppedEgress
		run(t, p.program, frameTo(dst), nil)
		require.Equal(t, refused, p.Counters().DroppedEgress > before, "%s", dst)
	}
	d.SetShut(^uint64(0))
	d.Forget()
	send(a, false)
	for egress := range NumEgresses {
		d.Forget()
		d.Learn(a, egress)
		send(a, true)
		send(b, false)
		d.Learn(b, egress)
		d.Forget()
		send(a, false)
		send(b, false)
		d.Learn(b, egress) // known before, and void since
		send(a, false)
		send(b, true)
	}
	writes := d.writes
	d.Learn(b, NumEgresses-1)
	require.Equal(t, writes, d.writes, "what is known is not written again")
	p.Door(1).Learn(a, 1)
	d.Forget()
	require.EqualValues(t, 1<<8|1, p.Door(1).destinations.slots[slotOf(a)].tag.Load(), "of its own queue only")
	require.Zero(t, p.Door(1).mem.forgotten.Load())
}

// Learning after the port is closed has no memory to write to.
func TestLearnAfterClose(t *testing.T) {
	p := newPort(t, AttachNative)
	require.NoError(t, p.Close())
	d := p.Door(0)
	d.Learn(netip.MustParseAddr("10.0.2.2"), 1)
	d.SetShut(2)
	d.Forget()
	require.Zero(t, d.writes)
}

// mixtures returns two addresses and two more that are made of the halves of the first two, all with one slot.
func mixtures(r *rand.Rand) (a, b, c, d netip.Addr) {
	addr := func(high, low uint64) netip.Addr {
		var x [16]byte
		binary.LittleEndian.PutUint64(x[:8], high)
		binary.LittleEndian.PutUint64(x[8:], low)
		return netip.AddrFrom16(x)
	}
	const h1, h2 = 0xb80d0120, 0x0100b80d0120 // 2001:db8::/64, 2001:db8:1::/64
	of := map[[2]uint64]uint64{}              // low halves by their slots under h1 and h2
	for {
		low := r.Uint64()
		key := [2]uint64{hash(h1, low), hash(h2, low)}
		if other, ok := of[key]; ok && key[0] == key[1] {
			return addr(h1, low), addr(h2, other), addr(h1, other), addr(h2, low)
		}
		of[key] = low
	}
}

// While a slot changes hands, the program never takes for learnt what was not: neither an address made of two, nor one whose egress was
// another's.
func TestShutEgressWhileLearning(t *testing.T) {
	p := newPort(t, AttachNative)
	d := p.Door(0)
	a, b, c, e := mixtures(rand.New(rand.NewPCG(1, 2)))
	require.Equal(t, []uint64{slotOf(a), slotOf(a), slotOf(a)}, []uint64{slotOf(b), slotOf(c), slotOf(e)})
	// open is learnt as well, for an egress that is not shut.
	open := collide(a, 3)
	d.SetShut(1 << 5)

	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() {
			d.Learn(a, 5)
			d.Learn(b, 5)
			d.Learn(open, 6)
		}
	})
	defer wg.Wait()
	defer stop.Store(true)
	for p.Door(0).destinations.slots[slotOf(a)].tag.Load() == 0 {
		runtime.Gosched()
	}
	for range 10 {
		for _, never := range []netip.Addr{c, e, open} {
			before := p.Counters().DroppedEgress
			require.NoError(t, repeat(p.program, frameTo(never), 500_000))
			require.Equal(t, before, p.Counters().DroppedEgress, "%s", never)
		}
	}
	stop.Store(true)
	wg.Wait()
	// At rest what was learnt last is refused.
	d.Learn(a, 5)
	before := p.Counters().DroppedEgress
	run(t, p.program, frameTo(a), nil)
	require.Equal(t, before+1, p.Counters().DroppedEgress)
}

// The same without a kernel, where the race detector sees it.
func TestPlainDoorWhileLearning(t *testing.T) {
	d := NewDoor()
	a, b, c, e := mixtures(rand.New(rand.NewPCG(3, 4)))
	d.SetShut(1 << 5)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 100_000 {
			d.Learn(a, 5)
			d.Learn(b, 5)
			if i%64 == 0 {
				d.Forget()
			}
		}
	})
	for range 50_000 {
		d.AdmitTo(c)
		d.AdmitTo(e)
	}
	wg.Wait()
	var counters Counters
	d.Counters(&counters)
	require.Equal(t, Counters{Seen: 100_000, DroppedNoCredit: 100_000}, counters)
}

// Go and the program find a destination in the same slot.
func FuzzLearn(f *testing.F) {
	p := newPort(f, AttachNative)
	require.NoError(f, p.SetLocal(nil))
	d := p.Door(0)
	d.SetShut(1 << 7)
	for _, s := range []string{"10.0.2.2", "0.0.0.0", "255.255.255.254", "2001:db8:2::2", "::", "fe80::1", "::ffff:10.0.2.2", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"} {
		f.Add(netip.MustParseAddr(s).AsSlice())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		dst, ok := netip.AddrFromSlice(b)
		if !ok || dst.IsMulticast() || dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			t.Skip("no destination of a frame to be forwarded")
		}
		before := p.Counters()
		if len(b) == 4 {
			d.Learn4([4]byte(b), 7)
		} else {
			d.Learn6((*[16]byte)(b), 7)
		}
		writes := d.writes
		d.Learn(dst, 7)
		require.Equal(t, writes, d.writes, "%s is known", dst)
		require.Equal(t, xdpDrop, run(t, p.program, frameTo(dst), nil))
		want := Counters{Seen: 1, DroppedEgress: 1}
		want.Add(&before)
		require.Equal(t, want, p.Counters(), "%s", dst)
	})
}

// Neighbours, as hosts of a subnet or subnets of a network are, share slots no more often than random addresses do, of which 256 are
// expected in 226 slots.
func TestHashSpreads(t *testing.T) {
	for _, base := range []string{"10.1.2.1", "10.0.0.254", "2001:db8::1", "2001:db8:1:2:3:4:5:6"} {
		b := netip.MustParseAddr(base).AsSlice()
		for at := range b {
			slots := map[uint64]bool{}
			for i := range 256 {
				near := slices.Clone(b)
				near[at] = byte(i)
				a, _ := netip.AddrFromSlice(near)
				require.Less(t, slotOf(a), uint64(numSlots))
				slots[slotOf(a)] = true
			}
			require.Greater(t, len(slots), 210, "%s, byte %d", base, at)
		}
	}
}

func BenchmarkDoorLearn(b *testing.B) {
	d := NewDoor()
	dst := netip.MustParseAddr("10.0.2.2")
	other := collide(dst, 0)
	frame4, frame6 := frameTo(dst), transit6(60)
	b.Run("known v4", func(b *testing.B) {
		for b.Loop() {
			d.Learn4([4]byte(frame4[30:]), 3)
		}
	})
	b.Run("known v6", func(b *testing.B) {
		for b.Loop() {
			d.Learn6((*[16]byte)(frame6[38:]), 3)
		}
	})
	b.Run("known v6 Addr", func(b *testing.B) {
		for b.Loop() {
			d.Learn(netip.AddrFrom16([16]byte(frame6[38:])), 3)
		}
	})
	b.Run("two in a slot", func(b *testing.B) {
		for b.Loop() {
			d.Learn(dst, 3)
			dst, other = other, dst
		}
	})
	b.Run("forget", func(b *testing.B) {
		for b.Loop() {
			d.Forget()
		}
	})
}
