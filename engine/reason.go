package engine

// Reason says why a packet that reached a frame was not forwarded. Each such packet is counted under exactly one reason; the
// packets that never reached a frame are counted by the door (package xdpprog) and by the device.
type Reason uint8

// The reasons, in the order in which the decision meets them. forwarded is no drop; it is the zero value so that the hot path can
// test for it at no cost.
const (
	forwarded Reason = iota
	// DropBadDescriptor: the kernel's descriptor does not lie inside one frame of the UMEM that was lent for receiving.
	DropBadDescriptor
	// DropNotIP: neither IPv4 nor IPv6; the door passes such frames to the kernel, so only a race with its attachment gets here.
	DropNotIP
	// DropMalformedHeader: too short for its IP header, wrong version, or a header length below five words.
	DropMalformedHeader
	// DropBadChecksum: the IPv4 header checksum is wrong.
	DropBadChecksum
	// DropMalformedLength: the total (or payload) length contradicts the header length or exceeds the frame.
	DropMalformedLength
	// DropMartianSource: a source no packet may carry: multicast, broadcast, loopback, unspecified, IPv4-mapped.
	DropMartianSource
	// DropMartianDestination: a destination that is never routed: loopback, unspecified, class E, multicast, IPv4-mapped.
	DropMartianDestination
	// DropHopByHop: an IPv6 hop-by-hop options header.
	DropHopByHop
	// DropScope: an IPv6 link-local source or destination, which must not leave its link.
	DropScope
	// DropNoRoute: no route covers the destination.
	DropNoRoute
	// DropToHost: the destination is an address of this host that the door did not know yet.
	DropToHost
	// DropBlackhole: a blackhole route.
	DropBlackhole
	// DropUnreachable: an unreachable route.
	DropUnreachable
	// DropProhibit: a prohibit route.
	DropProhibit
	// DropEgressNotAPort: the route leaves through an interface weir does not forward on.
	DropEgressNotAPort
	// DropUnsupportedRoute: a kind of route weir does not follow yet (multipath, nexthop objects, encapsulation).
	DropUnsupportedRoute
	// DropOptions: IPv4 options.
	DropOptions
	// DropTTLExpired: the TTL or hop limit would reach zero.
	DropTTLExpired
	// DropEgressDown: the egress port is down.
	DropEgressDown
	// DropTooBig: larger than the egress MTU or the route's.
	DropTooBig
	// DropNeighbourUnresolved: the next hop's MAC is not known; the kernel has been asked to resolve it.
	DropNeighbourUnresolved
	// DropBacklogFull: the egress's transmit ring and backlog are full.
	DropBacklogFull
	// DropNoFrame: no free frame for the copy into the egress's UMEM.
	DropNoFrame
	numReasons
)

var reasonNames = [numReasons]string{
	forwarded:               "forwarded",
	DropBadDescriptor:       "bad_descriptor",
	DropNotIP:               "not_ip",
	DropMalformedHeader:     "malformed_header",
	DropBadChecksum:         "bad_checksum",
	DropMalformedLength:     "malformed_length",
	DropMartianSource:       "martian_source",
	DropMartianDestination:  "martian_destination",
	DropHopByHop:            "hop_by_hop",
	DropScope:               "scope",
	DropNoRoute:             "no_route",
	DropToHost:              "to_host",
	DropBlackhole:           "blackhole",
	DropUnreachable:         "unreachable",
	DropProhibit:            "prohibit",
	DropEgressNotAPort:      "egress_not_a_port",
	DropUnsupportedRoute:    "unsupported_route",
	DropOptions:             "ip_options",
	DropTTLExpired:          "ttl_expired",
	DropEgressDown:          "egress_down",
	DropTooBig:              "too_big",
	DropNeighbourUnresolved: "neighbour_unresolved",
	DropBacklogFull:         "backlog_full",
	DropNoFrame:             "no_frame",
}

// String returns the reason as it appears in counters and metrics.
func (r Reason) String() string {
	if r < numReasons {
		return reasonNames[r]
	}
	return "invalid"
}
