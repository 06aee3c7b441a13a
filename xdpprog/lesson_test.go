package xdpprog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// numbered fills a frame up to n bytes with values that are all different from their neighbours, so that a moved or lost byte shows.
func numbered(frame []byte, n int) []byte {
	for i := len(frame); i < n; i++ {
		frame = append(frame, byte(i*7+1))
	}
	return frame[:n]
}

func transit4(n int) []byte { return numbered(ethernet(portMAC, ethIP4, ip4("10.0.2.2")[:20]...), n) }

func transit6(n int) []byte {
	return numbered(ethernet(portMAC, ethIP6, ip6("2001:db8:2::2", unix.IPPROTO_UDP, 7)...), n)
}

// lessonOf is what a frame looks like as a lesson, built without the program's shortcuts.
func lessonOf(frame []byte, port uint16) []byte {
	out := slices.Clone(frame)
	ip := out[14:34]
	binary.BigEndian.PutUint16(out[12:], ethIP4)
	clear(out[14:42])
	ip[0], ip[8], ip[9] = 0x45, 1, unix.IPPROTO_UDP
	binary.BigEndian.PutUint16(ip[2:], uint16(len(frame)-14))
	copy(ip[16:], []byte{255, 255, 255, 255})
	binary.BigEndian.PutUint16(ip[10:], nettest.Checksum(0, ip))
	binary.BigEndian.PutUint16(out[36:], port)
	binary.BigEndian.PutUint16(out[38:], uint16(len(frame)-34))
	return out
}

// runOut returns the verdict and the frame as the program leaves it.
func runOut(t testing.TB, prog *ebpf.Program, frame []byte, md *xdpMD) (uint32, []byte) {
	t.Helper()
	opts := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256)}
	if md != nil {
		opts.Context = *md
	}
	verdict, err := prog.Run(opts)
	require.NoError(t, err)
	return verdict, opts.DataOut
}

// taken asserts that a frame becomes a lesson, and that nothing of it is lost.
func taken(t testing.TB, p *Port, frame []byte, port uint16, md *xdpMD) {
	t.Helper()
	before := p.Counters()
	verdict, out := runOut(t, p.program, frame, md)
	require.Equal(t, xdpPass, verdict)
	require.Equal(t, lessonOf(frame, port), out)
	require.Zero(t, nettest.Checksum(0, out[14:34]), "of the IPv4 header")
	head := p.Door(0).LessonHead()
	require.Equal(t, frame, append(head[:], out[42:]...))
	require.Equal(t, len(frame), p.Door(0).LessonLen())
	want := Counters{Seen: 1, Lessons: 1}
	want.Add(&before)
	require.Equal(t, want, p.Counters())
	require.Equal(t, want.Seen, want.Sum())
}

// refused asserts that a frame stays as it is and is counted as without a request.
func refused(t testing.TB, p *Port, frame []byte, verdict uint32, want Counters, md *xdpMD) {
	t.Helper()
	before := p.Counters()
	head, length := p.Door(0).LessonHead(), p.Door(0).LessonLen()
	got, out := runOut(t, p.program, frame, md)
	require.Equal(t, verdict, got)
	require.Equal(t, frame, out)
	want.Seen = 1
	want.Add(&before)
	require.Equal(t, want, p.Counters())
	require.Equal(t, head, p.Door(0).LessonHead())
	require.Equal(t, length, p.Door(0).LessonLen())
}

func TestLessonIsTheFrame(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		for _, n := range []int{44, 45, 60, 61, 100, 575, 1499, 1514, 2047, 2048} {
			for port, frame := range map[uint16][]byte{1: transit4(n), 258: transit4(n), 65535: transit6(max(n, 54))} {
				p.Door(0).Teach(port)
				taken(t, p, frame, port, nil)
				refused(t, p, frame, xdpDrop, Counters{DroppedNoCredit: 1}, nil)
			}
		}
	})
}

