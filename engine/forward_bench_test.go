package engine

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"weir/engine/fib"
	"weir/internal/nettest"
)

// The lengths of prefixes as in the Internet's tables, in parts of a thousand.
var (
	lengthsIPv4 = map[int]int{16: 15, 17: 9, 18: 15, 19: 27, 20: 45, 21: 53, 22: 115, 23: 101, 24: 620}
	lengthsIPv6 = map[int]int{29: 40, 32: 160, 36: 40, 40: 80, 44: 80, 46: 30, 47: 20, 48: 550}
)

// randomPrefixes returns n different unicast prefixes whose lengths are so distributed.
func randomPrefixes(r *rand.Rand, n int, lengths map[int]int, ipv6 bool) []netip.Prefix {
	var mix []int
	for bits := range 129 {
		mix = append(mix, slices.Repeat([]int{bits}, lengths[bits])...)
	}
	seen := map[netip.Prefix]bool{}
	var list []netip.Prefix
	for len(list) < n {
		p := netip.PrefixFrom(randomAddr(r, ipv6), mix[r.IntN(len(mix))]).Masked()
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	return list
}

// randomAddr returns a global unicast address.
func randomAddr(r *rand.Rand, ipv6 bool) netip.Addr {
	if ipv6 {
		var a [16]byte
		binary.BigEndian.PutUint64(a[:], r.Uint64())
		binary.BigEndian.PutUint64(a[8:], r.Uint64())
		a[0] = 0x20 | a[0]&0x1f
		return netip.AddrFrom16(a)
	}
	for {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], r.Uint32())
		if !neverForwarded(a) {
			return netip.AddrFrom4(a)
		}
	}
}

// randomWithin returns a random address of a prefix.
func randomWithin(r *rand.Rand, p netip.Prefix) netip.Addr {
	a, host := p.Addr().AsSlice(), randomAddr(r, p.Addr().Is6()).AsSlice()
	for bit := p.Bits(); bit < len(a)*8; bit++ {
		a[bit/8] |= host[bit/8] & (0x80 >> (bit % 8))
	}
	addr, _ := netip.AddrFromSlice(a)
	return addr
}

// numGateways is how many gateways of each family a large table has.
const numGateways = 16

// largeTable routes the prefixes through random gateways on two ports.
func largeTable(r *rand.Rand, list []netip.Prefix) *fib.Snapshot {
	l := fib.Literal{Ports: []fib.PortInfo{{Up: true, MTU: 1500}, {Up: true, MTU: 1500}}}
	gateway := func(i int, ipv6 bool) netip.Addr {
		if ipv6 {
			return netip.AddrFrom16([16]byte{0xfd, 15: byte(i + 1)})
		}
		return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})
	}
	for i := range numGateways {
		for _, ipv6 := range []bool{false, true} {
			l.Neighbours = append(l.Neighbours, fib.LiteralNeighbour{
				Port: i % 2, Addr: gateway(i, ipv6), MAC: [6]byte{2, 0, 0, 0, 0, byte(i)}, State: fib.Reachable,
			})
		}
	}
	for _, p := range list {
		i := r.IntN(numGateways)
		route := fib.Route{Kind: fib.Forward, Egress: i % 2, Via: gateway(i, p.Addr().Is6())}
		l.Routes = append(l.Routes, fib.LiteralRoute{Prefix: p, Route: route})
	}
	return fib.NewSnapshot(l)
}

// benchTable is 100,000 random prefixes, and numDestinations random addresses: those that they cover, and those that they do not.
type benchTable struct {
	table         *fib.Snapshot
	hits, misses  []netip.Addr
	source        netip.Addr
	fewOfThemHits []netip.Addr
}

// numDestinations is how many destinations packets take in turn: too many for what their lookups read to stay in the first-level cache.
const numDestinations = 1 << 16

func newBenchTable(ipv6 bool) benchTable {
	r := rand.New(rand.NewPCG(1, 2))
	lengths, source := lengthsIPv4, nettest.AddrS0
	if ipv6 {
		lengths, source = lengthsIPv6, nettest.Addr6S0
	}
	list := randomPrefixes(r, 100_000, lengths, ipv6)
	b := benchTable{table: largeTable(r, list), source: source}
	for len(b.hits) < numDestinations {
		b.hits = append(b.hits, randomWithin(r, list[r.IntN(len(list))]))
	}
	for len(b.misses) < numDestinations {
		if a := randomAddr(r, ipv6); b.table.Lookup(a) == nil {
			b.misses = append(b.misses, a)
		}
	}
	b.fewOfThemHits = slices.Repeat(b.hits[:1024], numDestinations/1024)
	return b
}

