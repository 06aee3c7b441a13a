package nettest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// PingOptions says how to ping. The zero value is one echo request of 56 bytes with a second to answer.
type PingOptions struct {
	Count   int           // echo requests; 0 = 1
	Timeout time.Duration // for each answer; 0 = 1 s
	Size    int           // payload in bytes; 0 = 56
	TTL     int           // hop limit; 0 = the kernel's default
}

// Pings is what came of a Ping.
type Pings struct {
	Sent, Received int
	RTT            []time.Duration // of each answer, in order of sending
}

// Ping sends ICMP or ICMPv6 echo requests to dst from inside the namespace, one at a time, each as soon as the one before is answered
// or given up. Lost answers are no error. It returns early, with what it has, when ctx ends. Needs CAP_NET_RAW.
func (n *NS) Ping(ctx context.Context, dst netip.Addr, o PingOptions) (Pings, error) {
	if o.Count == 0 {
		o.Count = 1
	}
	if o.Timeout == 0 {
		o.Timeout = time.Second
	}
	if o.Size == 0 {
		o.Size = 56
	}
	p, err := n.newPinger(dst, o)
	if err != nil {
		return Pings{}, fmt.Errorf("ping %s from %s: %w", dst, n.name, err)
	}
	defer p.conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = p.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()

	var result Pings
	for seq := range o.Count {
		result.Sent++
		rtt, err := p.ping(ctx, seq, o.Timeout)
		switch {
		case err == nil:
			result.Received++
			result.RTT = append(result.RTT, rtt)
		case ctx.Err() != nil:
			return result, fmt.Errorf("ping %s from %s: %w", dst, n.name, ctx.Err())
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return result, fmt.Errorf("ping %s from %s: %w", dst, n.name, err)
		}
	}
	return result, nil
}

// pinger is one raw ICMP socket and how to speak with it.
type pinger struct {
	conn             *icmp.PacketConn
	dst              netip.Addr
	protocol         int
	request, answer  icmp.Type
	id               int
	payload, scratch []byte
}

func (n *NS) newPinger(dst netip.Addr, o PingOptions) (*pinger, error) {
	p := &pinger{dst: dst, protocol: 1, request: ipv4.ICMPTypeEcho, answer: ipv4.ICMPTypeEchoReply, id: os.Getpid() & 0xffff,
		payload: make([]byte, o.Size), scratch: make([]byte, 1<<16)}
	network, any := "ip4:icmp", "0.0.0.0"
	if dst.Is6() {
		p.protocol, p.request, p.answer = 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
		network, any = "ip6:ipv6-icmp", "::"
	}
	err := n.Do(func() (err error) {
		p.conn, err = icmp.ListenPacket(network, any)
		return err
	})
	if err != nil {
		return nil, err
	}
	if o.TTL > 0 {
		if dst.Is6() {
			err = p.conn.IPv6PacketConn().SetHopLimit(o.TTL)
		} else {
			err = p.conn.IPv4PacketConn().SetTTL(o.TTL)
		}
		if err != nil {
			p.conn.Close()
			return nil, fmt.Errorf("set hop limit %d: %w", o.TTL, err)
		}
	}
	return p, nil
}

func (p *pinger) ping(ctx context.Context, seq int, timeout time.Duration) (time.Duration, error) {
	m := icmp.Message{Type: p.request, Body: &icmp.Echo{ID: p.id, Seq: seq, Data: p.payload}}
	b, err := m.Marshal(nil) // ICMPv6: the kernel fills in the checksum
	if err != nil {
		return 0, err
	}
	sent := time.Now()
	if err := p.conn.SetReadDeadline(sent.Add(timeout)); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil { // looked at after setting the deadline, which AfterFunc may have set before us
		return 0, err
	}
	if _, err := p.conn.WriteTo(b, &net.IPAddr{IP: p.dst.AsSlice(), Zone: p.dst.Zone()}); err != nil {
		return 0, err
	}
	for {
		num, _, err := p.conn.ReadFrom(p.scratch)
		if err != nil {
			return 0, err
		}
		reply, err := icmp.ParseMessage(p.protocol, p.scratch[:num])
		if err != nil || reply.Type != p.answer {
			continue
		}
		if echo, ok := reply.Body.(*icmp.Echo); ok && echo.ID == p.id && echo.Seq == seq {
			return time.Since(sent), nil
		}
	}
}
