package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/netip"
	"time"

	"weir/bench"
	"weir/engine"
	"weir/internal/host"
	"weir/internal/nettest"
	"weir/xdpprog"
)

const (
	demoTCPBytes = 100 << 20
	demoFlood    = 5 * time.Second
	demoRest     = time.Second
	demoSettle   = 20 // most readings until two are equal
)

// demoCommand is `weir demo`.
type demoCommand struct{}

// Run shows weir as a router between two hosts, and fails unless every packet is accounted for.
func (demoCommand) Run(ctx context.Context, out output) (err error) {
	if err := host.Capabilities(); err != nil {
		return err
	}
	fmt.Fprintln(out.Out, "building gen ── rtr ── snk: three network namespaces, two veth pairs, kernel forwarding off")
	rig, err := bench.NewRig(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	w, err := bench.StartWeir(ctx, rig.Router, "--port", "in0", "--port", "out0")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Stop()) }()
	st, err := w.Stats(ctx)
	if err != nil {
		return err
	}
	for _, p := range st.Ports {
		fmt.Fprintf(out.Out, "weir run: port %s, driver %s, mode granted %s (asked %s)\n", p.Name, p.Driver, p.Mode, p.ModeAsked)
	}
	d := &demo{rig: rig, weir: w, out: out.Out}
	for _, step := range []func(context.Context) error{d.ping, d.tcp, d.flood, d.balance} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("interrupted: %w", err)
		}
	}
	return nil
}

type demo struct {
	rig  *bench.Rig
	weir *bench.Weir
	out  io.Writer
}

// ping reaches the sink over both families. The first packet to a neighbour nobody has resolved may be lost.
func (d *demo) ping(ctx context.Context) error {
	for _, dst := range []netip.Addr{bench.SinkAddr, bench.SinkAddr6} {
		const count = 5
		pings, err := d.rig.Gen.Ping(ctx, dst, nettest.PingOptions{Count: count})
		if err != nil {
			return err
		}
		fmt.Fprintf(d.out, "ping %s: %d of %d answered\n", dst, pings.Received, pings.Sent)
		if pings.Received < count-1 {
			return fmt.Errorf("ping %s through weir: %d of %d answered: see weir's drops by reason above", dst, pings.Received, pings.Sent)
		}
	}
	return nil
}

// tcp moves a hundred megabytes with the veth's default offloads, and compares the hashes of both ends.
func (d *demo) tcp(ctx context.Context) error {
	listener, err := d.rig.Sink.Listen("tcp4", netip.AddrPortFrom(bench.SinkAddr, 0).String())
	if err != nil {
		return fmt.Errorf("listen in snk: %w", err)
	}
	defer listener.Close()
	received := make(chan error, 1)
	got := sha256.New()
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = io.Copy(got, conn)
			err = errors.Join(err, conn.Close())
		}
		received <- err
	}()
	begin := time.Now()
	conn, err := d.rig.Gen.Dial(ctx, "tcp4", listener.Addr().String())
	if err != nil {
		return fmt.Errorf("connect from gen through weir: %w", err)
	}
	sent, err := sendRandom(conn, demoTCPBytes)
	err = errors.Join(err, conn.Close())
	if err != nil {
		return fmt.Errorf("send through weir: %w", err)
	}
	if err := <-received; err != nil {
		return fmt.Errorf("receive through weir: %w", err)
	}
	took := time.Since(begin)
	if string(sent.Sum(nil)) != string(got.Sum(nil)) {
		return fmt.Errorf("tcp: the %d bytes that arrived are not those that were sent", demoTCPBytes)
	}
	fmt.Fprintf(d.out, "tcp: %d MB through weir in %.1f s (%.2f Gbit/s), SHA-256 equal at both ends\n",
		demoTCPBytes>>20, took.Seconds(), demoTCPBytes*8/took.Seconds()/1e9)
	return nil
}

// sendRandom writes n bytes that no hash can take for others, and returns their hash.
func sendRandom(w io.Writer, n int) (hash.Hash, error) {
	sum := sha256.New()
	block := make([]byte, 1<<20)
	if _, err := rand.Read(block); err != nil {
		return nil, err
	}
	for at := 0; at < n; at += len(block) {
		block[at>>20%len(block)]++ // every block differs
		sum.Write(block)
		if _, err := w.Write(block); err != nil {
			return nil, err
		}
	}
	return sum, nil
}

// flood offers several times what the router can forward, and counts on both sides independently of weir.
func (d *demo) flood(ctx context.Context) error {
	before, err := d.settled(ctx)
	if err != nil {
		return err
	}
	offeredBefore, err := d.rig.Offered()
	if err != nil {
		return err
	}
	sink, err := d.rig.AttachSink()
	if err != nil {
		return err
	}
	defer sink.Close()
	fmt.Fprintf(d.out, "flood: 60-byte UDP frames as fast as they can be made, for %s …\n", demoFlood)
	if err := bench.OnCPU(0, func() error {
		_, err := d.rig.Flood(ctx, 0, xdpprog.Bounds{Duration: demoFlood})
		return err
	}); err != nil {
		return err
	}
	if err := sleep(ctx, demoRest); err != nil {
		return err
	}
	offered, err := d.rig.Offered()
	if err != nil {
		return err
	}
	count, err := sink.Count()
	if err != nil {
		return err
	}
	after, err := d.weir.Stats(ctx)
	if err != nil {
		return err
	}
	offered -= offeredBefore
	fmt.Fprintf(d.out, "flood: offered %.2f Mpps, delivered %.2f Mpps (counted at g0 and s0)\n",
		float64(offered)/demoFlood.Seconds()/1e6, float64(count.Packets)/demoFlood.Seconds()/1e6)
	if delivered := after.Totals.Delivered - before.Totals.Delivered; delivered != count.Packets {
		return fmt.Errorf("flood: weir says it delivered %d packets, %d arrived at s0", delivered, count.Packets)
	}
	return nil
}

// settled reads the counters when nothing moves any more: a connection takes a few more packets to end than to carry its bytes.
func (d *demo) settled(ctx context.Context) (engine.Stats, error) {
	st, err := d.weir.Stats(ctx)
	for range demoSettle {
		delivered := st.Totals.Delivered
		if err == nil {
			err = sleep(ctx, 100*time.Millisecond)
		}
		if err == nil {
			st, err = d.weir.Stats(ctx)
		}
		if err != nil || st.Totals.Delivered == delivered && st.Totals.InFlight == 0 {
			break
		}
	}
	return st, err
}

// balance prints weir's own counters and fails unless they account for every packet and every frame.
func (d *demo) balance(ctx context.Context) error {
	st, err := d.weir.Stats(ctx)
	if err != nil {
		return err
	}
	printStats(d.out, st)
	return accountedFor(st)
}

// accountedFor says which packet or frame is missing at rest; nil if none is.
func accountedFor(st engine.Stats) error {
	if st.Totals.InFlight != 0 || st.Totals.Unaccounted != 0 {
		return fmt.Errorf("balance: %d packets in flight at rest, %d unaccounted for", st.Totals.InFlight, st.Totals.Unaccounted)
	}
	for _, w := range st.Workers {
		if f := w.Frames; f.Sum() != f.Total || f.Held != 0 || f.Stranded != 0 || f.Misused != 0 {
			return fmt.Errorf("frames of the worker on CPU %d: %+v: not all accounted for", w.CPU, f)
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(ctx))
	}
}
