package fib

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/gaissmai/bart"
	"github.com/stretchr/testify/require"
)

// The index must answer as the trie that it is made from, at every place where the answer changes.
func TestIndexAgreesWithTrie(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	routes := []*Route{nil, {Kind: Forward}, {Kind: Blackhole, hop: 1}, {Kind: Prohibit, hop: maxRun - hopID(firstRun)}, {Kind: Unreachable, hop: maxRun}}
	hops := make([]hop, maxRun+1)
	for _, r := range routes[1:] {
		hops[r.hop].route = r
	}
	var table bart.Table[*Route]
	x := newIndexer()
	type published struct {
		index   *index4
		answers map[uint32]*Route
	}
	var old published
	withRuns, withSpans := 0, 0
	known := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	for round := range 100 {
		for range 1 + r.IntN(20) {
			// Two /16s hold most prefixes, so that they nest; twenty others hold few, so that runs are enough for them.
			a := [4]byte{10, byte(r.IntN(2)), byte(r.IntN(4) * 85), byte(r.IntN(4) * 85)}
			p := netip.PrefixFrom(netip.AddrFrom4(a), r.IntN(33)).Masked()
			route := routes[r.IntN(len(routes))]
			if r.IntN(2) == 0 {
				a = [4]byte{10, byte(2 + r.IntN(20)), byte(r.IntN(8) * 36), 0}
				p = netip.PrefixFrom(netip.AddrFrom4(a), 17+r.IntN(8)).Masked()
				route = routes[r.IntN(len(routes)-1)] // the last has a hop that runs cannot name
			}
			known = append(known, p)
			if r.IntN(2) == 0 {
				table.Delete(p)
			} else {
				table.Insert(p, route)
			}
			x.changed(p)
		}
		now := published{x.publish(&table, hops), map[uint32]*Route{}}
		for _, p := range known {
			first := binary.BigEndian.Uint32(p.Addr().AsSlice())
			for _, a := range []uint32{first - 1, first, first + 1<<(32-p.Bits()) - 1, first + 1<<(32-p.Bits())} {
				b := [4]byte(binary.BigEndian.AppendUint32(nil, a))
				want, _ := table.Lookup(netip.AddrFrom4(b))
				require.Same(t, want, now.index.lookup(b), "round %d: %v", round, netip.AddrFrom4(b))
				now.answers[a] = want
			}
		}
		for i := range 22 {
			if slot := &now.index.blocks[10].slots[i]; slot.spans != nil {
				withSpans++
			} else if slot.runs != [16]run{} {
				withRuns++
			}
		}
		for a, want := range old.answers {
			require.Same(t, want, old.index.lookup([4]byte(binary.BigEndian.AppendUint32(nil, a))), "a published index changed")
		}
		old = now
	}
	require.Greater(t, withRuns, 100)
	require.Greater(t, withSpans, 100)
	for _, p := range known {
		table.Delete(p)
		x.changed(p)
	}
	empty := newIndexer().index.blocks[0]
	for _, block := range x.publish(&table, hops).blocks {
		require.Equal(t, empty, block)
	}
}

func TestNumUpTo(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 1000 {
		word := r.Uint64()
		for b := range 256 {
			want := 0
			for i := range 8 {
				if int(word>>(8*i)&0xff) <= b {
					want++
				}
			}
			require.Equal(t, want, numUpTo(word, uint8(b)), "%016x %d", word, b)
		}
	}
}
