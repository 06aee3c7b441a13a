package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// Count is what became of datagrams sent beside a flood.
type Count struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
}

// Lost is the part that did not arrive.
func (c Count) Lost() float64 {
	if c.Sent == 0 {
		return 0
	}
	return 1 - float64(c.Received)/float64(c.Sent)
}

func (c Count) add(o Count) Count { return Count{c.Sent + o.Sent, c.Received + o.Received} }

// stream is light UDP traffic through what is measured, by sockets: one datagram on each flow every interval. Both ends are threads of the
// lab, on the generator's CPU.
type stream struct {
	to     *net.UDPConn
	flows  []*net.UDPConn
	counts []flowCount
	byPort [1 << 16]atomic.Int32 // one more than the flow of each source port; 0 for none
	end    context.CancelFunc
	ended  chan error
	gone   chan struct{}
}

type flowCount struct{ sent, received atomic.Uint64 }

// newStream opens flows sockets that send from one host of the rig to an address of another, and the one that receives.
func newStream(from, to *nettest.NS, address netip.Addr, flows int) (_ *stream, err error) {
	s := &stream{counts: make([]flowCount, flows), gone: make(chan struct{})}
	conn, err := to.ListenPacket("udp4", netip.AddrPortFrom(address, 0).String())
	if err != nil {
		return nil, err
	}
	s.to = conn.(*net.UDPConn)
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeSockets())
		}
	}()
	if err := enlarge(s.to); err != nil {
		return nil, err
	}
	for range flows {
		conn, err := from.Dial(context.Background(), "udp4", s.to.LocalAddr().String())
		if err != nil {
			return nil, err
		}
		flow := conn.(*net.UDPConn)
		s.flows = append(s.flows, flow)
		s.byPort[portOf(flow)].Store(int32(len(s.flows)))
	}
	go s.receive()
	return s, nil
}

// streamBuffer holds what arrives while the receiver does not get the CPU.
const streamBuffer = 4 << 20

func enlarge(c *net.UDPConn) (err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	failed := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, streamBuffer)
	})
	return errors.Join(err, failed)
}

// receive counts by source port until the socket is closed.
func (s *stream) receive() {
	defer close(s.gone)
	b := make([]byte, 64)
	for {
		_, from, err := s.to.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if flow := s.byPort[from.Port()].Load(); flow > 0 && err == nil {
			s.counts[flow-1].received.Add(1)
		}
	}
}

// start sends rate datagrams per second on each flow until stop.
func (s *stream) start(rate int) {
	ctx, end := context.WithCancel(context.Background())
	s.end, s.ended = end, make(chan error, 1)
	go func() {
		s.ended <- onTime(func() error { return s.send(ctx, time.Second/time.Duration(rate)) })
	}()
}

// send sends until ctx ends. A late wake-up is made up for: every datagram that is due is sent.
func (s *stream) send(ctx context.Context, interval time.Duration) error {
	for due := time.Now(); ctx.Err() == nil; due = due.Add(interval) {
		sleepUntil(due)
		for flow := range s.flows {
			if err := s.sendOne(flow); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *stream) sendOne(flow int) error {
	var payload [18]byte
	if _, err := s.flows[flow].Write(payload[:]); err != nil {
		return fmt.Errorf("send beside the flood: %w", err)
	}
	s.counts[flow].sent.Add(1)
	return nil
}

// stop ends the sending.
func (s *stream) stop() error {
	s.end()
	return <-s.ended
}

func portOf(flow *net.UDPConn) uint16 { return flow.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

// keep keeps these flows only, in this order, and begins to count at zero.
func (s *stream) keep(flows []int) {
	kept := make([]*net.UDPConn, len(flows))
	for i, flow := range flows {
		kept[i], s.flows[flow] = s.flows[flow], nil
	}
	for _, f := range s.flows {
		if f != nil {
			s.byPort[portOf(f)].Store(0)
			f.Close()
		}
	}
	s.flows = kept
	for i, f := range s.flows {
		s.byPort[portOf(f)].Store(int32(i + 1))
	}
	s.take()
}

// settle waits, two seconds at most, until nothing more arrives.
func (s *stream) settle(ctx context.Context) error {
	received := func() (n uint64) {
		for i := range s.counts {
			n += s.counts[i].received.Load()
		}
		return n
	}
	last := received()
	for range drainSteps {
		if err := pause(ctx, drainStep); err != nil {
			return err
		}
		now := received()
		if now == last {
			break
		}
		last = now
	}
	return nil
}

// take returns the counts of all flows and begins again at zero. What is on its way counts as lost: settle first.
func (s *stream) take() []Count {
	counts := make([]Count, len(s.flows))
	for flow := range counts {
		c := &s.counts[flow]
		counts[flow] = Count{Sent: c.sent.Swap(0), Received: c.received.Swap(0)}
	}
	return counts
}

// close ends the receiver. Stop first.
func (s *stream) close() error {
	err := s.closeSockets()
	<-s.gone
	return err
}

func (s *stream) closeSockets() error {
	err := s.to.Close()
	for _, f := range s.flows {
		err = errors.Join(err, f.Close())
	}
	return err
}
