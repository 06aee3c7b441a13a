package xdpprog

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// pupil is the worker's side of lessons: a UDP socket on an interface and a port that the kernel chose.
type pupil struct {
	fd   int
	port uint16
}

func newPupil(t *testing.T, ns *nettest.NS, name string) *pupil {
	t.Helper()
	s := &pupil{}
	require.NoError(t, ns.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, unix.Close(s.fd)) })
	require.NoError(t, unix.BindToDevice(s.fd, name))
	require.NoError(t, unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5}))
	require.NoError(t, unix.Bind(s.fd, &unix.SockaddrInet4{}))
	addr, err := unix.Getsockname(s.fd)
	require.NoError(t, err)
	s.port = uint16(addr.(*unix.SockaddrInet4).Port)
	return s
}

// read returns the payload of the next lesson, which must be there within some seconds.
func (s *pupil) read(t *testing.T) []byte {
	t.Helper()
	buf := make([]byte, 4096)
	n, from, err := unix.Recvfrom(s.fd, buf, 0)
	require.NoError(t, err)
	require.Equal(t, &unix.SockaddrInet4{}, from, "0.0.0.0, port 0")
	return buf[:n]
}

// empty asserts that nothing waits in the socket.
func (s *pupil) empty(t *testing.T) {
	t.Helper()
	_, _, err := unix.Recvfrom(s.fd, make([]byte, 4096), unix.MSG_DONTWAIT)
	require.ErrorIs(t, err, unix.EAGAIN)
}

func (s *pupil) napi(t *testing.T) int {
	t.Helper()
	id, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_INCOMING_NAPI_ID)
	require.NoError(t, err)
	return id
}

// sent is a frame, and where its checksum begins and is, if that is left for a device to complete.
type sent struct {
	name          string
	frame         []byte
	start, offset int
}

// partial leaves the checksum of a frame of nettest's to a device: the field, at offset from the transport header, holds the folded sum of
// the pseudo header.
func partial(name string, frame []byte, protocol byte, offset int) sent {
	start, addresses := 34, frame[26:34]
	if frame[14]>>4 == 6 {
		start, addresses = 54, frame[22:54]
	}
	pseudo := append(slices.Clone(addresses), 0, protocol)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(frame)-start))
	binary.BigEndian.PutUint16(frame[start+offset:], ^nettest.Checksum(0, pseudo))
	return sent{name, frame, start, offset}
}

func lessonFrames() (frames []sent) {
	for _, v := range []struct {
		name, src, dst   string
		header, shortest int // bytes
	}{
		{"v4", "10.0.1.2", "10.0.2.2", 34, 60},
		{"v6", "2001:db8:1::2", "2001:db8:2::2", 54, 62},
	} {
		ip := nettest.NewIP(netip.MustParseAddr(v.src), netip.MustParseAddr(v.dst))
		for _, n := range []int{v.shortest, 101, 1514} {
			udp := func() []byte {
				return nettest.Ethernet(portMAC[:], otherMAC[:], ip.UDP(1000, 2000, numbered(nil, n-v.header-8)))
			}
			frames = append(frames,
				sent{name: fmt.Sprintf("%s udp %d", v.name, n), frame: udp()},
				partial(fmt.Sprintf("%s udp %d partial", v.name, n), udp(), unix.IPPROTO_UDP, 6))
			if n >= v.header+20 {
				tcp := nettest.Ethernet(portMAC[:], otherMAC[:], ip.TCP(1000, 2000, 1, 2, nettest.ACK, numbered(nil, n-v.header-20)))
				frames = append(frames, partial(fmt.Sprintf("%s tcp %d partial", v.name, n), tcp, unix.IPPROTO_TCP, 16))
			}
		}
	}
	return append(frames,
		sent{name: "v6 60", frame: transit6(60)},
		sent{name: "v4 44", frame: transit4(44)},
		sent{name: "v4 with options", frame: nettest.Ethernet(portMAC[:], otherMAC[:],
			nettest.IP{Src: netip.MustParseAddr("10.0.1.2"), Dst: netip.MustParseAddr("10.0.2.2"), TTL: 9, Options: []byte{148, 4, 0, 0}}.Echo(1, 2, []byte("ping")))},
		sent{name: "v4 malformed", frame: numbered(ethernet(portMAC, ethIP4, 0x43, 1, 2, 3), 60)},
	)
}

