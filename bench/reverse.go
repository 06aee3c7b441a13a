package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// Reverse is what became of traffic against the flood, in packets.
type Reverse struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
}

// Lost is the part that did not arrive.
func (r Reverse) Lost() float64 {
	if r.Sent == 0 {
		return 0
	}
	return 1 - float64(r.Received)/float64(r.Sent)
}

// reverse sends datagrams from the sink's host to the generator's, through what is measured, at a low rate: does the other direction
// still get its share? Both ends are threads of the lab, on the generator's CPU.
type reverse struct {
	from, to net.PacketConn
	end      context.CancelFunc
	ended    chan error
	sent     uint64
	received atomic.Uint64
	gone     chan struct{}
}

// startReverse starts sending rate datagrams per second.
func startReverse(r *Rig, rate int) (_ *reverse, err error) {
	v := &reverse{ended: make(chan error, 1), gone: make(chan struct{})}
	if v.to, err = r.Gen.ListenPacket("udp4", netip.AddrPortFrom(GenAddr, 0).String()); err != nil {
		return nil, err
	}
	if v.from, err = r.Sink.ListenPacket("udp4", netip.AddrPortFrom(SinkAddr, 0).String()); err != nil {
		return nil, errors.Join(err, v.to.Close())
	}
	ctx, end := context.WithCancel(context.Background())
	v.end = end
	go func() {
		defer close(v.gone)
		b := make([]byte, 64)
		for {
			if _, _, err := v.to.ReadFrom(b); err != nil {
				return // closed
			}
			v.received.Add(1)
		}
	}()
	go func() {
		v.ended <- onTime(func() error { return v.send(ctx, time.Second/time.Duration(rate)) })
	}()
	return v, nil
}

// send sends one datagram each interval until ctx ends, catching up what a late wake-up cost.
func (v *reverse) send(ctx context.Context, interval time.Duration) error {
	to := v.to.LocalAddr()
	payload := make([]byte, 18)
	for due := time.Now(); ctx.Err() == nil; due = due.Add(interval) {
		sleepUntil(due)
		if _, err := v.from.WriteTo(payload, to); err != nil {
			return fmt.Errorf("traffic against the flood: %w", err)
		}
		v.sent++
	}
	return nil
}

// stop ends the sending. It is not to be called twice.
func (v *reverse) stop() error {
	v.end()
	return <-v.ended
}

// close counts. Call it after stop, when what was sent has had time to arrive.
func (v *reverse) close() (Reverse, error) {
	err := errors.Join(v.to.Close(), v.from.Close())
	<-v.gone
	return Reverse{Sent: v.sent, Received: v.received.Load()}, err
}
