package fib

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Readings of the kernel's tables are at least this far apart, and at least twice as far as the last one took: a link that
	// flaps beside a million routes must not keep a CPU busy.
	minReadGap = 50 * time.Millisecond

	maxBackoff  = 5 * time.Second
	maxAttempts = 8 // at a dump that the kernel calls inconsistent
)

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
	t.notUntil = time.Now().Add(max(minReadGap, 2*took))
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
		if err := t.barrier(); err != nil {
			return err
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

// barrier comes between hearing of a link's change and reading routes: the kernel tells first and drops the routes then.
func (t *Table) barrier() error {
	if err := t.requests.barrier(); err != nil {
		return fmt.Errorf("wait for changes of links: %w", err)
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
	if err := t.barrier(); err != nil {
		return err
	}

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
