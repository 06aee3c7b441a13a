package fib

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// randomPrefixes4 returns num different prefixes with lengths as in the Internet's table: most of them /24 to /20.
func randomPrefixes4(num int) []netip.Prefix {
	lengths := []int{8, 12, 16, 18, 19, 20, 20, 21, 21, 22, 22, 22, 23, 23, 24, 24, 24, 24, 24, 24, 24, 24, 24, 24}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[netip.Prefix]bool{}
	var list []netip.Prefix
	for len(list) < num {
		a := [4]byte{byte(1 + r.IntN(223)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))}
		p := netip.PrefixFrom(netip.AddrFrom4(a), lengths[r.IntN(len(lengths))]).Masked()
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	return list
}

func randomPrefixes6(num int) []netip.Prefix {
	r := rand.New(rand.NewPCG(3, 4))
	seen := map[netip.Prefix]bool{}
	var list []netip.Prefix
	for len(list) < num {
		a := [16]byte{0x20 | byte(r.IntN(2)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256)), byte(r.IntN(256))}
		p := netip.PrefixFrom(netip.AddrFrom16(a), 32+4*r.IntN(5)).Masked()
		if !seen[p] {
			seen[p] = true
			list = append(list, p)
		}
	}
	return list
}

// within returns num addresses, each in a random one of the prefixes.
func within(list []netip.Prefix, num int) []netip.Addr {
	r := rand.New(rand.NewPCG(5, 6))
	var out []netip.Addr
	for range num {
		p := list[r.IntN(len(list))]
		b := p.Addr().AsSlice()
		for i := p.Bits(); i < len(b)*8; i++ {
			b[i/8] |= byte(r.IntN(2)) << (7 - i%8)
		}
		a, _ := netip.AddrFromSlice(b)
		out = append(out, a)
	}
	return out
}

// loaded returns a state with two ports, the prefixes routed through 16 gateways on them, and the gateways known.
func loaded(list []netip.Prefix) *state {
	s := newState(modelPorts)
	s.link(linkUpdate{ifindex: 2, name: "p0", up: true, mtu: 1500})
	s.link(linkUpdate{ifindex: 3, name: "p1", up: true, mtu: 1500})
	for i := range 16 {
		s.neigh(neighUpdate{ifindex: 2 + i%2, addr: gateway(i), word: usable | uint64(i)})
	}
	for i, p := range list {
		s.route(routeUpdate{prefix: p, ident: uint32(i), hop: hopSpec{kind: Forward, ifindex: 2 + i%2, via: gateway(i % 16)}})
	}
	s.todo = work{}
	return s
}

func gateway(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i % 2), byte(2 + i)}) }

var sink uint64

// BenchmarkLookup looks up random addresses inside 100,000 random prefixes and takes the MAC of the next hop. flows is how many
// different destinations there are: with few the tables stay in the cache, with many each lookup waits for memory.
func BenchmarkLookup(b *testing.B) {
	for _, family := range []struct {
		name     string
		prefixes []netip.Prefix
	}{{"IPv4", randomPrefixes4(100_000)}, {"IPv6", randomPrefixes6(100_000)}} {
		s := loaded(family.prefixes).snapshot(false)
		for _, flows := range []int{16, 1024, 65536} {
			addrs := within(family.prefixes, flows)
			b.Run(fmt.Sprintf("%s/flows=%d", family.name, flows), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if r := s.Lookup(addrs[i&(flows-1)]); r != nil && r.Next != nil {
						mac, _ := r.Next.MAC()
						sink += mac
					}
				}
			})
		}
	}
}

// BenchmarkNeighbour finds the MAC of an on-link host among 1000.
func BenchmarkNeighbour(b *testing.B) {
	s := loaded(nil)
	var addrs []netip.Addr
	for i := range 1000 {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
		s.neigh(neighUpdate{ifindex: 2, addr: addrs[i], word: usable | uint64(i)})
	}
	snap := s.snapshot(false)
	for i := 0; b.Loop(); i++ {
		mac, _ := snap.Neighbour(0, addrs[i%1000]).MAC()
		sink += mac
	}
}

