package engine

import (
	"bytes"
	"encoding/binary"

	"weir/internal/nettest"
)

// checksumCases are frames whose checksum the sender left to its device, and those that look like it.
func checksumCases() []forwardCase {
	var list []forwardCase
	// add takes the packet as it is to leave but for the TTL, and what makes it the packet that arrives.
	add := func(name string, h nettest.IP, partial bool, packet func(nettest.IP) []byte, changes ...change) {
		lower := h
		lower.TTL--
		list = append(list, forwardCase{name: name, frame: toRouter(packet(h), changes...), partial: partial, egress: portOut,
			out: nettest.Ethernet(nettest.MACd0, nettest.MACr1, packet(lower))})
	}
	p, p6 := probe(nettest.AddrD0.String()), probe6(nettest.Addr6D0.String())
	body := bytes.Repeat(payload, 20)
	tcp := func(n int) func(nettest.IP) []byte {
		return func(h nettest.IP) []byte { return h.TCP(1, 9, 1, 2, nettest.ACK, body[:n]) }
	}
	udp := func(n int) func(nettest.IP) []byte {
		return func(h nettest.IP) []byte { return h.UDP(1, 9, body[:n]) }
	}
	for _, n := range []int{0, 1, 18, 19, 360} {
		add("TCP", p, true, tcp(n), partialChecksum(protoTCP, 20))
		add("UDP", p, true, udp(n), partialChecksum(protoUDP, 20))
		add("v6: TCP", p6, true, tcp(n), partialChecksum(protoTCP, 40))
		add("v6: UDP", p6, true, udp(n), partialChecksum(protoUDP, 40))
		add("TCP, complete", p, true, tcp(n))
		add("UDP, complete", p, true, udp(n))
		add("v6: TCP, complete", p6, true, tcp(n))
		add("v6: UDP, complete", p6, true, udp(n))
	}
	add("the pad is no part of the segment", p, true, udp(1), partialChecksum(protoUDP, 20), padded(60))
	add("v6: the pad is no part of the segment", p6, true, udp(1), partialChecksum(protoUDP, 40), padded(80))
	add("UDP checksum 0 stays 0", p, true, func(h nettest.IP) []byte { return at(26, 0, 0)(h.UDP(1, 9, body)) })
	add("v6: UDP checksum 0 stays 0", p6, true, func(h nettest.IP) []byte { return at(46, 0, 0)(h.UDP(1, 9, body)) })
	add("UDP sum 0 becomes 0xffff", p, true, udpOfSumZero, partialChecksum(protoUDP, 20))
	add("v6: UDP sum 0 becomes 0xffff", p6, true, udpOfSumZero, partialChecksum(protoUDP, 40))

	// A checksum that is neither right nor the pseudo header's is the sender's own business.
	wrong := func(h nettest.IP) []byte { return at(26, 0xde, 0xad)(h.UDP(1, 9, body)) }
	add("a wrong checksum stays wrong", p, true, wrong)
	untouched := func(protocol byte, segment int) func(nettest.IP) []byte {
		return func(h nettest.IP) []byte {
			if protocol == protoTCP {
				return partialChecksum(protocol, segment)(h.TCP(1, 9, 1, 2, nettest.ACK, body))
			}
			return partialChecksum(protocol, segment)(h.UDP(1, 9, body))
		}
	}
	add("not from a port without offloads, UDP", p, false, untouched(protoUDP, 20))
	add("not from a port without offloads, TCP", p, false, untouched(protoTCP, 20))
	add("v6: not from a port without offloads", p6, false, untouched(protoUDP, 40))
	fragment := func(field ...byte) func(nettest.IP) []byte {
		return func(h nettest.IP) []byte { return rightChecksum(at(6, field...)(untouched(protoUDP, 20)(h))) }
	}
	add("not on a first fragment", p, true, fragment(0x20, 0))
	add("not on a later fragment", p, true, fragment(0x20, 1))
	add("not on a last fragment", p, true, fragment(0x00, 0xb9))
	add("not on a fragment of the largest offset", p, true, fragment(0x1f, 0xff))
	add("on a packet that may be fragmented", p, true, func(h nettest.IP) []byte {
		return rightChecksum(at(6, 0, 0)(h.UDP(1, 9, body)))
	}, partialChecksum(protoUDP, 20))
	add("other protocols", p, true, func(h nettest.IP) []byte { return h.Packet(47, body) })
	add("a TCP header that is too short for its checksum", p, true, func(h nettest.IP) []byte { return h.Packet(protoTCP, body[:17]) })
	add("a UDP header that is too short for its checksum", p, true, func(h nettest.IP) []byte { return h.Packet(protoUDP, body[:7]) })
	add("no segment at all", p, true, func(h nettest.IP) []byte { return h.Packet(protoUDP, nil) })
	add("v6: no segment at all", p6, true, func(h nettest.IP) []byte { return h.Packet(protoUDP, nil) })

	// IPv6 extension headers.
	behind := func(protocol byte, headers ...[]byte) func(nettest.IP) []byte {
		return func(h nettest.IP) []byte {
			chain := bytes.Join(headers, nil)
			segment := h.UDP(1, 9, body)[40:]
			if protocol == protoTCP {
				segment = h.TCP(1, 9, 1, 2, nettest.ACK, body)[40:]
			}
			return h.Packet(protoDestOpts, append(chain, segment...))
		}
	}
	add("behind destination options, UDP", p6, true, behind(protoUDP, options6(protoUDP, 1)), partialChecksum(protoUDP, 48))
	add("behind destination options, TCP", p6, true, behind(protoTCP, options6(protoTCP, 3)), partialChecksum(protoTCP, 64))
	add("behind two destination options", p6, true, behind(protoUDP, options6(protoDestOpts, 1), options6(protoUDP, 2)), partialChecksum(protoUDP, 64))
	add("behind destination options, complete", p6, true, behind(protoUDP, options6(protoUDP, 1)))
	fragment6 := []byte{protoUDP, 0, 0, 1, 0, 0, 0, 1}
	add("v6: not on a fragment", p6, true, func(h nettest.IP) []byte {
		return partialChecksum(protoUDP, 48)(h.Packet(44, append(bytes.Clone(fragment6), h.UDP(1, 9, body)[40:]...)))
	})
	routing := []byte{protoUDP, 0, 4, 0, 0, 0, 0, 0}
	add("not behind a routing header", p6, true, func(h nettest.IP) []byte {
		return partialChecksum(protoUDP, 48)(h.Packet(43, append(bytes.Clone(routing), h.UDP(1, 9, body)[40:]...)))
	})
	add("TCP sum 0 becomes 0xffff", p, true, tcpOfSumZero, partialChecksum(protoTCP, 20))
	cutShort := options6(protoUDP, 2)
	add("destination options that end one byte behind the packet", p6, true, func(h nettest.IP) []byte { return h.Packet(protoDestOpts, cutShort[:15]) })
	add("one byte of destination options", p6, true, func(h nettest.IP) []byte { return h.Packet(protoDestOpts, cutShort[:1]) })
	add("destination options beyond the packet", p6, true, func(h nettest.IP) []byte { return h.Packet(protoDestOpts, cutShort[:8]) })
	add("half of destination options", p6, true, func(h nettest.IP) []byte { return h.Packet(protoDestOpts, cutShort[:7]) })
	add("destination options and nothing else", p6, true, func(h nettest.IP) []byte { return h.Packet(protoDestOpts, options6(protoUDP, 1)) })
	add("a chain to the end of the packet", p6, true, func(h nettest.IP) []byte {
		return h.Packet(protoDestOpts, bytes.Repeat(options6(protoDestOpts, 1), 50))
	})
	return list
}

