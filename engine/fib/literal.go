package fib

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// Literal is a Snapshot written down, for whoever has no kernel to follow: tests, benchmarks, models.
type Literal struct {
	Ports      []PortInfo // by index
	Routes     []LiteralRoute
	Neighbours []LiteralNeighbour
}

// LiteralRoute is one route of a Literal. Next need not be given: it is found by Egress and Via.
type LiteralRoute struct {
	Prefix netip.Prefix
	Route  Route
}

// LiteralNeighbour is what a Literal's kernel knows of Addr on a port.
type LiteralNeighbour struct {
	Port  int
	Addr  netip.Addr
	MAC   [6]byte
	State NeighbourState
}

// NeighbourState is the part of the kernel's neighbour states that Neighbour tells apart.
type NeighbourState uint8

const (
	Unusable  NeighbourState = iota // INCOMPLETE, FAILED, or no entry
	Reachable                       // MAC answers with ok
	Stale                           // the same, and Stale says so
)

// NewSnapshot returns the snapshot that l describes. As with the kernel's tables, a gateway route has a neighbour even if nothing is
// known of its gateway, an unusable one, and equal routes share one Route. Of the host itself (Locals, Broadcasts, ForeignRules) it
// knows nothing.
func NewSnapshot(l Literal) *Snapshot {
	s := &Snapshot{routes4: &bart.Table[*Route]{}, routes6: &bart.Table[*Route]{}, ports: append([]PortInfo(nil), l.Ports...)}
	for range l.Ports {
		s.neighbours = append(s.neighbours, &bart.Table[*Neighbour]{})
	}
	for _, n := range l.Neighbours {
		s.neighbour(n.Port, n.Addr).word.Store(n.word())
	}
	index := newIndexer()
	var hops []hop
	shared := map[Route]*Route{}
	for _, r := range l.Routes {
		route := r.Route
		if route.Kind == Forward && route.Via.IsValid() {
			route.Next = s.neighbour(route.Egress, route.Via)
		}
		if shared[route] == nil {
			made := route
			made.hop = hopID(len(hops))
			shared[route] = &made
			hops = append(hops, hop{route: &made})
		}
		if r.Prefix.Addr().Is4() {
			s.routes4.Insert(r.Prefix, shared[route])
			index.changed(r.Prefix)
		} else {
			s.routes6.Insert(r.Prefix, shared[route])
		}
		s.counts[route.Kind]++
	}
	s.index = index.publish(s.routes4, hops)
	s.onLink = indexNeighbours(s.neighbours)
	return s
}

// neighbour returns the cell of addr on a port, made if there is none.
func (s *Snapshot) neighbour(port int, addr netip.Addr) *Neighbour {
	if n, ok := s.neighbours[port].Lookup(addr); ok {
		return n
	}
	n := new(Neighbour)
	s.neighbours[port].Insert(netip.PrefixFrom(addr, addr.BitLen()), n)
	return n
}

func (n LiteralNeighbour) word() uint64 {
	word := uint64(0)
	for _, b := range n.MAC {
		word = word<<8 | uint64(b)
	}
	switch n.State {
	case Reachable:
		word |= usable
	case Stale:
		word |= usable | staleBit
	}
	return word
}
