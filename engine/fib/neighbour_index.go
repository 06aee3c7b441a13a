package fib

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"

	"github.com/gaissmai/bart"
)

// neighbourIndex finds the cells of IPv4 neighbours for hosts on the link, one memory access for most: a hash table with open addressing,
// at most half full. It is made anew when a neighbour comes or goes, which is rare beside packets, and never changes.
type neighbourIndex struct {
	shift uint // 64 less log2 of the number of slots
	slots []neighbourSlot
}

type neighbourSlot struct {
	key  uint64 // port and address
	cell *Neighbour
}

// hashFactor differs from process to process, so that nobody can choose addresses that collide.
var hashFactor = rand.Uint64() | 1

// indexNeighbours makes the index of what the tables, by port, hold.
func indexNeighbours(tables []*bart.Table[*Neighbour]) *neighbourIndex {
	n := 0
	for _, t := range tables {
		n += t.Size4()
	}
	log := bits.Len(uint(2*n + 1))
	x := &neighbourIndex{shift: uint(64 - log), slots: make([]neighbourSlot, 1<<log)}
	for port, t := range tables {
		for prefix, cell := range t.All4() {
			key := neighbourKey(port, prefix.Addr().As4())
			*x.slot(key) = neighbourSlot{key, cell}
		}
	}
	return x
}

func neighbourKey(port int, addr [4]byte) uint64 {
	return uint64(port)<<32 | uint64(binary.BigEndian.Uint32(addr[:]))
}

// slot returns the slot that holds key, or the empty one where it would be.
func (x *neighbourIndex) slot(key uint64) *neighbourSlot {
	last := uint64(len(x.slots) - 1)
	for i := key * hashFactor >> x.shift; ; i++ {
		if s := &x.slots[i&last]; s.cell == nil || s.key == key {
			return s
		}
	}
}
