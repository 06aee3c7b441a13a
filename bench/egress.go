package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/napi"
	"weir/internal/nettest"
	"weir/xdpprog"
)

// Egress is what is the matter with the second egress.
type Egress string

// The states of an egress.
const (
	// EgressFree takes what comes.
	EgressFree Egress = "free"
	// EgressSlow takes about a tenth of the MLFRR.
	EgressSlow Egress = "slow"
	// EgressStuck takes nothing, but what a ring holds, once in a second.
	EgressStuck Egress = "stuck"
	// EgressDown has no carrier.
	EgressDown Egress = "down"
)

// Destinations behind the two egresses, neighbours so that one generator serves both in turn.
var (
	healthyDst = netip.MustParseAddr("10.9.0.0")
	slowDst    = netip.MustParseAddr("10.9.0.1")

	slowGateway = netip.MustParseAddr("10.0.3.2")

	macOut1 = net.HardwareAddr{2, 0, 0, 0, 3, 1}
	macS1   = net.HardwareAddr{2, 0, 0, 0, 3, 2}
)

const (
	slowPort, slowPeer = "out1", "s1"
	// stuckFor is how long a stuck egress takes nothing on end; then it empties its ring once.
	stuckFor = time.Second
	// slowPause is the pause of a slow egress before it is calibrated.
	slowPause = 4 * time.Millisecond
)

// slowEgress is a second egress of a rig, out1, with a host behind it that takes frames only when it is let:
//
//	out1, with a queue that stops ─ ring of s1 ─ kernel thread of s1's NAPI, which pauses when it has emptied the ring ─ sink
type slowEgress struct {
	rig   *Rig
	sink  *xdpprog.Sink
	pause time.Duration // of a slow one
	state Egress
}

// addEgress gives the rig the second egress and routes to both, and leaves it free. The caller closes it, before the rig.
func (r *Rig) addEgress() (_ *slowEgress, err error) {
	if err := nettest.Veth(r.Router, slowPort, r.Sink, slowPeer, vethOptions(1, macOut1, macS1)); err != nil {
		return nil, err
	}
	err = errors.Join(
		r.Router.Up(slowPort), r.Sink.Up(slowPeer), r.Router.Addr(slowPort, "10.0.3.1/24"), r.Sink.Addr(slowPeer, slowGateway.String()+"/24"),
		r.Router.Neigh(slowPort, slowGateway.String(), macS1),
		r.Router.Route(healthyDst.String()+"/32", SinkAddr.String(), ""), r.Router.Route(slowDst.String()+"/32", slowGateway.String(), ""),
		// Without a queueing discipline the device drops what its peer's ring does not take; with one it stops.
		r.queueing(slowPort), r.Sink.Offload(slowPeer, "rx-gro", true),
	)
	// Only frames that no GRO could have made go through the peer's NAPI, says veth: a device that segments nothing sends such.
	for _, segmentation := range []string{"tcp", "tcp6", "tcp-ecn", "tcp-mangleid"} {
		err = errors.Join(err, r.Router.Offload(slowPort, "tx-"+segmentation+"-segmentation", false))
	}
	if err != nil {
		return nil, fmt.Errorf("second egress: %w", err)
	}
	e := &slowEgress{rig: r, pause: slowPause}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("second egress: %w", err), e.close())
		}
	}()
	if e.sink, err = attachSinkTo(r.Sink, slowPeer); err != nil {
		return nil, err
	}
	return e, e.set(EgressFree)
}

// queueing gives a device a first-in-first-out queueing discipline.
func (r *Rig) queueing(link string) error {
	l, err := r.Router.Link(link)
	if err != nil {
		return err
	}
	return r.Router.Handle().QdiscReplace(&netlink.GenericQdisc{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)}, QdiscType: "pfifo",
	})
}

func attachSinkTo(ns *nettest.NS, name string) (sink *xdpprog.Sink, err error) {
	l, err := ns.Link(name)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() (err error) {
		sink, err = xdpprog.AttachSink(l.Attrs().Index, xdpprog.SinkTCX)
		return err
	})
	return sink, err
}

