package fib

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/gaissmai/bart"
)

// index4 answers IPv4 lookups in three loads and a short search: what bart's trie does with its nodes, spread over one array per /8.
// It is made from the trie and never changes; an update copies the block it falls into.
//
//	10.1.2.3   blocks[10] ──► slots[1] = 10.1.0.0/16
//	                            cover   the route of the longest prefix of at most 16 bits
//	                            spans   where longer prefixes begin and end: 0:cover  2.0:r  2.128:q  3.0:cover
//	                                                                                  └─ the last that begins at or before 2.3
type index4 struct {
	blocks [256]*block4 // by the first byte of the address
}

type block4 struct {
	slots [256]slot4 // by the second byte
}

type slot4 struct {
	cover *Route // nil = no route
	spans []span // in the order of start, the first at 0; empty = cover everywhere
}

// span is what holds from start (the lower 16 bits of an address) to the next span.
type span struct {
	start uint16
	cover bool // the slot's cover in place of route, so that a change of a short prefix need not touch the spans below it
	route *Route
}

func (x *index4) lookup(dst [4]byte) *Route {
	slot := &x.blocks[dst[0]].slots[dst[1]]
	spans := slot.spans
	if len(spans) == 0 {
		return slot.cover
	}
	low := binary.BigEndian.Uint16(dst[2:])
	at := 0
	for n := len(spans); n > 1; {
		half := n >> 1
		if spans[at+half].start <= low {
			at += half
		}
		n -= half
	}
	if s := &spans[at]; !s.cover {
		return s.route
	}
	return slot.cover
}

// indexer keeps an index4 in step with a trie. One goroutine uses it.
type indexer struct {
	index *index4
	own   [256]bool // blocks that were never published

	covers, spans bitmap // slots in which these have to be made anew
}

// bitmap has a bit for each slot.
type bitmap [1 << 16 / 64]uint64

func newIndexer() *indexer {
	empty := &block4{}
	x := &indexer{index: &index4{}}
	for i := range x.index.blocks {
		x.index.blocks[i] = empty
	}
	return x
}

// changed notes that the route of an IPv4 prefix came, went or became another.
func (x *indexer) changed(p netip.Prefix) {
	a := p.Addr().As4()
	slot := int(a[0])<<8 | int(a[1])
	if p.Bits() > 16 {
		x.spans[slot/64] |= 1 << (slot % 64)
		return
	}
	for i := range 1 << (16 - p.Bits()) {
		s := slot + i
		x.covers[s/64] |= 1 << (s % 64)
	}
}

// publish brings the index in step with the trie and returns it; it never changes from now on.
func (x *indexer) publish(table *bart.Table[*Route]) *index4 {
	index := *x.index
	any := false
	for w := range x.covers {
		for dirty := x.covers[w] | x.spans[w]; dirty != 0; dirty &= dirty - 1 {
			bit := bits.TrailingZeros64(dirty)
			slot := x.slot(&index, w*64+bit)
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(w >> 2), byte(w<<6 | bit)}), 16)
			if x.covers[w]&(1<<bit) != 0 {
				slot.cover, _ = table.LookupPrefix(p)
			}
			if x.spans[w]&(1<<bit) != 0 {
				slot.spans = makeSpans(table, p)
			}
			any = true
		}
		x.covers[w], x.spans[w] = 0, 0
	}
	if any {
		x.index = &index
		x.own = [256]bool{}
	}
	return x.index
}

// slot returns a slot that may be written.
func (x *indexer) slot(index *index4, number int) *slot4 {
	b := number >> 8
	if !x.own[b] {
		block := *index.blocks[b]
		index.blocks[b] = &block
		x.own[b] = true
	}
	return &index.blocks[b].slots[number&255]
}

// makeSpans returns the spans of the prefixes below a /16, none when there are none.
func makeSpans(table *bart.Table[*Route], slot netip.Prefix) []span {
	b := spanBuilder{around: []area{{end: 1 << 16, span: span{cover: true}}}}
	for p, r := range table.Subnets(slot) { // sorted by address, of two at one address the shorter prefix first
		if p.Bits() > 16 {
			a := p.Addr().As4()
			start := uint32(binary.BigEndian.Uint16(a[2:]))
			b.enter(start, area{end: start + 1<<(32-p.Bits()), span: span{route: r}})
		}
	}
	b.leave(1 << 16)
	return append([]span(nil), b.spans...) // without spare capacity: it lives long
}

// spanBuilder turns nested areas into consecutive spans.
type spanBuilder struct {
	around []area // around the current place, the innermost last; the first is the whole slot
	spans  []span
}

type area struct {
	end uint32
	span
}

func (b *spanBuilder) enter(start uint32, a area) {
	if len(b.spans) == 0 {
		b.begin(0, b.around[0].span)
	}
	b.leave(start)
	b.around = append(b.around, a)
	b.begin(start, a.span)
}

// leave ends the areas that end at or before place. The whole slot is never left.
func (b *spanBuilder) leave(place uint32) {
	for n := len(b.around) - 1; n > 0 && b.around[n].end <= place; n-- {
		end := b.around[n].end
		b.around = b.around[:n]
		if end < 1<<16 {
			b.begin(end, b.around[n-1].span)
		}
	}
}

// begin lets s hold from start on.
func (b *spanBuilder) begin(start uint32, s span) {
	s.start = uint16(start)
	if n := len(b.spans); n > 0 && b.spans[n-1].start == s.start {
		b.spans = b.spans[:n-1] // it had no length
	}
	if n := len(b.spans); n > 0 && b.spans[n-1].cover == s.cover && b.spans[n-1].route == s.route {
		return
	}
	b.spans = append(b.spans, s)
}
