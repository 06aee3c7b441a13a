package fib

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/gaissmai/bart"
)

// index4 answers IPv4 lookups: what bart's trie does with its nodes, in one array per /8. Nearly all need only the one cache line of
// their slot, so a lookup that memory has to be asked for waits once. The index is made from the trie and never changes; an update copies
// the block it falls into.
//
//	10.1.2.3   blocks[10] ──► slots[1] = 10.1.0.0/16
//	                            cover  the route of the longest prefix of at most 16 bits
//	                            runs   where longer prefixes begin and end, by third byte:  0:cover  2:r  3:cover  7:q  9:cover
//	                                                                                                 └─ the last that begins at or before 2
//	                            spans  the same by the last two bytes, for slots with more runs than there is room for, or with prefixes
//	                                   beyond /24
type index4 struct {
	blocks [256]*block4 // by the first byte of the address
	routes []*Route     // by run
}

type block4 struct {
	slots [256]slot4 // by the second byte
}

// slot4 fills one cache line of 64 bytes.
type slot4 struct {
	starts [2]uint64 // where runs begin, ascending from the lowest byte, the first at 0
	runs   [16]run   // what holds from there on; the last one again in unused places, which start at 255
	cover  *Route    // nil = no route
	spans  *[]span   // in place of runs if not nil: in the order of start, the first at 0
}

// run is an index into index4.routes.
type run uint16

const (
	runCover run = iota // the slot's cover, so that a change of a short prefix need not touch what is below it
	runNone             // no route
	firstRun            // from here on: hopID + firstRun
	maxRun   = 1<<16 - 1
)

// span is what holds from start (the lower 16 bits of an address) to the next span.
type span struct {
	start uint16
	cover bool // as runCover
	route *Route
}

func (x *index4) lookup(dst [4]byte) *Route {
	slot := &x.blocks[dst[0]].slots[dst[1]]
	if slot.spans != nil {
		return slot.search(binary.BigEndian.Uint16(dst[2:]))
	}
	at := numUpTo(slot.starts[0], dst[2]) + numUpTo(slot.starts[1], dst[2]) - 1
	if r := slot.runs[at&15]; r != runCover {
		return x.routes[r]
	}
	return slot.cover
}

// numUpTo returns how many of the eight bytes of word are at most b. It has no branch: into which run an address falls cannot be
// predicted, and a wrong guess would cost more than the search.
func numUpTo(word uint64, b uint8) int {
	const low, high = 0x0101010101010101, 0x8080808080808080
	all := uint64(b) * low
	// The top bit of each byte says whether its lower seven bits are at most those of b; no borrow leaves a byte.
	upTo := (all | high) - word&^high
	// It decides where the top bits of both are equal; else the one that has none is smaller.
	return bits.OnesCount64((all&^word | ^(all^word)&upTo) & high)
}

// search finds the span of an address by its lower 16 bits.
func (s *slot4) search(low uint16) *Route {
	spans := *s.spans
	at := 0
	for n := len(spans); n > 1; {
		half := n >> 1
		if spans[at+half].start <= low {
			at += half
		}
		n -= half
	}
	if found := &spans[at]; !found.cover {
		return found.route
	}
	return s.cover
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
	for i := range empty.slots {
		empty.slots[i].setRuns(nil)
	}
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

// publish brings the index in step with the trie and returns it; it never changes from now on. hops are those of all routes in the trie.
func (x *indexer) publish(table *bart.Table[*Route], hops []hop) *index4 {
	index := *x.index
	any := false
	for w := range x.covers {
		for dirty := x.covers[w] | x.spans[w]; dirty != 0; dirty &= dirty - 1 {
			bit := bits.TrailingZeros64(dirty)
			block, slot := x.block(&index, w>>2), w&3<<6|bit
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(w >> 2), byte(slot)}), 16)
			if x.covers[w]&(1<<bit) != 0 {
				block.slots[slot].cover, _ = table.LookupPrefix(p)
			}
			if x.spans[w]&(1<<bit) != 0 {
				block.slots[slot].set(makeSpans(table, p))
			}
			any = true
		}
		x.covers[w], x.spans[w] = 0, 0
	}
	if any {
		index.routes = make([]*Route, int(firstRun)+len(hops))
		for id, h := range hops {
			index.routes[int(firstRun)+id] = h.route
		}
		x.index = &index
		x.own = [256]bool{}
	}
	return x.index
}

// block returns a block that may be written.
func (x *indexer) block(index *index4, number int) *block4 {
	if !x.own[number] {
		block := *index.blocks[number]
		index.blocks[number] = &block
		x.own[number] = true
	}
	return index.blocks[number]
}

// set stores what holds below a slot, as runs if possible.
func (s *slot4) set(spans []span) {
	s.spans = nil
	if !s.setRuns(spans) {
		s.spans = &spans
	}
}

// setRuns makes runs of spans, none meaning cover everywhere. It returns false when they are too many, begin within a /24, or a hop has a
// higher number than a run can name.
func (s *slot4) setRuns(spans []span) bool {
	if len(spans) > len(s.runs) {
		return false
	}
	s.starts, s.runs = [2]uint64{1<<64 - 1<<8, 1<<64 - 1}, [16]run{}
	for i, span := range spans {
		r := runCover
		switch {
		case span.start&0xff != 0 || span.route != nil && span.route.hop > maxRun-hopID(firstRun):
			return false
		case span.route != nil:
			r = firstRun + run(span.route.hop)
		case !span.cover:
			r = runNone
		}
		word, shift := &s.starts[i/8], i%8*8
		*word = *word&^(0xff<<shift) | uint64(span.start>>8)<<shift
		for j := i; j < len(s.runs); j++ {
			s.runs[j] = r
		}
	}
	return true
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
