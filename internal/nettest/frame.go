package nettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Ethernet returns a frame around an IPv4 or IPv6 packet, whose version chooses the EtherType. It is not padded.
func Ethernet(dst, src net.HardwareAddr, packet []byte) []byte {
	etherType := uint16(unix.ETH_P_IP)
	if len(packet) > 0 && packet[0]>>4 == 6 {
		etherType = unix.ETH_P_IPV6
	}
	return EthernetType(dst, src, etherType, packet)
}

// EthernetType returns a frame with an EtherType of the caller's choice.
func EthernetType(dst, src net.HardwareAddr, etherType uint16, payload []byte) []byte {
	b := make([]byte, 0, 14+len(payload))
	b = append(b, dst[:6]...)
	b = append(b, src[:6]...)
	b = binary.BigEndian.AppendUint16(b, etherType)
	return append(b, payload...)
}

// IP is the header of an IPv4 or IPv6 packet; Src chooses the version. All fields are taken literally, TTL 0 too.
type IP struct {
	Src, Dst netip.Addr
	TTL      uint8  // hop limit
	TOS      uint8  // traffic class
	ID       uint16 // IPv4 only
	DF       bool   // IPv4 only
	Options  []byte // IPv4 only; padded with zeros to a multiple of 4, at most 40 bytes
}

// NewIP returns a header with the fields of the test packet P: TTL 64, DF, id 1.
func NewIP(src, dst netip.Addr) IP { return IP{Src: src, Dst: dst, TTL: 64, ID: 1, DF: true} }

// UDP returns a packet with a UDP datagram and right checksums.
func (h IP) UDP(srcPort, dstPort uint16, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b[0:], srcPort)
	binary.BigEndian.PutUint16(b[2:], dstPort)
	binary.BigEndian.PutUint16(b[4:], uint16(8+len(payload)))
	b = append(b, payload...)
	sum := h.checksum(unix.IPPROTO_UDP, b)
	if sum == 0 {
		sum = 0xffff // RFC 768: 0 means none
	}
	binary.BigEndian.PutUint16(b[6:], sum)
	return h.Packet(unix.IPPROTO_UDP, b)
}

// TCP flags.
const (
	FIN = 1 << iota
	SYN
	RST
	PSH
	ACK
)

// TCP returns a packet with a TCP segment without options and right checksums.
func (h IP) TCP(srcPort, dstPort uint16, seq, ack uint32, flags uint8, payload []byte) []byte {
	b := make([]byte, 20, 20+len(payload))
	binary.BigEndian.PutUint16(b[0:], srcPort)
	binary.BigEndian.PutUint16(b[2:], dstPort)
	binary.BigEndian.PutUint32(b[4:], seq)
	binary.BigEndian.PutUint32(b[8:], ack)
	b[12] = 5 << 4
	b[13] = flags
	binary.BigEndian.PutUint16(b[14:], 0xffff)
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[16:], h.checksum(unix.IPPROTO_TCP, b))
	return h.Packet(unix.IPPROTO_TCP, b)
}

// Echo returns a packet with an ICMP or ICMPv6 echo request and right checksums.
func (h IP) Echo(id, seq uint16, payload []byte) []byte {
	b := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[6:], seq)
	b = append(b, payload...)
	if h.Src.Is4() {
		b[0] = 8
		binary.BigEndian.PutUint16(b[2:], Checksum(0, b))
		return h.Packet(unix.IPPROTO_ICMP, b)
	}
	b[0] = 128
	binary.BigEndian.PutUint16(b[2:], h.checksum(unix.IPPROTO_ICMPV6, b))
	return h.Packet(unix.IPPROTO_ICMPV6, b)
}

// Packet returns the header with a right header checksum, followed by payload.
func (h IP) Packet(protocol uint8, payload []byte) []byte {
	if !h.Src.Is4() {
		b := make([]byte, 8, 40+len(payload))
		binary.BigEndian.PutUint32(b, 6<<28|uint32(h.TOS)<<20)
		binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
		b[6] = protocol
		b[7] = h.TTL
		b = append(b, h.Src.AsSlice()...)
		b = append(b, h.Dst.AsSlice()...)
		return append(b, payload...)
	}
	headerLen := 20 + (len(h.Options)+3)/4*4
	b := make([]byte, headerLen, headerLen+len(payload))
	b[0] = 4<<4 | uint8(headerLen/4)
	b[1] = h.TOS
	binary.BigEndian.PutUint16(b[2:], uint16(headerLen+len(payload)))
	binary.BigEndian.PutUint16(b[4:], h.ID)
	if h.DF {
		b[6] = 0x40
	}
	b[8] = h.TTL
	b[9] = protocol
	copy(b[12:], h.Src.AsSlice())
	copy(b[16:], h.Dst.AsSlice())
	copy(b[20:], h.Options)
	binary.BigEndian.PutUint16(b[10:], Checksum(0, b))
	return append(b, payload...)
}

