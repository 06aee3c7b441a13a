package fib

import (
	"encoding/binary"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

// linkUpdate is an RTM_NEWLINK or RTM_DELLINK.
type linkUpdate struct {
	deleted bool
	ifindex int
	name    string
	up      bool // administratively up, and a carrier
	mtu     int
	mac     [6]byte
}

// addrUpdate is an RTM_NEWADDR or RTM_DELADDR.
type addrUpdate struct {
	deleted bool
	ifindex int
	addr    netip.Prefix // the host's address with the length of its subnet
	usable  bool         // not tentative, no duplicate
}

// neighUpdate is an RTM_NEWNEIGH or RTM_DELNEIGH.
type neighUpdate struct {
	deleted bool
	ifindex int
	addr    netip.Addr
	word    uint64 // as in Neighbour; 0 = not usable
}

// position says where a new route goes among those with the same prefix and metric.
type position uint8

const (
	first   position = iota // before them
	last                    // behind them
	replace                 // in the place of the first of them
	read                    // read from the kernel's table: behind those read before it
)

// routeUpdate is an RTM_NEWROUTE or RTM_DELROUTE of table main or local.
type routeUpdate struct {
	deleted     bool
	local       bool // table local
	prefix      netip.Prefix
	metric      uint32
	conditional bool   // matches only some packets to the prefix
	dead        bool   // the kernel passes it over
	ident       uint32 // hash of all that distinguishes routes of one prefix
	hop         hopSpec
	at          position
	spread      bool // IPv6 with several next hops: the kernel notifies of their parts in ways that only reading them again makes clear
}

// hopSpec is what the routes of one next hop have in common, in the kernel's terms.
type hopSpec struct {
	kind    Kind // Forward for every unicast route; 0 for throw, which ends the search
	reason  Reason
	ifindex int // of Forward; else 0
	via     netip.Addr
	mtu     int
}

// noneKind is the kind of a throw route in table main: the kernel goes on to the next table, and there is none.
const noneKind Kind = 0

func parseLink(m message) (u linkUpdate, ok bool) {
	// A bridge sends RTM_DELLINK of family AF_BRIDGE when a port leaves it; the link lives on.
	if len(m.body) < unix.SizeofIfInfomsg || m.body[0] != unix.AF_UNSPEC {
		return linkUpdate{}, false
	}
	const need = unix.IFF_UP | unix.IFF_LOWER_UP
	u = linkUpdate{
		deleted: m.kind == unix.RTM_DELLINK,
		ifindex: int(int32(binary.NativeEndian.Uint32(m.body[4:]))),
		up:      binary.NativeEndian.Uint32(m.body[8:])&need == need,
	}
	for kind, v, rest, more := nextAttr(m.body[unix.SizeofIfInfomsg:]); more; kind, v, rest, more = nextAttr(rest) {
		switch {
		case kind == unix.IFLA_IFNAME:
			u.name = strings.TrimRight(string(v), "\x00")
		case kind == unix.IFLA_MTU && len(v) == 4:
			u.mtu = int(binary.NativeEndian.Uint32(v))
		case kind == unix.IFLA_ADDRESS && len(v) == 6:
			u.mac = [6]byte(v)
		}
	}
	return u, u.ifindex > 0
}

func parseAddr(m message) (u addrUpdate, ok bool) {
	if len(m.body) < unix.SizeofIfAddrmsg {
		return addrUpdate{}, false
	}
	bits, flags := int(m.body[1]), uint32(m.body[2])
	u.deleted = m.kind == unix.RTM_DELADDR
	u.ifindex = int(int32(binary.NativeEndian.Uint32(m.body[4:])))
	var address, local netip.Addr
	for kind, v, rest, more := nextAttr(m.body[unix.SizeofIfAddrmsg:]); more; kind, v, rest, more = nextAttr(rest) {
		switch {
		case kind == unix.IFA_ADDRESS:
			address = familyAddr(m.body[0], v)
		case kind == unix.IFA_LOCAL:
			local = familyAddr(m.body[0], v)
		case kind == unix.IFA_FLAGS && len(v) == 4:
			flags = binary.NativeEndian.Uint32(v)
		}
	}
	if !local.IsValid() { // on a point-to-point link ADDRESS is the peer's, else the same
		local = address
	}
	u.addr = netip.PrefixFrom(local, bits)
	u.usable = flags&(unix.IFA_F_TENTATIVE|unix.IFA_F_DADFAILED) == 0
	return u, u.addr.IsValid()
}

func parseNeigh(m message) (u neighUpdate, ok bool) {
	if len(m.body) < unix.SizeofNdMsg {
		return neighUpdate{}, false
	}
	state, flags := binary.NativeEndian.Uint16(m.body[8:]), m.body[10]
	u.deleted = m.kind == unix.RTM_DELNEIGH
	u.ifindex = int(int32(binary.NativeEndian.Uint32(m.body[4:])))
	var mac []byte
	for kind, v, rest, more := nextAttr(m.body[unix.SizeofNdMsg:]); more; kind, v, rest, more = nextAttr(rest) {
		switch kind {
		case unix.NDA_DST:
			u.addr = familyAddr(m.body[0], v)
		case unix.NDA_LLADDR:
			mac = v
		}
	}
	const usableStates = unix.NUD_PERMANENT | unix.NUD_NOARP | unix.NUD_REACHABLE | unix.NUD_STALE | unix.NUD_DELAY | unix.NUD_PROBE
	if !u.deleted && state&usableStates != 0 && len(mac) == 6 {
		u.word = uint64(mac[0])<<40 | uint64(mac[1])<<32 | uint64(mac[2])<<24 | uint64(mac[3])<<16 | uint64(mac[4])<<8 | uint64(mac[5]) | usable
		if state&unix.NUD_STALE != 0 {
			u.word |= staleBit
		}
	}
	// Proxy entries say for whom the kernel answers, not where somebody is. Those of multicast groups are computed, not learned.
	return u, u.addr.IsValid() && !u.addr.IsMulticast() && flags&unix.NTF_PROXY == 0
}

func parseRoute(m message) (u routeUpdate, ok bool) {
	if len(m.body) < unix.SizeofRtMsg {
		return routeUpdate{}, false
	}
	h := m.body[:unix.SizeofRtMsg]
	family, dstBits, srcBits, tos, scope, kind := h[0], int(h[1]), h[2], h[3], h[6], h[7]
	flags := binary.NativeEndian.Uint32(h[8:])
	if family != unix.AF_INET && family != unix.AF_INET6 || flags&unix.RTM_F_CLONED != 0 {
		return routeUpdate{}, false
	}
	table := uint32(h[4])
	dst := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	u = routeUpdate{
		deleted:     m.kind == unix.RTM_DELROUTE,
		dead:        flags&unix.RTNH_F_DEAD != 0,
		conditional: srcBits != 0 || family == unix.AF_INET && tos != 0,
	}
	id := newIdent(family, tos, srcBits, h[5], scope, kind)
	hop := hopSpec{}
	reason := Supported
	for attr, v, rest, more := nextAttr(m.body[unix.SizeofRtMsg:]); more; attr, v, rest, more = nextAttr(rest) {
		switch {
		case attr == unix.RTA_DST:
			dst = familyAddr(family, v)
			continue
		case attr == unix.RTA_TABLE && len(v) == 4:
			table = binary.NativeEndian.Uint32(v)
			continue
		case attr == unix.RTA_CACHEINFO || attr == unix.RTA_EXPIRES:
			continue // ages
		case attr == unix.RTA_PRIORITY && len(v) == 4:
			u.metric = binary.NativeEndian.Uint32(v)
		case attr == unix.RTA_OIF && len(v) == 4:
			hop.ifindex = int(int32(binary.NativeEndian.Uint32(v)))
		case attr == unix.RTA_GATEWAY:
			hop.via = familyAddr(family, v)
		case attr == unix.RTA_VIA && len(v) > 2: // struct rtvia: a gateway of another family
			hop.via = familyAddr(uint8(binary.NativeEndian.Uint16(v)), v[2:])
		case attr == unix.RTA_METRICS:
			hop.mtu = metricsMTU(v)
		case attr == unix.RTA_MULTIPATH:
			reason = max(reason, Multipath)
			u.spread = family == unix.AF_INET6
			// The flags of each next hop change with its link; they do not make another route of it.
			id = id.multipath(v)
			continue
		case attr == rtaNHID:
			reason = max(reason, NextHopObject)
		case attr == unix.RTA_ENCAP_TYPE:
			reason = max(reason, Encapsulation)
		}
		id = id.attr(attr, v)
	}
	switch {
	case srcBits != 0:
		reason = SourcePrefix
	case u.conditional:
		reason = ServiceType
	}
	u.local = table == unix.RT_TABLE_LOCAL
	u.prefix = netip.PrefixFrom(dst, dstBits).Masked()
	u.ident = uint32(id)
	u.hop = makeHop(kind, u.local, reason, hop)
	switch {
	case m.flags&unix.NLM_F_REPLACE != 0:
		u.at = replace
	case m.flags&unix.NLM_F_APPEND != 0 || family == unix.AF_INET6:
		u.at = last
	}
	return u, u.prefix.IsValid() && (u.local || table == unix.RT_TABLE_MAIN)
}

// makeHop reduces a route to what its kind needs, so that routes that mean the same share one Route.
func makeHop(rtmType uint8, local bool, reason Reason, hop hopSpec) hopSpec {
	if reason != Supported {
		return hopSpec{kind: Unsupported, reason: reason}
	}
	switch rtmType {
	case unix.RTN_UNICAST:
		hop.kind = Forward
		return hop
	case unix.RTN_LOCAL, unix.RTN_ANYCAST:
		return hopSpec{kind: Local}
	case unix.RTN_BROADCAST:
		return hopSpec{kind: Broadcast}
	case unix.RTN_MULTICAST:
		return hopSpec{kind: Multicast}
	case unix.RTN_BLACKHOLE:
		return hopSpec{kind: Blackhole}
	case unix.RTN_UNREACHABLE:
		return hopSpec{kind: Unreachable}
	case unix.RTN_PROHIBIT:
		return hopSpec{kind: Prohibit}
	case unix.RTN_THROW:
		if !local {
			return hopSpec{kind: noneKind}
		}
	}
	return hopSpec{kind: Unsupported, reason: RouteType}
}

// metricsMTU returns the MTU in RTA_METRICS, 0 for none.
func metricsMTU(b []byte) int {
	for kind, v, rest, more := nextAttr(b); more; kind, v, rest, more = nextAttr(rest) {
		if kind == unix.RTAX_MTU && len(v) == 4 {
			return int(binary.NativeEndian.Uint32(v))
		}
	}
	return 0
}

// familyAddr returns the address in v, the zero Addr when its length does not fit the family.
func familyAddr(family uint8, v []byte) netip.Addr {
	switch {
	case family == unix.AF_INET && len(v) == 4:
		return netip.AddrFrom4([4]byte(v))
	case family == unix.AF_INET6 && len(v) == 16:
		return netip.AddrFrom16([16]byte(v))
	}
	return netip.Addr{}
}

const (
	rtaNHID          = 30 // RTA_NH_ID of linux/rtnetlink.h
	sizeofFibRuleHdr = 12 // struct fib_rule_hdr
)

// ident is an FNV-1a hash of what distinguishes the routes of one prefix. The kernel writes the same attributes in the same order when
// a route comes and when it goes, so a deletion finds its route by it.
type ident uint32

func newIdent(header ...byte) ident { return ident(2166136261).bytes(header) }

func (h ident) bytes(b []byte) ident {
	for _, c := range b {
		h = (h ^ ident(c)) * 16777619
	}
	return h
}

func (h ident) attr(kind uint16, v []byte) ident {
	return h.bytes([]byte{byte(kind), byte(kind >> 8), byte(len(v)), byte(len(v) >> 8)}).bytes(v)
}

// multipath hashes RTA_MULTIPATH without the flags of its next hops (struct rtnexthop: len 2, flags 1, hops 1, ifindex 4).
func (h ident) multipath(b []byte) ident {
	for len(b) >= unix.SizeofRtNexthop {
		length := int(binary.NativeEndian.Uint16(b))
		if length < unix.SizeofRtNexthop || length > len(b) {
			return h
		}
		h = h.bytes(b[:2]).bytes(b[3:length])
		b = b[min(align4(length), len(b)):]
	}
	return h
}

// parseRule returns the family, priority and table of a policy rule, and whether it matches every packet and only names the table.
func parseRule(m message) (r Rule, plain, ok bool) {
	if len(m.body) < sizeofFibRuleHdr || m.body[0] != unix.AF_INET && m.body[0] != unix.AF_INET6 {
		return Rule{}, false, false
	}
	h := m.body[:sizeofFibRuleHdr]
	r = Rule{IPv6: h[0] == unix.AF_INET6, Table: uint32(h[4])}
	const invert = 2 // FIB_RULE_INVERT
	plain = h[1] == 0 && h[2] == 0 && h[3] == 0 && h[7] == unix.FR_ACT_TO_TBL && binary.NativeEndian.Uint32(h[8:])&invert == 0
	for kind, v, rest, more := nextAttr(m.body[sizeofFibRuleHdr:]); more; kind, v, rest, more = nextAttr(rest) {
		switch {
		case kind == unix.FRA_PRIORITY && len(v) == 4:
			r.Priority = binary.NativeEndian.Uint32(v)
		case kind == unix.FRA_TABLE && len(v) == 4:
			r.Table = binary.NativeEndian.Uint32(v)
		case kind == unix.FRA_PROTOCOL || kind == unix.FRA_PAD:
		case kind == unix.FRA_SUPPRESS_PREFIXLEN && len(v) == 4 && binary.NativeEndian.Uint32(v) == ^uint32(0): // none
		default:
			plain = false
		}
	}
	return r, plain, true
}

// foreignRules returns the rules that are not the kernel's own, and those of the kernel's own that are missing.
func foreignRules(rules []Rule, plain []bool) []Rule {
	want := map[Rule]bool{
		{Table: unix.RT_TABLE_LOCAL}:                             true,
		{Table: unix.RT_TABLE_MAIN, Priority: 32766}:             true,
		{Table: unix.RT_TABLE_DEFAULT, Priority: 32767}:          true,
		{IPv6: true, Table: unix.RT_TABLE_LOCAL}:                 true,
		{IPv6: true, Table: unix.RT_TABLE_MAIN, Priority: 32766}: true,
	}
	seen := map[bool]bool{}
	var foreign []Rule
	for i, r := range rules {
		seen[r.IPv6] = true
		if plain[i] && want[r] {
			delete(want, r)
		} else {
			foreign = append(foreign, r)
		}
	}
	for r := range want {
		// A kernel without policy routing, or without IPv6, has no rules at all. Table default is empty, and we do not read it.
		if seen[r.IPv6] && r.Table != unix.RT_TABLE_DEFAULT {
			r.Missing = true
			foreign = append(foreign, r)
		}
	}
	return foreign
}