// A lesson reaches a socket through the kernel's stack, tells it the NAPI, and is the frame that was sent.
func TestLessonOnAWire(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		ns := veth(t, 1)
		// What many hosts set; p0 has no address besides.
		require.NoError(t, ns.Sysctl("net.ipv4.conf.all.rp_filter", "1"))
		p, err := attach(t, ns, config(t, ns, mode))
		require.NoError(t, err)
		out, err := ns.OpenPacket("p1")
		require.NoError(t, err)
		defer out.Close()
		d := p.Door(0)
		for _, f := range lessonFrames() {
			t.Run(f.name, func(t *testing.T) {
				s := newPupil(t, ns, "p0")
				require.Zero(t, s.napi(t))
				before := p.Counters()
				d.Teach(s.port)
				for range 2 { // the second is no lesson
					if f.start > 0 {
						require.NoError(t, out.SendPartial(f.frame, f.start, f.offset))
					} else {
						require.NoError(t, out.Send(f.frame))
					}
				}
				payload := s.read(t)
				head := d.LessonHead()
				require.Equal(t, f.frame, append(head[:], payload...))
				require.Equal(t, len(f.frame), d.LessonLen())
				if mode == AttachNative {
					require.NotZero(t, s.napi(t))
				}
				require.Eventually(t, func() bool { return p.Counters().DroppedNoCredit > before.DroppedNoCredit }, 5*time.Second, time.Millisecond)
				s.empty(t)
				after := p.Counters()
				require.Equal(t, before.Lessons+1, after.Lessons)
				require.Equal(t, before.DroppedNoCredit+1, after.DroppedNoCredit)
				require.Equal(t, after.Seen, after.Sum())
			})
		}
	})
}

func TestLessonIsTooShortOnAWire(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		ns := veth(t, 1)
		p, err := attach(t, ns, config(t, ns, mode))
		require.NoError(t, err)
		out, err := ns.OpenPacket("p1")
		require.NoError(t, err)
		defer out.Close()
		s := newPupil(t, ns, "p0")
		p.Door(0).Teach(s.port)
		for _, n := range []int{34, 42, 43} {
			require.NoError(t, out.Send(transit4(n)))
		}
		require.NoError(t, out.Send(transit4(44)))
		payload := s.read(t)
		require.Len(t, payload, 2)
		head := p.Door(0).LessonHead()
		require.Equal(t, transit4(44), append(head[:], payload...))
		c := p.Counters()
		require.EqualValues(t, 1, c.Lessons)
		require.EqualValues(t, 3, c.DroppedNoCredit)
	})
}

