package fib

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
	"golang.org/x/sys/unix"
)

// work says what has to be read again from the kernel.
type work struct {
	all    bool
	routes [2]bool // IPv4, IPv6
	rules  bool
}

func (w work) any() bool { return w != work{} }

// state is what we know of the kernel's tables. One goroutine owns it; it reaches no kernel, so a test may drive it. link, addr, neigh
// and route apply one update each; what an update leaves open is noted in todo. The read methods replace all there is of a kind.
// snapshot publishes.
type state struct {
	ports  []portState
	byLink map[int]int // ifindex → port
	links  map[int]linkUpdate

	v4 family[key4]
	v6 family[key6]
	// covers holds the prefixes of table local that are no host routes. The kernel asks table local first, so below them table main
	// does not count, however long its prefixes are.
	covers bart.Table[struct{}]

	hops       hops
	cells      map[cellKey]*cell
	neighbours []cow[*Neighbour] // by port
	cellGen    uint8             // of the last reading of neighbours

	routes4 cow[*Route]
	routes6 cow[*Route]
	index   *indexer // of routes4
	counts  [numKinds]int
	own     map[netip.Prefix]Kind // the Local and Broadcast entries of both
	rules   []Rule
	scratch []candidate

	todo  work
	last  *Snapshot
	dirty dirty
}

// dirty says in what the state differs from the last snapshot.
type dirty struct {
	tables bool // routes or neighbours
	onLink bool // which neighbours there are
	ports  bool
	own    bool
	rules  bool
}

type portState struct {
	name string
	info PortInfo
}

// family is the routes of IPv4 or IPv6.
type family[K ribKey] struct {
	main, local rib[K]
	gen         uint8 // of the last reading
	deleted     int   // updates that took a route away; distrust
}

// trie returns the lookup table that a prefix belongs to.
func (s *state) trie(p netip.Prefix) *cow[*Route] {
	if p.Addr().Is4() {
		return &s.routes4
	}
	return &s.routes6
}

func newFamily[K ribKey]() family[K] { return family[K]{main: newRIB[K](), local: newRIB[K]()} }

func (f *family[K]) rib(local bool) *rib[K] {
	if local {
		return &f.local
	}
	return &f.main
}

// newState returns the state of a kernel without any link. ports are in the order of their indexes.
func newState(ports []PortRef) *state {
	s := &state{
		byLink:  map[int]int{},
		links:   map[int]linkUpdate{},
		v4:      newFamily[key4](),
		v6:      newFamily[key6](),
		hops:    hops{index: map[hopSpec]hopID{}},
		cells:   map[cellKey]*cell{},
		routes4: newCOW[*Route](),
		routes6: newCOW[*Route](),
		index:   newIndexer(),
		own:     map[netip.Prefix]Kind{},
		dirty:   dirty{true, true, true, true, true},
	}
	for _, p := range ports {
		s.ports = append(s.ports, portState{name: p.Name, info: PortInfo{Name: p.Name, Ifindex: p.Ifindex}})
		s.neighbours = append(s.neighbours, newCOW[*Neighbour]())
		if p.Ifindex != 0 {
			s.byLink[p.Ifindex] = p.Index
		}
	}
	return s
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

// snapshot returns the current state for everybody, the same as before when nothing has changed. With more updates waiting, the IPv4
// trie is held back if it is our own copy: Lookup does not need it, and once published it would have to be copied again for them.
func (s *state) snapshot(more bool) *Snapshot {
	if s.dirty == (dirty{}) {
		return s.last
	}
	next := &Snapshot{
		routes6: s.routes6.publish(),
		index:   s.index.publish(s.routes4.table, s.hops.list),
		counts:  s.counts,
		rules:   s.rules,
	}
	held := more && s.routes4.private && s.last != nil
	if held {
		next.routes4 = s.last.routes4
	} else {
		next.routes4 = s.routes4.publish()
	}
	for i := range s.neighbours {
		next.neighbours = append(next.neighbours, s.neighbours[i].publish())
	}
	if s.dirty.onLink || s.last == nil {
		next.onLink = indexNeighbours(next.neighbours)
	} else {
		next.onLink = s.last.onLink
	}
	if s.dirty.ports {
		for _, p := range s.ports {
			next.ports = append(next.ports, p.info)
		}
	} else {
		next.ports = s.last.ports
	}
	if s.dirty.own {
		next.locals, next.broadcasts = s.ownPrefixes(Local), s.ownPrefixes(Broadcast)
	} else {
		next.locals, next.broadcasts = s.last.locals, s.last.broadcasts
	}
	s.dirty, s.last = dirty{tables: held}, next
	return next
}

func (s *state) ownPrefixes(kind Kind) []netip.Prefix {
	var list []netip.Prefix
	for p, k := range s.own {
		if k == kind {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, netip.Prefix.Compare)
	return list
}
