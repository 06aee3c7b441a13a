package fib

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// cow is a lookup table that one goroutine changes while others read what it published: copy on write.
type cow[V any] struct {
	table   *bart.Table[V]
	changes int  // since the last publish
	private bool // nobody else has this table
}

func newCOW[V any]() cow[V] { return cow[V]{table: &bart.Table[V]{}, private: true} }

// copyAll is the fraction of a table from which on copying all of it once is cheaper than copying the path to each change: the copy of
// an entry costs some 0.2 µs, that of a path some 16 µs (BenchmarkUpdate).
const copyAll = 64

func (c *cow[V]) set(p netip.Prefix, v V) {
	if c.inPlace() {
		c.table.Insert(p, v)
	} else {
		c.table = c.table.InsertPersist(p, v)
	}
}

func (c *cow[V]) delete(p netip.Prefix) {
	if c.inPlace() {
		c.table.Delete(p)
	} else {
		c.table = c.table.DeletePersist(p)
	}
}

// inPlace counts a change and reports whether it may be made in the table itself.
func (c *cow[V]) inPlace() bool {
	if c.changes++; !c.private && c.changes > 64+c.table.Size()/copyAll {
		c.table = c.table.Clone()
		c.private = true
	}
	return c.private
}

// publish returns the table, which never changes from now on.
func (c *cow[V]) publish() *bart.Table[V] {
	c.private, c.changes = false, 0
	return c.table
}
