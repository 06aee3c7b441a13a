package engine

import (
	"encoding/binary"
	"math/bits"
)

// sum adds the 16-bit big-endian words of b to acc, an odd last byte padded with zero, and returns a value whose fold is their
// ones' complement sum (RFC 1071). It adds eight bytes at a time: the ones' complement sum does not depend on the word size.
func sum(b []byte, acc uint64) uint64 {
	var carry uint64
	for len(b) >= 32 {
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b), carry)
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b[8:]), carry)
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b[16:]), carry)
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	var tail uint64
	if len(b) >= 4 {
		tail = uint64(binary.BigEndian.Uint32(b))
		b = b[4:]
	}
	if len(b) >= 2 {
		tail += uint64(binary.BigEndian.Uint16(b))
		b = b[2:]
	}
	if len(b) == 1 {
		tail += uint64(b[0]) << 8
	}
	acc, carry = bits.Add64(acc, tail, carry)
	acc, carry = bits.Add64(acc, 0, carry)
	return acc + carry
}

// fold reduces a sum to 16 bits.
func fold(acc uint64) uint16 {
	acc = acc>>32 + acc&0xffffffff
	acc = acc>>16 + acc&0xffff
	acc = acc>>16 + acc&0xffff
	return uint16(acc>>16 + acc&0xffff)
}

// sumHeader is sum for an IPv4 header without options.
func sumHeader(h *[ipv4MinHeaderLen]byte) uint64 {
	a, b := binary.BigEndian.Uint64(h[0:]), binary.BigEndian.Uint64(h[8:])
	return a>>32 + a&0xffffffff + b>>32 + b&0xffffffff + uint64(binary.BigEndian.Uint32(h[16:]))
}

// sumAddresses is the sum of the addresses of an IPv4 header.
func sumAddresses(h *[ipv4MinHeaderLen]byte) uint64 {
	return uint64(binary.BigEndian.Uint32(h[12:])) + uint64(binary.BigEndian.Uint32(h[16:]))
}

// decrementTTL lowers the TTL of an IPv4 header by one and adjusts its checksum incrementally (RFC 1624, equation 3). The TTL is the high
// byte of its word, so the word falls by 0x0100 and the checksum rises by as much. As in Linux, and as when it is computed anew, the
// result is 0x0000 and never 0xffff, which means the same.
func decrementTTL(h *[ipv4MinHeaderLen]byte) {
	h[8]--
	check := uint32(binary.BigEndian.Uint16(h[10:])) + 0x0100
	binary.BigEndian.PutUint16(h[10:], uint16(check+(check+1)>>16))
}

// completeChecksum finishes a TCP or UDP checksum that the sender left to its device. On veth, tap and virtio links a locally produced
// segment arrives with the folded pseudo-header sum in the checksum field (Linux's CHECKSUM_PARTIAL), and nobody behind us would
// finish it. pseudo is the sum of the addresses; l4 the segment. A field that holds anything else is complete and left alone. A
// complete, right checksum that happens to equal the pseudo-header sum is recomputed to itself.
func completeChecksum(l4 []byte, proto byte, pseudo uint64) {
	var at int
	switch proto {
	case protoTCP:
		at = 16
	case protoUDP:
		at = 6
	default:
		return
	}
	if len(l4) < at+2 {
		return
	}
	field := binary.BigEndian.Uint16(l4[at:])
	pseudo += uint64(proto) + uint64(len(l4))
	if field != fold(pseudo) { // which is not 0: a UDP datagram without a checksum stays without
		return
	}
	// The field holds the pseudo-header sum, so summing the segment with the field in place counts both.
	check := ^fold(sum(l4, 0))
	if check == 0 {
		check = 0xffff // the same number; in UDP (RFC 768), 0 would say that there is no checksum
	}
	binary.BigEndian.PutUint16(l4[at:], check)
}
