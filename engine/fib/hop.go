package fib

import "net/netip"

// hopID is the index of a hop in a hops.
type hopID uint32

// hops holds one hop for all candidates with the same next hop, as long as there is one.
type hops struct {
	list  []hop
	index map[hopSpec]hopID
	free  []hopID
}

type hop struct {
	spec  hopSpec
	route *Route // nil for throw
	cell  *cell  // of route.Next
	refs  int    // candidates
}

// get returns the hop for spec and whether it had to be made: then the caller fills in what is not its spec.
func (h *hops) get(spec hopSpec) (id hopID, made bool) {
	if id, ok := h.index[spec]; ok {
		return id, false
	}
	if n := len(h.free); n > 0 {
		id, h.free = h.free[n-1], h.free[:n-1]
	} else {
		id = hopID(len(h.list))
		h.list = append(h.list, hop{})
	}
	h.list[id] = hop{spec: spec}
	h.index[spec] = id
	return id, true
}

// drop removes a hop.
func (h *hops) drop(id hopID) {
	delete(h.index, h.list[id].spec)
	h.list[id] = hop{}
	h.free = append(h.free, id)
}

// cellKey names a neighbour.
type cellKey struct {
	port int
	addr netip.Addr
}

// cell is a neighbour and who needs it.
type cell struct {
	key   cellKey
	n     *Neighbour
	hops  int  // that go through it
	known bool // to the kernel
	gen   uint8
}
