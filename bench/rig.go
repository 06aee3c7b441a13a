package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"weir/internal/nettest"
	"weir/xdpprog"
)

// Addresses of the rig, the same in every rig since each lies in its own namespaces.
var (
	GenAddr  = netip.MustParseAddr("10.0.1.2")
	SinkAddr = netip.MustParseAddr("10.0.2.2")

	GenAddr6  = netip.MustParseAddr("2001:db8:1::2")
	SinkAddr6 = netip.MustParseAddr("2001:db8:2::2")
)

var (
	macG0   = net.HardwareAddr{2, 0, 0, 0, 1, 2}
	macIn0  = net.HardwareAddr{2, 0, 0, 0, 1, 1}
	macOut0 = net.HardwareAddr{2, 0, 0, 0, 2, 1}
	macS0   = net.HardwareAddr{2, 0, 0, 0, 2, 2}
)

// Rig is a router between a generator and a sink, in three network namespaces:
//
//	gen g0 ── in0 rtr out0 ── s0 snk
//
// The kernel forwards nothing in rtr until told to; whatever is measured runs there. Close removes all of it.
type Rig struct {
	Gen, Router, Sink *nettest.NS
	// Queues is how many receive and transmit queues each end of each cable has.
	Queues int

	traffic traffic
}

// NewRig builds a rig with queues receive and transmit queues on each end of each cable. It first removes what killed processes left
// behind.
func NewRig(queues int) (_ *Rig, err error) {
	if err := nettest.CleanDead(); err != nil {
		return nil, err
	}
	r := &Rig{Queues: queues}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, ns := range []struct {
		at   **nettest.NS
		name string
	}{{&r.Gen, "gen"}, {&r.Router, "rtr"}, {&r.Sink, "snk"}} {
		if *ns.at, err = nettest.NewNS(ns.name); err != nil {
			return nil, err
		}
	}
	if err := nettest.Veth(r.Gen, "g0", r.Router, "in0", vethOptions(queues, macG0, macIn0)); err != nil {
		return nil, err
	}
	if err := nettest.Veth(r.Router, "out0", r.Sink, "s0", vethOptions(queues, macOut0, macS0)); err != nil {
		return nil, err
	}
	return r, r.configure()
}

func vethOptions(queues int, a, b net.HardwareAddr) nettest.VethOptions {
	return nettest.VethOptions{
		A: nettest.VethEnd{NumRX: queues, NumTX: queues, MAC: a},
		B: nettest.VethEnd{NumRX: queues, NumTX: queues, MAC: b},
	}
}

func (r *Rig) configure() error {
	var errs []error
	for _, a := range []struct {
		ns         *nettest.NS
		link, cidr string
	}{
		{r.Gen, "g0", "10.0.1.2/24"}, {r.Gen, "g0", "2001:db8:1::2/64"},
		{r.Router, "in0", "10.0.1.1/24"}, {r.Router, "in0", "2001:db8:1::1/64"},
		{r.Router, "out0", "10.0.2.1/24"}, {r.Router, "out0", "2001:db8:2::1/64"},
		{r.Sink, "s0", "10.0.2.2/24"}, {r.Sink, "s0", "2001:db8:2::2/64"},
	} {
		errs = append(errs, a.ns.Up(a.link), a.ns.Addr(a.link, a.cidr))
	}
	for _, route := range []struct {
		ns       *nettest.NS
		dst, via string
	}{
		{r.Gen, "default", "10.0.1.1"}, {r.Gen, "default6", "2001:db8:1::1"},
		{r.Sink, "default", "10.0.2.1"}, {r.Sink, "default6", "2001:db8:2::1"},
	} {
		errs = append(errs, route.ns.Route(route.dst, route.via, ""))
	}
	return errors.Join(errs...)
}

// FixNeighbours makes the router's neighbours permanent, so that no trial spends its first packets on finding them.
func (r *Rig) FixNeighbours() error {
	return errors.Join(
		r.Router.Neigh("in0", GenAddr.String(), macG0), r.Router.Neigh("in0", GenAddr6.String(), macG0),
		r.Router.Neigh("out0", SinkAddr.String(), macS0), r.Router.Neigh("out0", SinkAddr6.String(), macS0),
	)
}

// Close removes the namespaces and all that is in them.
func (r *Rig) Close() error {
	var errs []error
	for _, ns := range []*nettest.NS{r.Gen, r.Router, r.Sink} {
		if ns != nil {
			errs = append(errs, ns.Close())
		}
	}
	return errors.Join(errs...)
}

// Flood sends 60-byte UDP frames from g0 towards the sink, rate packets per second or as fast as it goes when 0, within the bounds.
// The caller chooses the CPU by pinning its thread. What is offered to the router is counted by Offered.
func (r *Rig) Flood(ctx context.Context, rate uint64, b xdpprog.Bounds) (xdpprog.GeneratorResult, error) {
	g, err := r.newGenerator(rate)
	if err != nil {
		return xdpprog.GeneratorResult{}, err
	}
	result, err := g.Run(ctx, b)
	return result, errors.Join(err, g.Close())
}

// newGenerator makes the generator of a Flood. The caller closes it.
func (r *Rig) newGenerator(rate uint64) (*xdpprog.Generator, error) {
	var g *xdpprog.Generator
	err := r.Gen.Do(func() error {
		link, err := net.InterfaceByName("g0")
		if err != nil {
			return fmt.Errorf("generator on g0: %w", err)
		}
		cfg := xdpprog.GeneratorConfig{
			Ifindex: link.Index, SrcMAC: [6]byte(macG0), DstMAC: [6]byte(macIn0),
			Src: GenAddr, Dst: SinkAddr, SrcPort: 1024, DstPort: 9, Size: 60, RatePPS: rate, NumFlows: 64,
		}
		r.traffic.apply(&cfg)
		g, err = xdpprog.NewGenerator(cfg)
		return err
	})
	return g, err
}

// Offered is how many frames were redirected to the router's device since the rig was built: those that entered its ring and those it
// dropped from the full ring.
func (r *Rig) Offered() (uint64, error) {
	stats, err := r.Gen.EthtoolStats("g0")
	if err != nil {
		return 0, err
	}
	var n uint64
	for q := 0; ; q++ {
		sent, ok := stats[fmt.Sprintf("tx_queue_%d_xdp_xmit", q)]
		if !ok {
			return n, nil
		}
		n += sent + stats[fmt.Sprintf("tx_queue_%d_xdp_xmit_errors", q)]
	}
}

// AttachSink counts and drops the flood's frames where they arrive.
func (r *Rig) AttachSink() (*xdpprog.Sink, error) {
	var sink *xdpprog.Sink
	err := r.Sink.Do(func() error {
		link, err := net.InterfaceByName("s0")
		if err != nil {
			return fmt.Errorf("sink on s0: %w", err)
		}
		sink, err = xdpprog.AttachSink(link.Index, xdpprog.SinkTCX)
		return err
	})
	return sink, err
}
