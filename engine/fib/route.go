package fib

import "net/netip"

// Kind says what becomes of packets that match a route.
type Kind uint8

const (
	Forward     Kind = iota + 1 // through port Egress
	Local                       // an address of this host, IPv6 anycast addresses included
	Broadcast                   // an IPv4 subnet broadcast address of this host
	Multicast                   // IPv6 ff00::/8
	Blackhole                   // drop in silence
	Unreachable                 // drop, answer ICMP host unreachable
	Prohibit                    // drop, answer ICMP administratively prohibited
	NotAPort                    // the kernel would forward through a link that is no port
	Unsupported                 // see Reason
	numKinds
)

// String returns the kind in lower case words.
func (k Kind) String() string {
	names := [numKinds]string{"none", "forward", "local", "broadcast", "multicast", "blackhole", "unreachable", "prohibit",
		"not a port", "unsupported"}
	if k >= numKinds {
		return "invalid"
	}
	return names[k]
}

// Reason says why a route is Unsupported.
type Reason uint8

const (
	Supported     Reason = iota // the route is no Unsupported one
	Multipath                   // several next hops
	NextHopObject               // a next hop object (ip nexthop)
	Encapsulation               // a lightweight tunnel (encap)
	SourcePrefix                // an IPv6 route that matches the source address
	ServiceType                 // an IPv4 route that matches the type of service
	RouteType                   // a type this package does not know, or a throw route in table local
	numReasons
)

// String returns the reason in lower case words.
func (r Reason) String() string {
	names := [numReasons]string{"supported", "multipath", "next hop object", "encapsulation", "source prefix", "type of service",
		"route type"}
	if r >= numReasons {
		return "invalid"
	}
	return names[r]
}

// Route is what Lookup answers. Routes of one next hop share it; it never changes.
type Route struct {
	Kind   Kind
	Reason Reason // of Unsupported

	Egress  int        // port index as in Config; -1 unless Forward
	Ifindex int        // of the egress link, 0 = none
	Via     netip.Addr // gateway, also IPv6 for an IPv4 route; invalid = the destination is on the link
	Next    *Neighbour // of Via on Egress; nil unless Forward with a valid Via
	MTU     int        // the route's own MTU in bytes, to be used where it is less than the port's; 0 = none

	hop hopID // its own, for index4
}