// What the frame is does not matter, as long as it is to be forwarded and long enough.
func TestLessonIsOnlyMadeOfFramesToBeForwarded(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		for _, tc := range rxCases() {
			t.Run(tc.name, func(t *testing.T) {
				p.Door(0).Teach(700)
				class, kernel := tc.class.(Class)
				switch {
				case kernel:
					want := Counters{}
					want.Passed[class]++
					refused(t, p, tc.frame, xdpPass, want, nil)
				case len(tc.frame) < 44 || len(tc.frame) > 2048:
					refused(t, p, tc.frame, xdpDrop, Counters{DroppedNoCredit: 1}, nil)
				default:
					taken(t, p, tc.frame, 700, nil)
				}
				// A frame that did not suit leaves the request open.
				if kernel || len(tc.frame) < 44 || len(tc.frame) > 2048 {
					taken(t, p, transit(), 700, nil)
				}
			})
		}
	})
}

func TestLessonLengths(t *testing.T) {
	p := newPort(t, AttachNative)
	p.Door(0).Teach(9)
	for _, n := range []int{34, 41, 42, 43, 2049, 3000, 9000} {
		refused(t, p, transit4(n), xdpDrop, Counters{DroppedNoCredit: 1}, nil)
	}
	p.shared.elems[0].maxLen.Store(1000)
	refused(t, p, transit4(1001), xdpDrop, Counters{DroppedTooLong: 1}, nil)
	taken(t, p, transit4(1000), 9, nil)
}

// A lesson comes before everything that could keep a frame out, and spends nothing.
func TestLessonComesBeforeTheGate(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		for name, set := range map[string]func(*Port){
			"no credit, no socket": func(*Port) {},
			"gate closed":          func(p *Port) { p.Door(0).SetGate(1 << 2) },
			"credit":               func(p *Port) { require.NoError(t, p.SetSocket(0, newXSK(t))); p.Door(0).Grant(10) },
			"unlimited":            func(p *Port) { require.NoError(t, p.SetSocket(0, newXSK(t))); p.Door(0).SetUnlimited(true) },
		} {
			t.Run(name, func(t *testing.T) {
				p := newPort(t, mode)
				set(p)
				p.Door(0).Teach(9)
				taken(t, p, transit(), 9, nil)
				require.Zero(t, p.Door(0).Spent())
			})
		}
	})
}

func TestTeachAsksOnce(t *testing.T) {
	p := newPort(t, AttachNative)
	d := p.Door(0)
	none := func(t *testing.T) {
		t.Helper()
		refused(t, p, transit(), xdpDrop, Counters{DroppedNoCredit: 1}, nil)
	}
	none(t)
	require.Zero(t, d.LessonLen())
	d.Teach(5)
	taken(t, p, transit4(99), 5, nil)
	none(t)
	d.Teach(5)
	taken(t, p, transit4(98), 5, nil)
	none(t)
	d.Teach(5)
	d.Teach(5)
	d.Teach(6)
	taken(t, p, transit6(97), 6, nil)
	none(t)
	d.Teach(5)
	d.Teach(0)
	none(t)
	d.Teach(0)
	none(t)
	require.Equal(t, 97, d.LessonLen(), "the last lesson's")

	// The number of a request comes round again after 65536.
	d.Teach(5)
	taken(t, p, transit(), 5, nil)
	for range 1<<16 - 1 {
		d.Teach(0)
	}
	d.Teach(5)
	taken(t, p, transit(), 5, nil)
	none(t)
}