// options6 returns a destination options header of so many times eight bytes, padding only.
func options6(next byte, words int) []byte {
	b := make([]byte, words*8)
	b[0], b[1], b[2], b[3] = next, byte(words-1), 1, byte(words*8-4)
	return b
}

// tcpOfSumZero returns a segment whose checksum computes to 0, with 0xffff in its place.
func tcpOfSumZero(h nettest.IP) []byte {
	p := h.TCP(1, 9, 1, 2, nettest.ACK, []byte{0, 0, 1, 2, 3, 4})
	segment := p[len(p)-26:]
	copy(segment[20:], segment[16:18]) // as in udpOfSumZero
	segment[16], segment[17] = 0xff, 0xff
	if err := nettest.VerifyChecksums(nettest.Ethernet(nettest.MACr0, nettest.MACs0, p)); err != nil {
		panic(err)
	}
	return p
}

// udpOfSumZero returns a datagram whose checksum computes to 0, which is sent as 0xffff.
func udpOfSumZero(h nettest.IP) []byte {
	p := h.UDP(1, 9, []byte{0, 0, 1, 2, 3, 4})
	segment := len(p) - 14
	binary.BigEndian.PutUint16(p[segment+8:], binary.BigEndian.Uint16(p[segment+6:])) // what it computed to makes the new sum 0xffff
	binary.BigEndian.PutUint16(p[segment+6:], 0xffff)
	if err := nettest.VerifyChecksums(nettest.Ethernet(nettest.MACr0, nettest.MACs0, p)); err != nil {
		panic(err)
	}
	return p
}
