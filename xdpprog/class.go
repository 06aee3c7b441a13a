package xdpprog

import "strconv"

// Class says why the receive program passes a frame to the kernel. Each class has a rate limit of its own (see [Limit]), so that a
// flood of one kind leaves room for the others.
//
// The order is that of enum class in bpf/weir_rx.c, and a test holds the two together.
type Class uint8

const (
	// ClassTooShort: fewer bytes than an Ethernet header.
	ClassTooShort Class = iota
	// ClassOtherMAC: a unicast frame to another station's MAC, seen because the port is promiscuous or a switch floods.
	ClassOtherMAC
	// ClassNotIP: neither IPv4, IPv6 nor ARP by its EtherType: every tagged frame (802.1Q, 802.1ad), LLDP, LACP, IS-IS …
	ClassNotIP
	// ClassNeighbour: ARP, and IPv6 neighbour and router discovery (ICMPv6 types 133 to 137 to a group or a local address). It is a
	// class of its own because a router that no longer answers these falls off its links, whatever else is flooding them.
	ClassNeighbour
	// ClassMulticast: IP in a frame to a group MAC, or to a multicast IP address (224.0.0.0/4, ff00::/8).
	ClassMulticast
	// ClassBroadcast: IP in a frame to the broadcast MAC, or to 255.255.255.255. Subnet broadcast addresses are host routes of the
	// kernel's local table, thus ClassLocal.
	ClassBroadcast
	// ClassLocal: to an address given to [Port.SetLocal].
	ClassLocal
	// ClassNoSocket: it should have been forwarded, but its queue has no AF_XDP socket.
	ClassNoSocket

	// NumClasses is the number of classes.
	NumClasses = iota
)

var classNames = [NumClasses]string{
	ClassTooShort:  "too_short",
	ClassOtherMAC:  "other_mac",
	ClassNotIP:     "not_ip",
	ClassNeighbour: "neighbour",
	ClassMulticast: "multicast",
	ClassBroadcast: "broadcast",
	ClassLocal:     "local",
	ClassNoSocket:  "no_socket",
}

// String returns the class's name as it appears in metrics and JSON: lower case, words joined by underscores.
func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "class_" + strconv.Itoa(int(c))
}