// headers are what differs between the packets of a benchmark: 8 bytes for each IPv4 destination, 16 for IPv6, so that they disturb the
// cache little.
type headers struct {
	v4  [][8]byte // checksum, zero, destination
	v6  [][16]byte
	ttl byte
}

func newHeaders(h nettest.IP, dsts []netip.Addr) headers {
	list := headers{ttl: h.TTL}
	for _, dst := range dsts {
		h.Dst = dst
		p := udp(h)
		if dst.Is4() {
			list.v4 = append(list.v4, [8]byte{p[10], p[11], 0, 0, p[16], p[17], p[18], p[19]})
		} else {
			list.v6 = append(list.v6, dst.As16())
		}
	}
	return list
}

// write gives a frame the i-th of the headers.
func (h *headers) write(frame []byte, i int) {
	i &= numDestinations - 1
	if h.v4 != nil {
		v := &h.v4[i]
		frame[22] = h.ttl
		copy(frame[24:26], v[:2])
		copy(frame[30:34], v[4:])
		return
	}
	frame[21] = h.ttl
	copy(frame[38:54], h.v6[i][:])
}

// BenchmarkForward decides on packets and rewrites them, each to another destination. One operation is one packet. The time includes
// writing its destination, TTL and checksum into the frame, which is done for 64 packets at a time.
func BenchmarkForward(b *testing.B) {
	for _, family := range []struct {
		name string
		ipv6 bool
	}{{"IPv4", false}, {"IPv6", true}} {
		t := newBenchTable(family.ipv6)
		header := nettest.NewIP(t.source, t.hits[0])
		expired := header
		expired.TTL = 1
		for _, c := range []struct {
			name   string
			header nettest.IP
			dsts   []netip.Addr
			spoil  bool // the checksum
			reason Reason
		}{
			{"forwarded", header, t.hits, false, forwarded},
			{"forwarded-1024-destinations", header, t.fewOfThemHits, false, forwarded},
			{"ttl_expired", expired, t.hits, false, DropTTLExpired},
			{"no_route", header, t.misses, false, DropNoRoute},
			{"bad_checksum", header, t.hits, true, DropBadChecksum},
		} {
			if c.spoil && family.ipv6 {
				continue
			}
			h := newHeaders(c.header, c.dsts)
			if c.spoil {
				for i := range h.v4 {
					h.v4[i][0] ^= 1
				}
			}
			b.Run(family.name+"/"+c.name, func(b *testing.B) { benchForward(b, t.table, udp(c.header), &h, c.reason) })
		}
	}
}

func benchForward(b *testing.B, table *fib.Snapshot, packet []byte, h *headers, want Reason) {
	const frameSize, headroom = 2048, 256
	umem := make([]byte, batchSize*frameSize)
	frame := toRouter(packet)
	var frames [batchSize][]byte
	for i := range frames {
		frames[i] = umem[i*frameSize+headroom:][:len(frame):len(frame)]
		copy(frames[i], frame)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%batchSize == 0 {
			for k := range frames {
				h.write(frames[k], i+k)
			}
		}
		if got := forward(frames[i%batchSize], true, table); got.reason != want {
			b.Fatal(got.reason)
		}
	}
}

// BenchmarkWorker is a packet's whole way through a worker on a scripted kernel, in batches of 64. The scripted kernel's part is most of
// it, so it is good for comparisons and for nothing else.
func BenchmarkWorker(b *testing.B) {
	r := newRig(b, rigOptions{config: func(c *Config) {
		c.Rings = Rings{RX: 256, TX: 256, Fill: 256, Completion: 256, FillDepth: 256, Backlog: 256}
	}})
	for _, p := range r.ports {
		p.wire.SetSink(func([]byte) {})
	}
	r.rest()
	frames, _ := numbered(0, batchSize)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%batchSize == 0 {
			if n := r.arrive(portIn, frames...); n != batchSize {
				b.Fatal(n)
			}
			r.round()
			r.round()
		}
	}
}
