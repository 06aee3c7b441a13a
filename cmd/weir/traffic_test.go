package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// testPort is the destination port of the test packet P.
const testPort = 9

// listen opens a UDP socket with a buffer that a test does not overflow. On testPort it also keeps the host from answering P with ICMP
// errors, which weir would forward too.
func listen(t *testing.T, ns *nettest.NS, addr netip.Addr, port uint16) net.PacketConn {
	t.Helper()
	c, err := ns.ListenPacket("udp", netip.AddrPortFrom(addr, port).String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	raw, err := c.(*net.UDPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}))
	require.NoError(t, err)
	return c
}

// stream sends frames by AF_PACKET until it is stopped.
type stream struct {
	sent    atomic.Uint64 // accepted by the sender's device
	refused atomic.Uint64 // dropped by the sender's device: the ring behind it was full
	quit    chan struct{}
	done    chan error
	once    sync.Once
	err     error
}

// sendStream sends frame(0), frame(1) … on a link, at a rate in packets per second or as fast as it goes when 0.
func sendStream(t *testing.T, ns *nettest.NS, link string, rate int, frame func(n uint64) []byte) *stream {
	t.Helper()
	conn, err := ns.OpenPacket(link)
	require.NoError(t, err)
	s := &stream{quit: make(chan struct{}), done: make(chan error, 1)}
	go func() {
		defer conn.Close()
		s.done <- s.run(conn, rate, frame)
	}()
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	return s
}

func (s *stream) run(conn *nettest.PacketConn, rate int, frame func(n uint64) []byte) error {
	begin := time.Now()
	for n := uint64(0); ; n++ {
		select {
		case <-s.quit:
			return nil
		default:
		}
		if rate > 0 {
			time.Sleep(time.Until(begin.Add(time.Duration(n) * time.Second / time.Duration(rate))))
		}
		switch err := conn.Send(frame(n)); {
		case err == nil:
			s.sent.Add(1)
		case errors.Is(err, unix.ENOBUFS):
			s.refused.Add(1)
		default:
			return err
		}
	}
}

// stop ends the stream and returns why it failed, if it did.
func (s *stream) stop() error {
	s.once.Do(func() {
		close(s.quit)
		s.err = <-s.done
	})
	return s.err
}

// always is a stream of one frame.
func always(frame []byte) func(uint64) []byte { return func(uint64) []byte { return frame } }

// A numbered datagram is its number and a length and bytes that follow from the number, so that no other can be taken for it.
const (
	minDatagram = 8
	maxDatagram = 1400
)

// numbered writes datagram n into b and returns it.
func numbered(b []byte, n uint64) []byte {
	x := n*0x9e3779b97f4a7c15 + 1
	b = b[:minDatagram+x>>32%(maxDatagram-minDatagram+1)]
	binary.BigEndian.PutUint64(b, n)
	for i := minDatagram; i < len(b); i++ {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

// arrivals is what became of numbered datagrams.
type arrivals struct {
	unique, duplicate, corrupt uint64
	first                      string // describes the first that was corrupt
}

func (a arrivals) String() string {
	return fmt.Sprintf("%d unique, %d duplicate, %d corrupt %s", a.unique, a.duplicate, a.corrupt, a.first)
}

// exchange sends num numbered datagrams from flows sockets of one host to a listening socket of another, with short rests so that rings
// of 256 slots follow, and counts what arrives until nothing has come for a while. Several may run at once.
func exchange(ctx context.Context, from *nettest.NS, to net.PacketConn, num uint64, flows int) (arrivals, error) {
	socks := make([]net.Conn, flows)
	for i := range socks {
		c, err := from.Dial(ctx, "udp", to.LocalAddr().String())
		if err != nil {
			return arrivals{}, err
		}
		defer c.Close()
		socks[i] = c
	}
	counted := make(chan arrivals, 1)
	var sending atomic.Bool
	sending.Store(true)
	go func() { counted <- count(to, num, &sending) }()
	var buf [maxDatagram]byte
	var err error
	for n := uint64(0); n < num && err == nil; n++ {
		if n%32 == 0 {
			time.Sleep(200 * time.Microsecond)
		}
		_, err = socks[n%uint64(flows)].Write(numbered(buf[:], n))
	}
	sending.Store(false)
	return <-counted, err
}

// count receives until all are there, or until nothing has come for a while after the last was sent.
func count(conn net.PacketConn, num uint64, sending *atomic.Bool) arrivals {
	const patience = time.Second
	var a arrivals
	seen := make([]bool, num)
	got, want := make([]byte, 1<<16), make([]byte, maxDatagram)
	for a.unique < num {
		last := !sending.Load()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		k, from, err := conn.ReadFrom(got)
		if err != nil {
			if last {
				break
			}
			continue
		}
		n := uint64(0)
		if k >= minDatagram {
			n = binary.BigEndian.Uint64(got)
		}
		switch {
		case k < minDatagram || n >= num || string(numbered(want, n)) != string(got[:k]):
			if a.corrupt++; a.corrupt == 1 {
				a.first = fmt.Sprintf("(%d bytes from %s: % x …)", k, from, got[:min(k, 32)])
			}
		case seen[n]:
			a.duplicate++
		default:
			seen[n] = true
			a.unique++
		}
	}
	return a
}
