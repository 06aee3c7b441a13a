package fib

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// Stats counts what happened since Watch.
type Stats struct {
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

const (
	defaultReceiveBuffer = 32 << 20

	// A batch of updates is published after so many, or after so long. Publishing costs little, but a table that was published has to
	// be copied where it changes, so a burst is cheaper in few batches.
	maxBatch     = 4096
	maxBatchTime = 5 * time.Millisecond

	// Readings of the kernel's tables are at least this far apart, and at least four times as far as the last one took: a link that
	// flaps beside a million routes must not keep a CPU busy.
	minReadGap = 50 * time.Millisecond

	maxBackoff  = 5 * time.Second
	maxAttempts = 8 // at a dump that the kernel calls inconsistent
	maxRereads  = 3 // distrust
)

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
		if p.info.Ifindex == 0 {
			t.closeConns()
			return nil, fmt.Errorf("watch port %s: no such link in this network namespace: check the name", p.name)
		}
	}
	t.drain(0)
	t.publish()
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
	return Stats{
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

// follow keeps the state in step with the kernel until the sockets are closed.
func (t *Table) follow() {
	for {
		var deadline time.Time
		if t.state.todo.any() {
			deadline = t.notUntil
		}
		b, err := t.events.receive(true, deadline)
		if errors.Is(err, os.ErrClosed) {
			return
		}
		t.handle(b, err)
		t.drain(maxBatchTime)
		if t.state.todo.any() && !time.Now().Before(t.notUntil) {
			if err := t.read(); errors.Is(err, os.ErrClosed) {
				return
			}
			// What was notified before the reading is old. To publish between it and what followed would show the past.
			t.drain(time.Second)
			t.distrust()
		}
		t.publish()
	}
}

// distrust asks for routes once more when some were deleted while they were read: a dump goes on where it was by counting entries, and
// one that goes makes it skip another. Where routes never stand still it is done a few times only.
func (t *Table) distrust() {
	deleted := [2]bool{t.state.v4.deleted > 0, t.state.v6.deleted > 0}
	t.state.v4.deleted, t.state.v6.deleted = 0, 0
	if deleted == ([2]bool{}) || t.rereads == maxRereads {
		t.rereads = 0
		return
	}
	t.rereads++
	for i, d := range deleted {
		t.state.todo.routes[i] = t.state.todo.routes[i] || d
	}
}

// drain handles what waits in the socket, until it is empty, maxBatch is reached or limit (0: none) has passed.
func (t *Table) drain(limit time.Duration) {
	start := time.Now()
	for i := range maxBatch {
		if limit > 0 && i%64 == 63 && time.Since(start) > limit {
			return
		}
		b, err := t.events.receive(false, time.Time{})
		if err == unix.EAGAIN || errors.Is(err, os.ErrClosed) {
			return
		}
		t.handle(b, err)
	}
}

// handle applies what receive returned.
func (t *Table) handle(b []byte, err error) {
	switch {
	case err == nil:
		t.apply(b)
	case errors.Is(err, os.ErrDeadlineExceeded): // time to read
	default:
		// ENOBUFS: the socket was full. Whatever else goes wrong means the same: something was not heard.
		t.stats.overruns.Add(1)
		t.state.todo.all = true
	}
}

// apply applies a datagram of notifications.
func (t *Table) apply(b []byte) {
	for m, rest, ok := nextMessage(b); ok; m, rest, ok = nextMessage(rest) {
		t.stats.updates.Add(1)
		t.state.apply(m)
	}
}

// apply applies one notification.
func (s *state) apply(m message) {
	switch m.kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if u, ok := parseLink(m); ok {
			s.link(u)
		}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if u, ok := parseAddr(m); ok {
			s.addr(u)
		}
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		if u, ok := parseNeigh(m); ok {
			s.neigh(u)
		}
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if u, ok := parseRoute(m); ok {
			s.route(u)
		}
	case unix.RTM_NEWRULE, unix.RTM_DELRULE:
		s.todo.rules = true
	case unix.RTM_DELNEXTHOP:
		s.todo.routes = [2]bool{true, true} // the routes through it go without a word
	}
}

// publish makes the state visible.
func (t *Table) publish() {
	d := t.state.dirty
	next := t.state.snapshot()
	if next == t.snapshot.Load() {
		return
	}
	t.snapshot.Store(next)
	if d.ports || d.own || d.rules {
		select {
		case t.changes <- struct{}{}:
		default: // one is waiting already
		}
	}
}

