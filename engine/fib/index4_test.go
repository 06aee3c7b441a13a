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
	routes := []*Route{nil, {Kind: Forward}, {Kind: Blackhole}, {Kind: Prohibit}}
	var table bart.Table[*Route]
	x := newIndexer()
	type published struct {
		index   *index4
		answers map[uint32]*Route
	}
	var old published
	known := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
	for round := range 300 {
		for range 1 + r.IntN(20) {
			// Two /16s hold nearly all prefixes, so that they nest.
			a := [4]byte{10, byte(r.IntN(2)), byte(r.IntN(4) * 85), byte(r.IntN(4) * 85)}
			p := netip.PrefixFrom(netip.AddrFrom4(a), r.IntN(33)).Masked()
			known = append(known, p)
			if r.IntN(3) == 0 {
				table.Delete(p)
			} else {
				table.Insert(p, routes[r.IntN(len(routes))])
			}
			x.changed(p)
		}
		now := published{x.publish(&table), map[uint32]*Route{}}
		for _, p := range known {
			first := binary.BigEndian.Uint32(p.Addr().AsSlice())
			for _, a := range []uint32{first - 1, first, first + 1<<(32-p.Bits()) - 1, first + 1<<(32-p.Bits())} {
				b := [4]byte(binary.BigEndian.AppendUint32(nil, a))
				want, _ := table.Lookup(netip.AddrFrom4(b))
				require.Same(t, want, now.index.lookup(b), "round %d: %v", round, netip.AddrFrom4(b))
				now.answers[a] = want
			}
		}
		for a, want := range old.answers {
			require.Same(t, want, old.index.lookup([4]byte(binary.BigEndian.AppendUint32(nil, a))), "a published index changed")
		}
		old = now
	}
	for _, p := range known {
		table.Delete(p)
		x.changed(p)
	}
	for _, block := range x.publish(&table).blocks {
		for _, slot := range block.slots {
			require.Nil(t, slot.cover)
			require.Empty(t, slot.spans)
		}
	}
}
