package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

const (
	// echoInterval is between two requests: rare beside any load.
	echoInterval = time.Millisecond
	// echoTimeout gives an answer up.
	echoTimeout = 100 * time.Millisecond
)

// echoes asks a host for ICMP echoes, one after the other, and measures how long each takes. The request's time is taken before the
// system call that sends it, the answer's is the kernel's: when this thread is woken does not count. The host's kernel answers.
type echoes struct {
	fd    int
	to    unix.SockaddrInet4
	id    uint16
	stop  atomic.Bool
	ended chan error

	sent int
	took []time.Duration // of each answer
}

// newEchoes opens the socket in a namespace.
func newEchoes(from *nettest.NS, to netip.Addr) (*echoes, error) {
	e := &echoes{fd: -1, to: unix.SockaddrInet4{Addr: to.As4()}, ended: make(chan error, 1)}
	err := from.Do(func() (err error) {
		e.fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a socket for echoes: %w", err)
	}
	e.id = uint16(unix.Getpid())
	timeout := unix.NsecToTimeval(echoTimeout.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptInt(e.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(e.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("prepare a socket for echoes: %w", err), unix.Close(e.fd))
	}
	return e, nil
}

// start asks until finish.
func (e *echoes) start() {
	go func() { e.ended <- onTime(e.ask) }()
}

// finish ends the asking.
func (e *echoes) finish() error {
	e.stop.Store(true)
	return <-e.ended
}

func (e *echoes) close() error { return unix.Close(e.fd) }

func (e *echoes) ask() error {
	for due := time.Now(); !e.stop.Load(); due = later(due.Add(echoInterval), time.Now()) {
		sleepUntil(due)
		e.sent++
		took, ok, err := e.one(uint16(e.sent))
		if err != nil {
			return fmt.Errorf("ask for an echo: %w", err)
		}
		if ok {
			e.took = append(e.took, took)
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// one asks once; not ok when no answer came in time.
func (e *echoes) one(seq uint16) (took time.Duration, ok bool, err error) {
	message := icmp.Message{Type: ipv4.ICMPTypeEcho, Body: &icmp.Echo{ID: int(e.id), Seq: int(seq), Data: make([]byte, 18)}}
	request, err := message.Marshal(nil)
	if err != nil {
		return 0, false, err
	}
	sent := time.Now()
	if err := unix.Sendto(e.fd, request, 0, &e.to); err != nil {
		return 0, false, err
	}
	var b, control [128]byte
	for time.Since(sent) < echoTimeout {
		n, numControl, _, _, err := unix.Recvmsg(e.fd, b[:], control[:], 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return 0, false, nil
		case err != nil:
			return 0, false, err
		}
		if !e.answers(b[:n], seq) {
			continue
		}
		at, err := stampOf(control[:numControl])
		if err != nil {
			return 0, false, err
		}
		return time.Duration(at - sent.UnixNano()), true, nil
	}
	return 0, false, nil
}

// answers tells whether a packet, IPv4 header and all, is the echo reply.
func (e *echoes) answers(b []byte, seq uint16) bool {
	const header, message = 20, 8
	if len(b) < header+message || b[0] != 0x45 {
		return false
	}
	b = b[header:]
	return b[0] == byte(ipv4.ICMPTypeEchoReply) && binary.BigEndian.Uint16(b[4:]) == e.id && binary.BigEndian.Uint16(b[6:]) == seq
}

// stampOf finds the time at which the kernel received a packet, in ns since 1970.
func stampOf(control []byte) (int64, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:])), nil
		}
	}
	return 0, errors.New("no time stamp")
}

// LatencyTrial is one trial of Latency.
type LatencyTrial struct {
	Trial
	// Asked echoes and those that came back in time.
	Echoes Count `json:"echoes"`
	// Median and P99 of the time an echo took, in µs.
	Median float64 `json:"median_us"`
	P99    float64 `json:"p99_us"`
}

// echo makes one latency trial.
func (s setup) echo(ctx context.Context, dut DUT, placement Placement, p Point) (t LatencyTrial, err error) {
	d, err := install(ctx, s.rig, dut, placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	e, err := newEchoes(s.rig.Gen, SinkAddr)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	t.Trial, err = s.measure(ctx, d, p, func() (func() error, error) {
		e.start()
		return e.finish, nil
	})
	t.Echoes = Count{Sent: uint64(e.sent), Received: uint64(len(e.took))}
	slices.Sort(e.took)
	t.Median, t.P99 = micros(quantile(e.took, 0.5)), micros(quantile(e.took, 0.99))
	return t, err
}

// quantile of sorted values: the least of which a part q is not above it; 0 for none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
