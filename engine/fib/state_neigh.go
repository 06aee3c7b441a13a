package fib

import "net/netip"

// neigh applies an update of a neighbour. Workers see its word at once.
func (s *state) neigh(u neighUpdate) {
	port, ok := s.byLink[u.ifindex]
	if !ok {
		return
	}
	k := cellKey{port, u.addr}
	if u.deleted {
		if c, ok := s.cells[k]; ok {
			s.forget(c)
		}
		return
	}
	c := s.cell(k)
	c.gen = s.cellGen
	c.n.word.Store(u.word)
	if !c.known {
		c.known = true
		s.neighbours[port].set(hostPrefix(u.addr), c.n)
		s.dirty.tables, s.dirty.onLink = true, true
	}
}

// sweepNeighbours forgets the neighbours that neigh was not called for since cellGen changed.
func (s *state) sweepNeighbours() {
	for _, c := range s.cells {
		if c.known && c.gen != s.cellGen {
			s.forget(c)
		}
	}
}

// cell returns the cell of a neighbour, a new one when there is none.
func (s *state) cell(k cellKey) *cell {
	c, ok := s.cells[k]
	if !ok {
		c = &cell{key: k, n: &Neighbour{}}
		s.cells[k] = c
	}
	return c
}

// forget takes out a neighbour that the kernel does not know any more. Whoever still holds its cell finds it unusable.
func (s *state) forget(c *cell) {
	c.n.word.Store(0)
	if c.known {
		c.known = false
		s.neighbours[c.key.port].delete(hostPrefix(c.key.addr))
		s.dirty.tables, s.dirty.onLink = true, true
	}
	if c.hops == 0 {
		delete(s.cells, c.key)
	}
}

func hostPrefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