// Each of four queues teaches a socket of its own. Natively: in generic mode a veth calls every frame one of queue 0.
func TestLessonPerQueue(t *testing.T) {
	const queues = 4
	ns := veth(t, queues)
	p, err := attach(t, ns, config(t, ns, AttachNative))
	require.NoError(t, err)
	out, err := ns.OpenPacket("p1")
	require.NoError(t, err)
	defer out.Close()
	var pupils [queues]*pupil
	for q := range pupils {
		pupils[q] = newPupil(t, ns, "p0")
		p.Door(q).Teach(pupils[q].port)
	}
	// The sender's flow hash chooses the queue: 200 flows miss none of four.
	ip := nettest.NewIP(netip.MustParseAddr("10.0.1.2"), netip.MustParseAddr("10.0.2.2"))
	flow := map[uint16][]byte{}
	for port := uint16(1000); port < 1200; port++ {
		flow[port] = nettest.Ethernet(portMAC[:], otherMAC[:], ip.UDP(port, 2000, numbered(nil, 30)))
		require.NoError(t, out.Send(flow[port]))
	}
	ids := map[int]bool{}
	for q, s := range pupils {
		payload := s.read(t)
		head := p.Door(q).LessonHead()
		require.Equal(t, flow[binary.BigEndian.Uint16(head[34:])], append(head[:], payload...), "queue %d", q)
		ids[s.napi(t)] = true
	}
	require.Len(t, ids, queues)
	require.NotContains(t, ids, 0)
	require.Eventually(t, func() bool {
		c := p.Counters()
		return c.DroppedNoCredit == uint64(len(flow))-queues
	}, 5*time.Second, time.Millisecond)
	for q, s := range pupils {
		s.empty(t)
		require.EqualValues(t, 1, p.QueueCounters(q).Lessons)
	}
	c := p.Counters()
	require.Equal(t, c.Seen, c.Sum())
}

// A frame with a tag beside it belongs to the kernel; it must not become a lesson that looks untagged.
func TestLessonIsNoFrameWithATagBesideIt(t *testing.T) {
	ns := veth(t, 1)
	p, err := attach(t, ns, config(t, ns, AttachNative))
	require.NoError(t, err)
	if !p.SeesTags() {
		t.Skip("this kernel (before 6.8) does not tell")
	}
	s := newPupil(t, ns, "p0")
	p.Door(0).Teach(s.port)
	out, err := ns.OpenPacket("p1")
	require.NoError(t, err)
	defer out.Close()
	detach := pushTag(t, ns, "p1", 100)
	require.NoError(t, out.Send(transit4(60)))
	require.Eventually(t, func() bool { return p.Counters().Passed[ClassNotIP] > 0 }, 5*time.Second, time.Millisecond)
	require.Zero(t, p.Counters().Lessons)
	detach()
	require.NoError(t, out.Send(transit4(61)))
	payload := s.read(t)
	head := p.Door(0).LessonHead()
	require.Equal(t, transit4(61), append(head[:], payload...))
}

// A veth's frames are handled on the sender's CPU: those of one CPU, and no others, are here.
func TestSeenHereOnAWire(t *testing.T) {
	modes(t, func(t *testing.T, mode AttachMode) {
		ns := veth(t, 1)
		p, err := attach(t, ns, config(t, ns, mode))
		require.NoError(t, err)
		out, err := ns.OpenPacket("p1")
		require.NoError(t, err)
		defer out.Close()
		d := p.Door(0)
		all := cpus(t)
		for _, here := range all {
			for _, driving := range []bool{false, true} {
				d.SetCPU(here)
				d.SetDriving(driving)
				before := p.Counters()
				want := before.DroppedNoCredit
				for i, cpu := range all {
					onCPU(t, cpu, func() {
						for range 10 + i {
							require.NoError(t, out.Send(transit()))
							want++
						}
					})
					// The NAPI stays on its CPU while frames are waiting, whoever sent them.
					require.Eventually(t, func() bool { return p.Counters().DroppedNoCredit == want }, 5*time.Second, time.Millisecond)
				}
				after := p.Counters()
				sent := uint64(10 + slices.Index(all, here))
				// What the kernel sends by itself over the cable is multicast, and may have come by anywhere.
				others := (after.Seen - before.Seen) - (after.DroppedNoCredit - before.DroppedNoCredit)
				got := after.SeenHere - before.SeenHere
				require.True(t, sent <= got && got <= sent+others, "%d on CPU %d, of which %d were sent, of %d others", got, here, sent, others)
				if driving {
					require.Equal(t, got, after.SeenDriven-before.SeenDriven)
				} else {
					require.Equal(t, before.SeenDriven, after.SeenDriven)
				}
			}
		}
	})
}
