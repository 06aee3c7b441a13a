package fib

import (
	"iter"
	"net/netip"

	"github.com/gaissmai/bart"
)

// Snapshot is what the kernel knew at one moment. It never changes, except that neighbours follow the kernel in place. Its methods may
// be called from any goroutine; Lookup, Neighbour and Port allocate nothing.
type Snapshot struct {
	routes4    *bart.Table[*Route] // only for Routes; from before the burst if the snapshot was made during one
	routes6    *bart.Table[*Route]
	index      *index4                   // answers for IPv4
	neighbours []*bart.Table[*Neighbour] // by port
	onLink     *neighbourIndex           // the IPv4 ones among them
	ports      []PortInfo
	locals     []netip.Prefix
	broadcasts []netip.Prefix
	rules      []Rule
	counts     [numKinds]int
}

// PortInfo is the state of a port's link.
type PortInfo struct {
	Name    string
	Ifindex int  // 0 while no link of that name exists
	Up      bool // administratively, and there is a carrier
	MTU     int  // bytes
	MAC     [6]byte
	Addrs   []netip.Prefix // addresses in use with the length of their subnet, in the kernel's order; not to be written
}

// Lookup returns the route for a destination, or nil when there is none. dst must be a plain IPv4 address or an IPv6 address that is
// not IPv4-mapped, without a zone.
//
// It answers with what is in the routing tables and nothing else, so the caller checks the scope of dst first: for 0.0.0.0,
// 224.0.0.0/4, 240.0.0.0/4 and 255.255.255.255, of which the kernel has no routes, the answer is usually the default route; for
// 127.0.0.0/8 and ::1 it is Local, for ff00::/8 Multicast, for fe80::/10 the Forward route of some port, for :: the default route.
func (s *Snapshot) Lookup(dst netip.Addr) *Route {
	if dst.Is4() {
		return s.index.lookup(dst.As4())
	}
	r, _ := s.routes6.Lookup(dst)
	return r
}

// Lookup4 is Lookup for an IPv4 address as it stands in a packet.
func (s *Snapshot) Lookup4(dst [4]byte) *Route { return s.index.lookup(dst) }

// Neighbour returns the cell of an on-link destination on a port, or nil when the kernel does not know it. The same rules for dst as
// in Lookup.
func (s *Snapshot) Neighbour(port int, dst netip.Addr) *Neighbour {
	if dst.Is4() {
		return s.onLink.slot(neighbourKey(port, dst.As4())).cell
	}
	n, _ := s.neighbours[port].Lookup(dst)
	return n
}

// Port returns the state of port i. It is valid as long as the Snapshot and not to be written.
func (s *Snapshot) Port(i int) *PortInfo { return &s.ports[i] }

// NumPorts returns the number of ports of the Config.
func (s *Snapshot) NumPorts() int { return len(s.ports) }

// Locals returns the addresses of this host, of all its links and both families, IPv6 anycast included, sorted. It is not to be written.
func (s *Snapshot) Locals() []netip.Prefix { return s.locals }

// Broadcasts returns the IPv4 subnet broadcast addresses of this host, sorted. It is not to be written.
func (s *Snapshot) Broadcasts() []netip.Prefix { return s.broadcasts }

// ForeignRules returns the policy rules that differ from the three the kernel starts with. While there are any, the kernel may route
// in a way that Lookup does not know.
func (s *Snapshot) ForeignRules() []Rule { return s.rules }

// Count returns how many prefixes have a route of a kind.
func (s *Snapshot) Count(k Kind) int {
	if k >= numKinds {
		return 0
	}
	return s.counts[k]
}

// Routes yields every prefix with its route, in no particular order. Its cost grows with the number of routes. While a burst of updates
// lasts its IPv4 part may be some updates behind what Lookup answers.
func (s *Snapshot) Routes() iter.Seq2[netip.Prefix, *Route] {
	return func(yield func(netip.Prefix, *Route) bool) {
		for _, table := range [...]*bart.Table[*Route]{s.routes4, s.routes6} {
			for p, r := range table.All() {
				if r != nil && !yield(p, r) { // nil: a throw route
					return
				}
			}
		}
	}
}

// Strays yields the routes whose egress is no port: packets that match them cannot be forwarded by weir, although the kernel would.
func (s *Snapshot) Strays() iter.Seq2[netip.Prefix, *Route] {
	return func(yield func(netip.Prefix, *Route) bool) {
		for p, r := range s.Routes() {
			if r.Kind == NotAPort && !yield(p, r) {
				return
			}
		}
	}
}
