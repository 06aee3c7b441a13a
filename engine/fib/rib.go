package fib

import (
	"net/netip"
	"slices"
)

// candidate is one route of the kernel. It holds no pointers: a million of them cost the garbage collector nothing.
type candidate struct {
	hop         hopID
	metric      uint32
	ident       uint32
	gen         uint8 // of the last reading of the kernel's tables that saw it
	dead        bool
	conditional bool
}

// before reports whether the kernel tries c before d for their metrics. Conditional routes come first: one of them makes its prefix
// Unsupported, whatever its metric.
func (c candidate) before(d candidate) bool {
	if c.conditional != d.conditional {
		return c.conditional
	}
	return c.metric < d.metric
}

// rank reports whether c and d have the same place in the order of before.
func (c candidate) rank(d candidate) bool {
	return c.conditional == d.conditional && c.metric == d.metric
}

// key4 and key6 are prefixes without pointers.
type (
	key4 struct {
		addr [4]byte
		bits uint8
	}
	key6 struct {
		addr [16]byte
		bits uint8
	}
	ribKey interface {
		comparable
		prefix() netip.Prefix
	}
)

func (k key4) prefix() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4(k.addr), int(k.bits)) }
func (k key6) prefix() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom16(k.addr), int(k.bits)) }

func makeKey4(p netip.Prefix) key4 { return key4{p.Addr().As4(), uint8(p.Bits())} }
func makeKey6(p netip.Prefix) key6 { return key6{p.Addr().As16(), uint8(p.Bits())} }

// rib holds all routes of one kernel table and family: for each prefix its candidates, in the order in which the kernel tries them.
// Nearly every prefix has one, which lies in the map itself.
type rib[K ribKey] struct {
	one  map[K]candidate
	many map[K][]candidate // two or more
}

func newRIB[K ribKey]() rib[K] {
	return rib[K]{one: map[K]candidate{}, many: map[K][]candidate{}}
}

// get appends the candidates of k to scratch and returns it.
func (r *rib[K]) get(k K, scratch []candidate) []candidate {
	if c, ok := r.one[k]; ok {
		return append(scratch, c)
	}
	return append(scratch, r.many[k]...)
}

// put replaces the candidates of k by a copy of list.
func (r *rib[K]) put(k K, list []candidate) {
	if len(list) < 2 {
		delete(r.many, k)
	}
	if len(list) != 1 {
		delete(r.one, k)
	}
	switch len(list) {
	case 0:
	case 1:
		r.one[k] = list[0]
	default:
		r.many[k] = slices.Clone(list)
	}
}

// best returns the candidate the kernel uses for k.
func (r *rib[K]) best(k K) (c candidate, ok bool) {
	if c, ok := r.one[k]; ok {
		return c, !c.dead
	}
	for _, c := range r.many[k] {
		if !c.dead {
			return c, true
		}
	}
	return candidate{}, false
}

// keys yields every prefix.
func (r *rib[K]) keys(yield func(K) bool) {
	for k := range r.one {
		if !yield(k) {
			return
		}
	}
	for k := range r.many {
		if !yield(k) {
			return
		}
	}
}

// find returns the index of the route that is c, or -1.
func find(list []candidate, c candidate) int {
	return slices.IndexFunc(list, func(d candidate) bool { return d.rank(c) && d.ident == c.ident })
}

// insert puts c, which is not in list, where at says.
func insert(list []candidate, c candidate, at position) []candidate {
	i := slices.IndexFunc(list, func(d candidate) bool {
		switch {
		case c.before(d):
			return true
		case d.before(c):
			return false
		case at == read:
			return d.gen != c.gen // not read yet
		default:
			return at != last
		}
	})
	if i < 0 {
		i = len(list)
	}
	return slices.Insert(list, i, c)
}