// BenchmarkUpdate changes one of 100,000 routes and publishes.
func BenchmarkUpdate(b *testing.B) {
	for _, family := range []struct {
		name     string
		prefixes []netip.Prefix
	}{{"IPv4", randomPrefixes4(100_000)}, {"IPv6", randomPrefixes6(100_000)}} {
		s := loaded(family.prefixes)
		s.snapshot(false)
		for _, batch := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/batch=%d", family.name, batch), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					g := i / len(family.prefixes) % 14 * 2
					s.route(routeUpdate{prefix: family.prefixes[i%len(family.prefixes)], ident: uint32(g), at: replace,
						hop: hopSpec{kind: Forward, ifindex: 2, via: gateway(g)}})
					if i%batch == 0 {
						s.snapshot(false)
					}
				}
			})
		}
	}
}

// BenchmarkDefaultRoute changes the route that is behind all others.
func BenchmarkDefaultRoute(b *testing.B) {
	s := loaded(randomPrefixes4(100_000))
	for i := 0; b.Loop(); i++ {
		s.route(routeUpdate{prefix: netip.PrefixFrom(netip.IPv4Unspecified(), 0), ident: uint32(i % 2), at: replace,
			hop: hopSpec{kind: Forward, ifindex: 2, via: gateway(i % 2 * 2)}})
		s.snapshot(false)
	}
}

// BenchmarkLoad takes a million routes in and reports what they cost in memory.
func BenchmarkLoad(b *testing.B) {
	list := randomPrefixes4(1_000_000)
	var before, after runtime.MemStats
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		s := loaded(list)
		snap := s.snapshot(false)
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1e6, "MB")
		runtime.KeepAlive(s)
		runtime.KeepAlive(snap)
	}
	runtime.KeepAlive(list)
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	list := append(randomPrefixes4(1000), randomPrefixes6(1000)...)
	s := loaded(list)
	s.route(routeUpdate{prefix: netip.MustParsePrefix("192.0.2.0/24"), hop: hopSpec{kind: Blackhole}})
	snap := s.snapshot(false)
	in := append(within(list, 100), netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("224.0.0.1"), netip.MustParseAddr("ff02::1"))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		for _, a := range in {
			if r := snap.Lookup(a); r != nil && r.Next != nil {
				mac, ok := r.Next.MAC()
				if ok && !r.Next.Stale() {
					sink += mac
				}
			}
			if n := snap.Neighbour(1, a); n != nil {
				sink++
			}
			sink += uint64(snap.Port(1).MTU)
		}
		if r := snap.Lookup4([4]byte{192, 0, 2, 1}); r != nil {
			sink++
		}
	}))
}

func TestResolveDoesNotAllocate(t *testing.T) {
	top := nettest.T0(t)
	table := watch(t, top)
	reqs := []Request{{port1, nettest.AddrD0}, {port1, nettest.Addr6D0}, {port1, netip.MustParseAddr("10.0.2.77")}}
	require.Zero(t, testing.AllocsPerRun(1000, func() { table.resolver.ask(reqs) }))
}

// BenchmarkVisible changes routes as fast as the kernel takes them and reports how long after its last answer a Snapshot has the last.
func BenchmarkVisible(b *testing.B) {
	top := nettest.T0(b)
	table := watch(b, top)
	operator := openOperator(b, top)
	for _, burst := range []int{1, 10_000} {
		b.Run(fmt.Sprintf("burst=%d", burst), func(b *testing.B) {
			var lag time.Duration
			for b.Loop() {
				operator.addRoutes(b, 1, burst)
				operator.addRoutes(b, 255, 1)
				start := time.Now()
				for table.Snapshot().Lookup4([4]byte{100, 255, 0, 0}) == nil {
					runtime.Gosched()
				}
				lag += time.Since(start)
				operator.change(b, unix.RTM_DELROUTE, 0, 1, burst)
				operator.change(b, unix.RTM_DELROUTE, 0, 255, 1)
				for table.Snapshot().Lookup4([4]byte{100, 255, 0, 0}) != nil {
					runtime.Gosched()
				}
			}
			b.ReportMetric(float64(lag.Microseconds())/float64(b.N), "µs-lag")
			b.ReportMetric(float64(table.Stats().Overruns), "overruns")
		})
	}
}
