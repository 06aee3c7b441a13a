package fib

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// PortRef names one port.
type PortRef struct {
	Index   int    // 0..len(Ports)-1, each once
	Ifindex int    // 0 = found by Name
	Name    string // when the link is deleted and made again under this name, the port follows it
}

// Config is what Watch needs to know.
type Config struct {
	Ports []PortRef

	// ReceiveBuffer is the size of the socket buffer for updates in bytes; 0 = 32 MiB, some 25,000 to 40,000 updates. A burst that
	// does not fit is no loss: it costs a resynchronisation. Stats tells what was granted.
	ReceiveBuffer int
}

// Stats tells how much there is now and counts what happened since Watch.
type Stats struct {
	Routes     int // prefixes with a route; Snapshot.Count tells the kinds apart
	Neighbours int // on ports, known to the kernel

	Updates         uint64        // notifications of the kernel
	Overruns        uint64        // times that notifications were lost because the receive buffer was full
	Resyncs         uint64        // times that everything was read again, the first time not counted
	RouteReads      uint64        // times that routes were read again because the kernel drops them in silence
	Failures        uint64        // times that reading failed; it is tried again, and the last snapshot stays in force
	LastRead        time.Duration // how long the last reading took
	ReceiveBuffer   int           // granted, bytes
	ResolveAsked    uint64        // neighbours the kernel was asked for
	ResolveRepeated uint64        // requests left out because the same one was made less than 200 ms before
	ResolveLimited  uint64        // requests dropped because there were too many
	ResolveFailed   uint64        // requests the kernel refused
}

// Table follows the kernel's tables of one network namespace. Its methods may be called from any goroutine.
type Table struct {
	snapshot atomic.Pointer[Snapshot]
	changes  chan struct{}

	state    *state    // of the goroutine that runs follow
	events   *conn     // notifications
	requests *conn     // readings
	notUntil time.Time // no reading before
	backoff  time.Duration
	rereads  int // in a row, because routes were deleted while they were read

	resolver  *resolver
	closeOnce sync.Once
	stopCtx   func() bool
	wg        sync.WaitGroup

	stats struct {
		updates, overruns, resyncs, routeReads, failures atomic.Uint64
		lastRead                                         atomic.Int64
		receiveBuffer                                    int
	}
	err atomic.Pointer[error]
}

const defaultReceiveBuffer = 32 << 20

// Watch reads the tables of the calling thread's network namespace and follows them until Close or the end of ctx. Reading needs no
// privilege; Resolve, and a receive buffer above net.core.rmem_max, need CAP_NET_ADMIN. The caller closes the Table.
func Watch(ctx context.Context, c Config) (*Table, error) {
	ports, err := orderPorts(c.Ports)
	if err != nil {
		return nil, err
	}
	t := &Table{state: newState(ports), changes: make(chan struct{}, 1)}
	if err := t.open(c); err != nil {
		t.closeConns()
		return nil, fmt.Errorf("watch routes: %w", err)
	}
	for _, p := range t.state.ports {
		if _, ok := t.state.links[p.info.Ifindex]; !ok {
			t.closeConns()
			return nil, fmt.Errorf("watch port %s: no such link in this network namespace: check the name", p.name)
		}
	}
	t.notUntil = time.Now()
	t.catchUp()
	t.wg.Go(t.follow)
	t.wg.Go(t.resolver.run)
	t.stopCtx = context.AfterFunc(ctx, t.stop)
	return t, nil
}

// orderPorts returns the ports in the order of their indexes.
func orderPorts(refs []PortRef) ([]PortRef, error) {
	ports := make([]PortRef, len(refs))
	for _, p := range refs {
		switch {
		case p.Index < 0 || p.Index >= len(refs) || ports[p.Index].Name != "":
			return nil, fmt.Errorf("watch port %s: index %d: must be unique and from 0 to %d", p.Name, p.Index, len(refs)-1)
		case p.Name == "":
			return nil, fmt.Errorf("watch port with index %d: has no name", p.Index)
		}
		ports[p.Index] = p
	}
	return ports, nil
}

