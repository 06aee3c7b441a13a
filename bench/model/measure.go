package model

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"weir/engine/fib"
)

// best runs a loop of n steps several times and returns the nanoseconds a step
// took in the fastest: what disturbs a measurement only ever adds.
func best(n int, loop func(n int)) float64 {
	fastest := time.Duration(1 << 62)
	for range 5 {
		start := time.Now()
		loop(n)
		fastest = min(fastest, time.Since(start))
	}
	return float64(fastest.Nanoseconds()) / float64(n)
}

// sink keeps the compiler from leaving work out.
var sink uint64

func measureCall() float64 {
	return best(100_000, func(n int) {
		for range n {
			sink += uint64(syscall.Getppid())
		}
	})
}

// measureColdLine walks a random ring through lines that are in no cache near
// this core, as the first line of a frame is that a device has just written.
func measureColdLine() float64 {
	const line, lines = 8, 1 << 20 // in words; 64 MB
	chain := make([]uint64, line*lines)
	order := rand.New(rand.NewPCG(1, 1)).Perm(lines)
	for i, from := range order {
		chain[from*line] = uint64(order[(i+1)%lines] * line)
	}
	at := uint64(0)
	ns := best(200_000, func(n int) {
		for range n {
			at = chain[at]
		}
	})
	sink += at
	return ns
}

func measureCopy(frame int) float64 {
	from, to := make([]byte, frame), make([]byte, frame)
	return best(1_000_000, func(n int) {
		for range n {
			copy(to, from)
			sink += uint64(to[0])
		}
	})
}

const numRoutes = 100_000

// measureDecision measures what the worker decides for an IPv4 packet: header
// checksum, route, neighbour, new MAC addresses, TTL.
func measureDecision() (float64, error) {
	rng := rand.New(rand.NewPCG(2, 2))
	gateway := netip.AddrFrom4([4]byte{192, 0, 2, 1})
	l := fib.Literal{
		Ports:      []fib.PortInfo{{Name: "in"}, {Name: "out", Up: true, MTU: 1500}},
		Neighbours: []fib.LiteralNeighbour{{Port: 1, Addr: gateway, MAC: [6]byte{2, 0, 0, 0, 0, 1}, State: fib.Reachable}},
	}
	seen := make(map[netip.Prefix]bool, numRoutes)
	for len(l.Routes) < numRoutes {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(1 + rng.IntN(126)), byte(rng.IntN(256)), byte(rng.IntN(256))}), 16+rng.IntN(9)).Masked()
		if !seen[p] {
			seen[p] = true
			l.Routes = append(l.Routes, fib.LiteralRoute{Prefix: p, Route: fib.Route{Kind: fib.Forward, Egress: 1, Via: gateway}})
		}
	}
	table := fib.NewSnapshot(l)

	frames := make([][64]byte, 1024)
	for i := range frames {
		ip := frames[i][14:]
		ip[0], ip[8] = 0x45, 255
		addr := l.Routes[rng.IntN(numRoutes)].Prefix.Addr().As4()
		copy(ip[16:20], addr[:])
		binary.BigEndian.PutUint16(ip[10:], ^checksum(ip[:20]))
	}
	unrouted := 0
	ns := best(200_000, func(n int) {
		for i := range n {
			if !decide(&frames[i%len(frames)], table) {
				unrouted++
			}
		}
	})
	if unrouted > 0 {
		return 0, fmt.Errorf("measure the decision: %d packets found no route or no neighbour", unrouted)
	}
	return ns, nil
}

func decide(frame *[64]byte, table *fib.Snapshot) bool {
	ip := frame[14:]
	sink += uint64(checksum(ip[:20]))
	route := table.Lookup(netip.AddrFrom4([4]byte(ip[16:20])))
	if route == nil || route.Next == nil {
		return false
	}
	mac, ok := route.Next.MAC()
	binary.BigEndian.PutUint64(frame[:], mac<<16)
	// The TTL goes round instead of down, so that frames can be used again.
	ip[8]--
	binary.BigEndian.PutUint16(ip[10:], binary.BigEndian.Uint16(ip[10:])+0x100)
	return ok
}

// checksum is the Internet checksum's sum of an IPv4 header, folded.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for pair := range slices.Chunk(header, 2) {
		sum += uint32(binary.BigEndian.Uint16(pair))
	}
	sum = sum&0xffff + sum>>16
	return uint16(sum + sum>>16)
}
