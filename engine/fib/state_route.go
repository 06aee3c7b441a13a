package fib

import (
	"net/netip"
	"slices"
)

// route applies an update of a route.
func (s *state) route(u routeUpdate) {
	if u.prefix.Addr().Is4() {
		applyRoute(s, &s.v4, makeKey4(u.prefix), u)
	} else {
		applyRoute(s, &s.v6, makeKey6(u.prefix), u)
	}
}

func applyRoute[K ribKey](s *state, f *family[K], k K, u routeUpdate) {
	r := f.rib(u.local)
	list := r.get(k, s.scratch[:0])
	c := candidate{metric: u.metric, ident: u.ident, gen: f.gen, dead: u.dead, conditional: u.conditional}
	i := find(list, c)
	if u.vague(list, c, i) {
		s.todo.routes[familyIndex(u.prefix.Addr())] = true
	}
	switch {
	case u.deleted:
		f.deleted++
		if i < 0 {
			return
		}
		s.release(list[i].hop)
		list = slices.Delete(list, i, i+1)
	case i >= 0 && u.at == read:
		c.hop = list[i].hop
		list = insert(slices.Delete(list, i, i+1), c, read)
	case i >= 0:
		list[i].dead = u.dead
	default:
		c.hop = s.hold(u.hop)
		if j := slices.IndexFunc(list, c.rank); j >= 0 && u.at == replace {
			s.release(list[j].hop)
			list[j] = c
		} else {
			list = insert(list, c, u.at)
		}
	}
	r.put(k, list)
	s.scratch = list
	settle(s, f, k)
	if u.local {
		s.cover(k.prefix())
	}
}

// vague reports that only reading the kernel's table shows what an update did to list. c is its candidate, at index i or nowhere.
func (u *routeUpdate) vague(list []candidate, c candidate, i int) bool {
	switch {
	case u.at == read:
		return false
	case u.spread:
		return true // the whole set of next hops, or some of them, or one that became several
	case u.deleted:
		return i < 0 && slices.ContainsFunc(list, c.rank) // one next hop of several, or a change that we never heard of
	case u.at == replace && u.prefix.Addr().Is6():
		// Which of several is replaced depends on whether they can share traffic.
		num := 0
		for _, d := range list {
			if d.rank(c) {
				num++
			}
		}
		return num > 1
	}
	return false
}

// sweepRoutes removes the routes of a family that route was not called for since gen changed.
func sweepRoutes[K ribKey](s *state, f *family[K]) {
	for _, local := range [...]bool{true, false} {
		r := f.rib(local)
		for k := range r.keys {
			list := r.get(k, s.scratch[:0])
			num := len(list)
			list = slices.DeleteFunc(list, func(c candidate) bool {
				if c.gen != f.gen {
					s.release(c.hop)
				}
				return c.gen != f.gen
			})
			if len(list) == num {
				continue
			}
			r.put(k, list)
			settle(s, f, k)
			if local {
				s.cover(k.prefix())
			}
		}
	}
	f.deleted = 0
}

// settle puts the route the kernel uses for a prefix into the lookup table.
func settle[K ribKey](s *state, f *family[K], k K) {
	p := k.prefix()
	c, ok := f.local.best(k)
	if !ok && !s.covered(p) {
		c, ok = f.main.best(k)
	}
	trie := s.trie(p)
	old, had := trie.table.Get(p)
	var now *Route
	if ok {
		now = s.hops.list[c.hop].route
	}
	if ok == had && now == old {
		return
	}
	if had {
		s.count(p, old, -1)
	}
	if ok {
		trie.set(p, now)
		s.count(p, now, +1)
	} else {
		trie.delete(p)
	}
	if p.Addr().Is4() {
		s.index.changed(p)
	}
	s.dirty.tables = true
}

// count keeps the books on a route that comes into the lookup table (n = 1) or leaves it (n = -1).
func (s *state) count(p netip.Prefix, r *Route, n int) {
	kind := noneKind
	if r != nil {
		kind = r.Kind
	}
	s.counts[kind] += n
	if kind != Local && kind != Broadcast {
		return
	}
	s.dirty.own = true
	if n > 0 {
		s.own[p] = kind
	} else {
		delete(s.own, p)
	}
}

// covered reports whether a shorter or equal prefix of table local decides about p.
func (s *state) covered(p netip.Prefix) bool {
	_, ok := s.covers.LookupPrefix(p)
	return ok
}

// cover notes what a change of table local at p means for table main below it.
func (s *state) cover(p netip.Prefix) {
	if p.IsSingleIP() {
		return // there is nothing below
	}
	if p.Addr().Is4() {
		coverFamily(s, &s.v4, makeKey4(p))
	} else {
		coverFamily(s, &s.v6, makeKey6(p))
	}
}

func coverFamily[K ribKey](s *state, f *family[K], k K) {
	p := k.prefix()
	_, want := f.local.best(k)
	_, have := s.covers.Get(p)
	switch {
	case want == have:
		return
	case want:
		s.covers.Insert(p, struct{}{})
	default:
		s.covers.Delete(p)
	}
	for below := range f.main.keys {
		if q := below.prefix(); q.Bits() >= p.Bits() && p.Contains(q.Addr()) {
			settle(s, f, below)
		}
	}
}

// hold returns the hop for spec and counts one more candidate that has it.
func (s *state) hold(spec hopSpec) hopID {
	id, made := s.hops.get(spec)
	if made {
		s.compile(id)
	}
	s.hops.list[id].refs++
	return id
}

// release gives back what hold returned.
func (s *state) release(id hopID) {
	h := &s.hops.list[id]
	if h.refs--; h.refs == 0 {
		s.dropCell(h)
		s.hops.drop(id)
	}
}

// compile makes the Route of a hop.
func (s *state) compile(id hopID) {
	h := &s.hops.list[id]
	spec := h.spec
	if spec.kind == noneKind {
		return
	}
	h.route = &Route{Kind: spec.kind, Reason: spec.reason, Egress: -1, Ifindex: spec.ifindex, Via: spec.via, MTU: spec.mtu, hop: id}
	if spec.kind != Forward {
		return
	}
	port, ok := s.byLink[spec.ifindex]
	if !ok {
		h.route.Kind = NotAPort
		return
	}
	h.route.Egress = port
	if spec.via.IsValid() {
		h.cell = s.cell(cellKey{port, spec.via})
		h.cell.hops++
		h.route.Next = h.cell.n
	}
}

// dropCell undoes what compile did with cells.
func (s *state) dropCell(h *hop) {
	c := h.cell
	if c == nil {
		return
	}
	h.cell = nil
	if c.hops--; c.hops == 0 && !c.known {
		delete(s.cells, c.key)
	}
}

// recompile makes every Route and the whole lookup table anew, after a port got or lost its link.
func (s *state) recompile() {
	for id := range s.hops.list {
		if h := &s.hops.list[id]; h.refs > 0 {
			s.dropCell(h)
			s.compile(hopID(id))
		}
	}
	s.routes4, s.routes6 = newCOW[*Route](), newCOW[*Route]()
	s.index = newIndexer()
	s.counts = [numKinds]int{}
	clear(s.own)
	resettle(s, &s.v4)
	resettle(s, &s.v6)
	s.dirty.tables, s.dirty.own = true, true
}

func resettle[K ribKey](s *state, f *family[K]) {
	for _, r := range [...]*rib[K]{&f.local, &f.main} {
		for k := range r.keys {
			settle(s, f, k)
		}
	}
}