// set puts the egress into a state. One that was stuck takes frames again when its pause has ended, stuckFor after it began at most.
func (e *slowEgress) set(state Egress) error {
	if e.state == EgressDown && state != EgressDown {
		if err := errors.Join(e.rig.Sink.Up(slowPeer), e.rig.Sink.Ready(slowPeer), e.rig.Router.Ready(slowPort)); err != nil {
			return err
		}
		e.state = ""
	}
	if e.state == "" {
		if err := e.thread(); err != nil {
			return err
		}
	}
	e.state = state
	switch state {
	case EgressSlow:
		return e.defers(e.pause)
	case EgressStuck:
		return e.defers(stuckFor)
	case EgressDown:
		return errors.Join(e.defers(0), e.rig.Sink.Down(slowPeer))
	}
	return e.defers(0)
}

// defers makes s1's NAPI pause when it has emptied the ring, whatever comes meanwhile: it is not scheduled again but by the timer.
func (e *slowEgress) defers(pause time.Duration) error {
	irqs := "1"
	if pause == 0 {
		irqs = "0"
	}
	return errors.Join(e.rig.Sink.SetLinkAttr(slowPeer, "napi_defer_hard_irqs", irqs),
		e.rig.Sink.SetLinkAttr(slowPeer, "gro_flush_timeout", strconv.FormatInt(pause.Nanoseconds(), 10)))
}

// free puts the egress into its normal state and waits until its last pause has ended. Taken down and up again before
// that, it delivered nothing any more (Linux 6.18); presumably the queue of out1 had stopped and nobody woke it.
func (e *slowEgress) free(ctx context.Context) error {
	was := e.state
	if err := e.set(EgressFree); err != nil {
		return err
	}
	switch was {
	case EgressStuck:
		return pause(ctx, stuckFor+drainStep)
	case EgressSlow:
		return pause(ctx, e.pause+drainStep)
	}
	return nil
}

// thread gives s1's NAPI a kernel thread on the generator's CPU, so that what is measured has nothing to do with it.
func (e *slowEgress) thread() error {
	if err := e.rig.Sink.SetLinkAttr(slowPeer, attrThreaded, "1"); err != nil {
		return err
	}
	threads, err := napiThreads(e.rig.Sink, slowPeer)
	if err == nil && len(threads) != 1 {
		err = fmt.Errorf("%s has %d kernel threads, not one", slowPeer, len(threads))
	}
	if err != nil {
		return err
	}
	// It shall run when its pause has ended, not when the generator pauses.
	return errors.Join(napi.SetThreadCPUs(threads[0], []int{generatorCPU}),
		napi.SetThreadRank(threads[0], napi.Rank{Policy: unix.SCHED_NORMAL, Nice: -20}))
}

// napiThreads are the kernel threads of a device's NAPIs.
func napiThreads(ns *nettest.NS, name string) (threads []int, err error) {
	l, err := ns.Link(name)
	if err != nil {
		return nil, err
	}
	err = ns.Do(func() error {
		client, err := napi.Dial()
		if err != nil {
			return err
		}
		defer client.Close()
		list, err := client.List(l.Attrs().Index)
		for _, n := range list {
			if n.PID != 0 {
				threads = append(threads, n.PID)
			}
		}
		return err
	})
	return threads, err
}

// delivered is how many packets have come out so far.
func (e *slowEgress) delivered() (uint64, error) {
	count, err := e.sink.Count()
	return count.Packets, err
}

// close removes the sink; the devices go with the rig.
func (e *slowEgress) close() error {
	if e.sink == nil {
		return nil
	}
	return e.sink.Close()
}

// The pauses of a slow egress. Longer ones are not slow but stuck, and could not be told from one another while it is calibrated.
const minPause, maxPause = 100 * time.Microsecond, 100 * time.Millisecond

// slowerPause is the pause that makes an egress which delivered so many packets per second deliver want.
func slowerPause(pause time.Duration, delivered, want float64) time.Duration {
	if delivered <= 0 || want <= 0 {
		return pause
	}
	p := time.Duration(float64(pause) * delivered / want)
	return min(max(p, minPause), maxPause)
}