// checksum returns the checksum of an L4 segment whose checksum field is zero, pseudo header included.
func (h IP) checksum(protocol uint8, segment []byte) uint16 {
	return Checksum(pseudoHeader(h.Src, h.Dst, protocol, len(segment)), segment)
}

// pseudoHeader returns the unfolded sum of the pseudo header of RFC 768, RFC 9293 and RFC 8200 section 8.1.
func pseudoHeader(src, dst netip.Addr, protocol uint8, length int) uint32 {
	sum := uint32(protocol) + uint32(length>>16) + uint32(length&0xffff)
	for _, a := range [...][]byte{src.AsSlice(), dst.AsSlice()} {
		for i := 0; i < len(a); i += 2 {
			sum += uint32(a[i])<<8 | uint32(a[i+1])
		}
	}
	return sum
}

// Checksum returns the Internet checksum (RFC 1071) of b, beginning with the unfolded sum initial. Over data that holds its own right
// checksum it is 0.
func Checksum(initial uint32, b []byte) uint16 {
	sum := uint64(initial)
	for ; len(b) >= 2; b = b[2:] {
		sum += uint64(b[0])<<8 | uint64(b[1])
	}
	if len(b) == 1 {
		sum += uint64(b[0]) << 8
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}

// VerifyChecksums checks the IPv4 header checksum and the UDP, TCP or ICMP checksum of an untagged IPv4 or IPv6 frame. A UDP checksum
// of 0 is right in IPv4 only. Later fragments, other protocols and IPv6 extension headers are errors: they cannot be verified.
func VerifyChecksums(frame []byte) error {
	if len(frame) < 14+20 {
		return fmt.Errorf("verify checksums: %d byte frame is too short", len(frame))
	}
	p := frame[14:]
	var protocol uint8
	var src, dst netip.Addr
	var segment []byte
	switch p[0] >> 4 {
	case 4:
		headerLen, total := int(p[0]&15)*4, int(binary.BigEndian.Uint16(p[2:]))
		if headerLen < 20 || total < headerLen || total > len(p) {
			return fmt.Errorf("verify checksums: header length %d, total length %d in %d bytes", headerLen, total, len(p))
		}
		if Checksum(0, p[:headerLen]) != 0 {
			return fmt.Errorf("verify checksums: IPv4 header checksum %#04x is wrong", binary.BigEndian.Uint16(p[10:]))
		}
		if binary.BigEndian.Uint16(p[6:])&0x3fff != 0 {
			return errors.New("verify checksums: fragment")
		}
		protocol, segment = p[9], p[headerLen:total]
		src, dst = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
	case 6:
		if len(p) < 40 || len(p) < 40+int(binary.BigEndian.Uint16(p[4:])) {
			return fmt.Errorf("verify checksums: IPv6 packet cut to %d bytes", len(p))
		}
		protocol, segment = p[6], p[40:40+int(binary.BigEndian.Uint16(p[4:]))]
		src, dst = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
	default:
		return fmt.Errorf("verify checksums: IP version %d", p[0]>>4)
	}
	initial := pseudoHeader(src, dst, protocol, len(segment))
	switch protocol {
	case unix.IPPROTO_UDP:
		if len(segment) >= 8 && src.Is4() && binary.BigEndian.Uint16(segment[6:]) == 0 {
			return nil
		}
	case unix.IPPROTO_ICMP:
		initial = 0
	case unix.IPPROTO_TCP, unix.IPPROTO_ICMPV6:
	default:
		return fmt.Errorf("verify checksums: protocol %d", protocol)
	}
	if Checksum(initial, segment) != 0 {
		return fmt.Errorf("verify checksums: checksum of protocol %d is wrong", protocol)
	}
	return nil
}