// read does what todo says.
func (t *Table) read() error {
	start := time.Now()
	todo := t.state.todo
	err := t.readTodo(todo)
	took := time.Since(start)
	t.stats.lastRead.Store(int64(took))
	if err != nil {
		t.state.todo.all = true // who knows what was read and what not
		t.stats.failures.Add(1)
		t.backoff = min(max(2*t.backoff, minReadGap), maxBackoff)
		t.notUntil = time.Now().Add(t.backoff)
		t.err.Store(&err)
		return err
	}
	t.err.Store(nil)
	t.backoff = 0
	t.notUntil = time.Now().Add(max(minReadGap, 4*took))
	return nil
}

func (t *Table) readTodo(todo work) error {
	if todo.all {
		t.stats.resyncs.Add(1)
		t.discard()
		return t.readAll()
	}
	t.state.todo = work{}
	if todo.routes[0] || todo.routes[1] {
		t.stats.routeReads.Add(1)
		if err := t.requests.barrier(); err != nil {
			return fmt.Errorf("wait for changes of links: %w", err)
		}
	}
	if todo.routes[0] {
		if err := readRoutes(t, &t.state.v4, unix.AF_INET); err != nil {
			return err
		}
	}
	if todo.routes[1] {
		if err := readRoutes(t, &t.state.v6, unix.AF_INET6); err != nil {
			return err
		}
	}
	if todo.rules {
		return t.readRules()
	}
	return nil
}

// discard throws away what waits in the socket: the kernel sends nothing more to a socket that was full until it is empty.
func (t *Table) discard() {
	for {
		if _, err := t.events.receive(false, time.Time{}); err == unix.EAGAIN || errors.Is(err, os.ErrClosed) {
			return
		}
	}
}

// readAll reads every table.
func (t *Table) readAll() error {
	s := t.state
	var links []linkUpdate
	err := t.dump("links", unix.RTM_GETLINK, unix.AF_UNSPEC, unix.SizeofIfInfomsg,
		func() { links = links[:0] },
		func(m message) {
			if u, ok := parseLink(m); ok {
				links = append(links, u)
			}
		})
	if err != nil {
		return err
	}
	s.readLinks(links)
	s.todo = work{} // what the links asked for comes now

	var addrs []addrUpdate
	err = t.dump("addresses", unix.RTM_GETADDR, unix.AF_UNSPEC, unix.SizeofIfAddrmsg,
		func() { addrs = addrs[:0] },
		func(m message) {
			if u, ok := parseAddr(m); ok {
				addrs = append(addrs, u)
			}
		})
	if err != nil {
		return err
	}
	s.readAddrs(addrs)

	err = t.dump("neighbours", unix.RTM_GETNEIGH, unix.AF_UNSPEC, unix.SizeofNdMsg,
		func() { s.cellGen++ },
		func(m message) {
			if u, ok := parseNeigh(m); ok {
				s.neigh(u)
			}
		})
	if err != nil {
		return err
	}
	s.sweepNeighbours()

	if err := readRoutes(t, &s.v4, unix.AF_INET); err != nil {
		return err
	}
	if err := readRoutes(t, &s.v6, unix.AF_INET6); err != nil {
		return err
	}
	return t.readRules()
}

// readRoutes reads the routes of one family.
func readRoutes[K ribKey](t *Table, f *family[K], af uint8) error {
	err := t.dump("routes", unix.RTM_GETROUTE, af, unix.SizeofRtMsg,
		func() { f.gen++ },
		func(m message) {
			if u, ok := parseRoute(m); ok && m.body[0] == af {
				u.at = read
				t.state.route(u)
			}
		})
	if err != nil {
		return err
	}
	sweepRoutes(t.state, f)
	return nil
}

// readRules reads the policy rules. A kernel without policy routing has none.
func (t *Table) readRules() error {
	var rules []Rule
	var plain []bool
	for _, af := range [...]uint8{unix.AF_INET, unix.AF_INET6} {
		err := t.dump("policy rules", unix.RTM_GETRULE, af, sizeofFibRuleHdr,
			func() {},
			func(m message) {
				if r, p, ok := parseRule(m); ok && m.body[0] == af {
					rules, plain = append(rules, r), append(plain, p)
				}
			})
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EAFNOSUPPORT) {
			return err
		}
	}
	t.state.setRules(foreignRules(rules, plain))
	return nil
}

// dump reads one table, again from start when it changed meanwhile. When it never stands still, the last attempt has to do: what it
// may have missed is being notified.
func (t *Table) dump(what string, kind uint16, family uint8, headerLen int, start func(), f func(message)) error {
	for attempt := 1; ; attempt++ {
		start()
		err := t.requests.dump(kind, family, headerLen, f)
		if err == errInterrupted && attempt < maxAttempts {
			continue
		}
		if err != nil && err != errInterrupted {
			return fmt.Errorf("read %s: %w", what, err)
		}
		return nil
	}
}