// A driver that splits headers: the bytes that a lesson overwrites must lie in the linear part; the rest need not.
func TestLessonLinearPart(t *testing.T) {
	p := newPort(t, AttachNative)
	if _, err := tryRun(p.program, transit(), &xdpMD{DataEnd: 14}); err != nil {
		require.ErrorIs(t, err, unix.EINVAL)
		t.Skip("this kernel (before 6.18) cannot run a program on a frame that is not linear")
	}
	p.Door(0).Teach(9)
	for _, n := range []int{44, 60, 1514} {
		for _, linear := range []uint32{14, 33, 34, 41} {
			refused(t, p, transit4(n), xdpDrop, Counters{DroppedNoCredit: 1}, &xdpMD{DataEnd: linear})
		}
		for _, linear := range []uint32{42, 43} {
			taken(t, p, transit4(n), 9, &xdpMD{DataEnd: linear})
			p.Door(0).Teach(9)
		}
	}
}

// Several CPUs that see the same request in generic mode answer it once.
func TestLessonOnSeveralCPUs(t *testing.T) {
	const threads, rounds = 2, 6000
	p := newPort(t, AttachGeneric)
	var arrived, asked atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, threads)
	for i := range threads {
		wg.Go(func() {
			for round := int64(1); round <= rounds; round++ {
				// The last to arrive asks, then all go at once.
				if arrived.Add(1) == threads*round {
					p.Door(0).Teach(9)
					asked.Store(round)
				}
				for asked.Load() < round {
					runtime.Gosched()
				}
				_, err := tryRun(p.program, transit(), nil)
				errs[i] = cmp.Or(errs[i], err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	require.Equal(t, Counters{Seen: threads * rounds, Lessons: rounds, DroppedNoCredit: (threads - 1) * rounds}, p.Counters())
}

// onCPU runs f on a thread that is kept on one CPU.
func onCPU(t testing.TB, cpu int, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	only.Set(cpu)
	require.NoError(t, unix.SchedSetaffinity(0, &only))
	defer func() { require.NoError(t, unix.SchedSetaffinity(0, &before)) }()
	f()
}

func cpus(t testing.TB) (all []int) {
	t.Helper()
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			all = append(all, cpu)
		}
	}
	return all
}

func TestSeenHereAndDriven(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		p := newPort(t, mode)
		d := p.Door(0)
		arp := pad(ethernet(portMAC, ethARP), 60)
		var all, here, driven uint64
		step := func(cpu int, isHere, isDriven bool, frame []byte) {
			t.Helper()
			onCPU(t, cpu, func() { run(t, p.program, frame, nil) })
			all++
			if isHere {
				here++
			}
			if isHere && isDriven {
				driven++
			}
			gotAll, gotHere, gotDriven := d.Seen()
			require.Equal(t, []uint64{all, here, driven}, []uint64{gotAll, gotHere, gotDriven})
			c := p.Counters()
			require.Equal(t, []uint64{all, here, driven}, []uint64{c.Seen, c.SeenHere, c.SeenDriven})
			require.Equal(t, c.Seen, c.Sum(), "they are no ends of a frame")
		}
		for _, driving := range []bool{false, true} {
			d.SetDriving(driving)
			for _, set := range []int{-1, -7} {
				d.SetCPU(set)
				for _, cpu := range cpus(t) {
					step(cpu, false, driving, transit())
				}
			}
		}
		for _, set := range append(cpus(t), 1023) {
			d.SetCPU(set)
			for _, cpu := range cpus(t) {
				for _, driving := range []bool{false, true} {
					d.SetDriving(driving)
					step(cpu, cpu == set, driving, transit())
					step(cpu, cpu == set, driving, arp)
					d.Teach(9)
					step(cpu, cpu == set, driving, transit())
				}
			}
		}
	})
}

// A new door's worker is on no CPU: CPU 0 is not taken for it.
func TestSeenHereBeforeSetCPU(t *testing.T) {
	p := newPort(t, AttachNative)
	p.Door(0).SetDriving(true)
	for _, cpu := range cpus(t) {
		onCPU(t, cpu, func() { run(t, p.program, transit(), nil) })
	}
	require.Equal(t, fmt.Sprint(len(cpus(t)), 0, 0), fmt.Sprint(p.Door(0).Seen()))
}
