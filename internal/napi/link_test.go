package napi

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// cable is a veth pair in one namespace, sender p0, receiver in0 with one queue, one NAPI (GRO is on) and no traffic but the test's.
type cable struct {
	ns     *nettest.NS
	client *Client
	index  int                 // in0's
	mac    net.HardwareAddr    // in0's
	out    *nettest.PacketConn // sends on p0
}

func newCable(t testing.TB) *cable {
	t.Helper()
	nettest.RequirePrivilege(t)
	ns, err := nettest.NewNS("napi")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	require.NoError(t, ns.Sysctl("net.ipv6.conf.default.disable_ipv6", "1"))
	require.NoError(t, nettest.Veth(ns, "in0", ns, "p0", nettest.VethOptions{}))
	require.NoError(t, ns.Offload("in0", "rx-gro", true))
	// With segmentation at the sender veth passes NAPI by (veth_skb_is_eligible_for_gro).
	for _, feature := range []string{"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp-mangleid-segmentation"} {
		require.NoError(t, ns.Offload("p0", feature, false))
	}
	for _, link := range []string{"in0", "p0"} {
		require.NoError(t, ns.Up(link))
	}
	for _, link := range []string{"in0", "p0"} {
		require.NoError(t, ns.Ready(link))
	}
	l, err := ns.Link("in0")
	require.NoError(t, err)
	out, err := ns.OpenPacket("p0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, out.Close()) })
	var client *Client
	require.NoError(t, ns.Do(func() (err error) {
		client, err = Dial()
		return err
	}))
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	return &cable{ns: ns, client: client, index: l.Attrs().Index, mac: l.Attrs().HardwareAddr, out: out}
}

// socket opens a handle socket on in0.
func (c *cable) socket(t testing.TB) *Socket {
	t.Helper()
	var s *Socket
	require.NoError(t, c.ns.Do(func() (err error) {
		s, err = OpenSocket("in0")
		return err
	}))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// taught opens a handle socket on in0 and teaches it.
func (c *cable) taught(t testing.TB) *Socket {
	t.Helper()
	s := c.socket(t)
	c.sendUDP(t, netip.IPv4Unspecified(), broadcast, s.Port(), []byte("lesson"))
	c.readLesson(t, s)
	return s
}

// readLesson waits for a lesson and returns its payload.
func (c *cable) readLesson(t testing.TB, s *Socket) []byte {
	t.Helper()
	awaitDatagram(t, s)
	buf := make([]byte, 2048)
	n, ok, err := s.ReadLesson(buf)
	require.NoError(t, err)
	require.True(t, ok)
	return buf[:n]
}

// awaitDatagram waits until something is in the socket.
func awaitDatagram(t testing.TB, s *Socket) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if n, err := unix.Poll(fds, 1000); err != unix.EINTR {
			require.NoError(t, err)
			if n == 1 {
				return
			}
		}
	}
	require.Fail(t, "no datagram came")
}

var (
	broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})
	peer      = netip.MustParseAddr("10.9.0.2")
	here      = netip.MustParseAddr("10.9.0.1")
)

// sendUDP sends one datagram from p0 to in0.
func (c *cable) sendUDP(t testing.TB, src, dst netip.Addr, port uint16, payload []byte) {
	t.Helper()
	h := nettest.NewIP(src, dst)
	h.TTL = 1
	require.NoError(t, c.out.Send(nettest.Ethernet(c.mac, c.mac, h.UDP(0, port, payload))))
}

// send sends n frames that nothing answers.
func (c *cable) send(t testing.TB, n int) {
	t.Helper()
	for range n {
		c.sendUDP(t, peer, here, 9, []byte("discard"))
	}
}

// received returns how many frames in0's NAPI has taken off the cable.
func (c *cable) received(t testing.TB) int {
	t.Helper()
	stats, err := c.ns.EthtoolStats("in0")
	require.NoError(t, err)
	n, ok := stats["rx_queue_0_xdp_packets"]
	require.True(t, ok, "veth counts no rx_queue_0_xdp_packets")
	return int(n)
}

// mask sets the masking of in0's NAPI. A kernel that cannot (before Linux 6.13) skips the test.
func (c *cable) mask(t testing.TB, deferHardIRQs uint32, groFlush time.Duration) {
	t.Helper()
	napis, err := c.client.List(c.index)
	require.NoError(t, err)
	require.Len(t, napis, 1)
	err = c.client.SetMasking(napis[0].ID, deferHardIRQs, groFlush)
	if errors.Is(err, ErrUnsupported) {
		require.False(t, c.client.CanSet())
		t.Skip(err)
	}
	require.NoError(t, err)
}

// driver is either means.
type driver interface {
	Drive() error
	SetPrefer(on bool) error
}

// own takes in0's NAPI with a timeout that is longer than any test, so that the timer has no part in it.
func (c *cable) own(t testing.TB, d driver) {
	t.Helper()
	c.mask(t, 1, time.Minute)
	require.NoError(t, d.SetPrefer(true))
	require.NoError(t, d.Drive())
	before := c.received(t)
	c.send(t, 1) // nothing has masked the interrupt yet: the first one is what masks it
	require.Eventually(t, func() bool { return c.received(t) == before+1 }, 5*time.Second, time.Millisecond)
}

// drive calls Drive once and returns how many frames that took off the cable. Where some wait, a call that took none met a signal of Go's
// runtime: it polled nothing, and is made again.
func (c *cable) drive(t testing.TB, d driver, some bool) int {
	t.Helper()
	before := c.received(t)
	for range 10 {
		require.NoError(t, d.Drive())
		if n := c.received(t) - before; n > 0 || !some {
			return n
		}
	}
	return 0
}

// ownership proves that after own the NAPI runs in Drive alone, perDrive frames at a time at most, and after release by itself.
func (c *cable) ownership(t *testing.T, d driver, perDrive int) {
	t.Helper()
	c.own(t, d)
	before := c.received(t)
	for range 3 {
		c.send(t, 5*perDrive/2)
		require.Equal(t, before, c.received(t), "received without a Drive")
		for _, want := range []int{perDrive, perDrive, perDrive / 2, 0} {
			require.Equal(t, want, c.drive(t, d, want > 0))
			before += want
		}
	}

	require.NoError(t, d.SetPrefer(false))
	c.mask(t, 0, 0)
	c.send(t, 1)
	require.Equal(t, before, c.received(t), "not given back before the last Drive")
	require.Equal(t, 1, c.drive(t, d, true))
	before++
	for range 3 {
		c.send(t, 1)
		before++
		require.Eventually(t, func() bool { return c.received(t) == before }, 5*time.Second, time.Millisecond)
	}
}
