package xdpprog

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Layout of the lab's frames, as in bpf/lab.h.
const (
	labMagic = 0x77656972
	stamp4   = 14 + 20 + 8
	stamp6   = 14 + 40 + 8
	stampLen = 16
)

// Values of enum done in bpf/generator.c.
const (
	doneRunning = iota
	doneEnded
)

// fraction is the number of fractional bits in the plan's step.
const fraction = 16

// planMemory is struct plan of bpf/generator.c: what the program shall do. Written here, read by the program.
type planMemory struct {
	step            atomic.Uint64
	count           atomic.Uint64
	duration        atomic.Uint64
	numFlows        atomic.Uint32
	numDestinations atomic.Uint32
	ipv6            atomic.Uint32
	srcPort         atomic.Uint32
	dst             atomic.Uint32
	ipSum           atomic.Uint32
	udpSum          atomic.Uint32
	stop            atomic.Uint32
	header          [stamp6 + 2]byte
}

// progressMemory is struct progress: what it has done. Written by the program, and here between runs.
type progressMemory struct {
	start       atomic.Uint64
	next        atomic.Uint64
	sent        atomic.Uint64
	skipped     atomic.Uint64
	elapsed     atomic.Uint64
	flow        atomic.Uint32
	destination atomic.Uint32
	done        atomic.Uint32
	onTime      atomic.Uint32
}

// generatorMemory is struct generator.
type generatorMemory struct {
	plan     planMemory
	_        [8]byte
	progress progressMemory
	_        [8]byte
}

func (m *progressMemory) reset() {
	for _, v := range []*atomic.Uint64{&m.start, &m.next, &m.sent, &m.skipped, &m.elapsed} {
		v.Store(0)
	}
	for _, v := range []*atomic.Uint32{&m.flow, &m.destination, &m.done, &m.onTime} {
		v.Store(0)
	}
}

// set prepares everything that does not change from run to run. c is valid.
func (m *planMemory) set(c *GeneratorConfig) {
	if c.RatePPS > 0 {
		m.step.Store((1e9<<fraction + c.RatePPS/2) / c.RatePPS)
	}
	m.numFlows.Store(uint32(c.NumFlows))
	m.numDestinations.Store(uint32(c.NumDestinations))
	m.srcPort.Store(uint32(c.SrcPort))
	m.dst.Store(lastWord(c.Dst))

	h := m.header[:0]
	h = append(h, c.DstMAC[:]...)
	h = append(h, c.SrcMAC[:]...)
	src, dst := c.Src.AsSlice(), c.Dst.AsSlice()
	clear(dst[len(dst)-4:]) // the program adds what varies
	var udpLen int
	if c.Dst.Is4() {
		udpLen = c.Size - 14 - 20
		h = binary.BigEndian.AppendUint16(h, unix.ETH_P_IP)
		h = append(h, 0x45, 0)
		h = binary.BigEndian.AppendUint16(h, uint16(c.Size-14))
		h = append(h, 0, 1, 0x40, 0, 64, unix.IPPROTO_UDP, 0, 0) // id 1, don't fragment, TTL 64
		h = append(append(h, src...), dst...)
		m.ipSum.Store(sum16(h[14:34]))
	} else {
		m.ipv6.Store(1)
		udpLen = c.Size - 14 - 40
		h = binary.BigEndian.AppendUint16(h, unix.ETH_P_IPV6)
		h = append(h, 0x60, 0, 0, 0)
		h = binary.BigEndian.AppendUint16(h, uint16(udpLen))
		h = append(h, unix.IPPROTO_UDP, 64)
		h = append(append(h, src...), dst...)
	}
	h = binary.BigEndian.AppendUint16(h, 0) // source port: varies
	h = binary.BigEndian.AppendUint16(h, c.DstPort)
	h = binary.BigEndian.AppendUint16(h, uint16(udpLen))
	binary.BigEndian.AppendUint16(h, 0) // checksum: varies

	// The length counts twice: in the pseudo-header and in the header.
	m.udpSum.Store(sum16(src) + sum16(dst) + unix.IPPROTO_UDP + 2*uint32(udpLen) + uint32(c.DstPort) + labMagic>>16 + labMagic&0xffff)
}

// sum16 adds up big-endian 16-bit words, not folded. len(b) is even.
func sum16(b []byte) (sum uint32) {
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	return sum
}

// lastWord returns the last 32 bits of an address.
func lastWord(a netip.Addr) uint32 {
	b := a.AsSlice()
	return binary.BigEndian.Uint32(b[len(b)-4:])
}