// open opens the sockets and reads everything once.
func (t *Table) open(c Config) (err error) {
	if t.events, err = openConn(); err != nil {
		return err
	}
	size := c.ReceiveBuffer
	if size == 0 {
		size = defaultReceiveBuffer
	}
	if t.stats.receiveBuffer, err = t.events.setReceiveBuffer(size); err != nil {
		return err
	}
	// One socket for all groups: so the kernel's order between, say, a link and its routes is kept. Subscribed before the first
	// reading, so nothing falls between the two; what is in both is applied twice, which does no harm.
	err = t.events.subscribe(unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_NEXTHOP,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, rtnlgrpIPv6Rule)
	if err != nil {
		return err
	}
	if t.requests, err = openConn(); err != nil {
		return err
	}
	if t.resolver, err = newResolver(t.Snapshot); err != nil {
		return err
	}
	return t.readAll()
}

const rtnlgrpIPv6Rule = 19 // RTNLGRP_IPV6_RULE of linux/rtnetlink.h

// Snapshot returns the current state. One atomic load.
func (t *Table) Snapshot() *Snapshot { return t.snapshot.Load() }

// Changes returns a channel that has a value after ports, own addresses or policy rules changed: Port, Locals, Broadcasts and
// ForeignRules of Snapshot. Several changes may share one value.
func (t *Table) Changes() <-chan struct{} { return t.changes }

// ForeignRules returns those of the current Snapshot.
func (t *Table) ForeignRules() []Rule { return t.Snapshot().ForeignRules() }

// Resolve asks the kernel to find, or when it is Stale to verify, the hardware address of each Addr. Call it once per batch for all
// packets that had no usable address. It never blocks: requests that were made less than 200 ms ago are left out, and so are those
// that are too many at once. The kernel then sends ARP or ND as it does for its own packets, with its own limits; the answer shows
// in Neighbour.MAC. reqs is not kept.
func (t *Table) Resolve(reqs []Request) { t.resolver.ask(reqs) }

// Stats returns the counters.
func (t *Table) Stats() Stats {
	snapshot := t.Snapshot()
	neighbours := 0
	for _, table := range snapshot.neighbours {
		neighbours += table.Size()
	}
	return Stats{
		Routes:          snapshot.routes4.Size() + snapshot.routes6.Size(),
		Neighbours:      neighbours,
		Updates:         t.stats.updates.Load(),
		Overruns:        t.stats.overruns.Load(),
		Resyncs:         t.stats.resyncs.Load(),
		RouteReads:      t.stats.routeReads.Load(),
		Failures:        t.stats.failures.Load(),
		LastRead:        time.Duration(t.stats.lastRead.Load()),
		ReceiveBuffer:   t.stats.receiveBuffer,
		ResolveAsked:    t.resolver.asked.Load(),
		ResolveRepeated: t.resolver.repeated.Load(),
		ResolveLimited:  t.resolver.limited.Load(),
		ResolveFailed:   t.resolver.failed.Load(),
	}
}

// Err returns why the last reading of the kernel's tables failed, nil when the Table is in step with the kernel.
func (t *Table) Err() error {
	if p := t.err.Load(); p != nil {
		return *p
	}
	return nil
}

// Close ends following and returns when the goroutines have ended. Snapshots stay readable.
func (t *Table) Close() error {
	t.stopCtx()
	t.stop()
	t.wg.Wait()
	return nil
}

func (t *Table) stop() { t.closeOnce.Do(t.closeConns) }

func (t *Table) closeConns() {
	for _, c := range [...]*conn{t.events, t.requests} {
		if c != nil {
			c.Close()
		}
	}
	if t.resolver != nil {
		t.resolver.close()
	}
}
