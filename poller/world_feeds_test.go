package poller

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// feeding is what a port has to do with exits: where its packets go, and, if it
// is a Shutter, what it has said of that and was told.
type feeding struct {
	shutter   bool
	receiving bool
	blind     bool             // its door cannot tell packets apart
	sends     byte             // exits its packets are for, by position modulo 4; 0 is all
	fed       map[QueueID]bool // what it said
	shut      map[QueueID]bool // what it was told
	heldSince int64            // when its gate closed for selective queues alone; -1 if it is not
	turns     int
	changes   int // calls of SetGate
}

// heldBy counts what was seen to hold a port: some of the selective queues that
// it feeds (not its gate), the only one, all of several, one that is not
// selective, or that one beside all the others; and shut queues removed.
type heldBy struct{ some, one, several, alone, both, removed int }

func (h *heldBy) add(o heldBy) {
	h.some += o.some
	h.one += o.one
	h.several += o.several
	h.alone += o.alone
	h.both += o.both
	h.removed += o.removed
}

func (h *heldBy) requireAll(t *testing.T) {
	for _, n := range []int{h.some, h.one, h.several, h.alone, h.both, h.removed} {
		require.Positive(t, n, "%+v", *h)
	}
}

func (p *port) init(shutter bool) {
	p.feeding = feeding{
		shutter: shutter, blind: len(p.w.ports)%2 == 1, heldSince: -1,
		fed: map[QueueID]bool{}, shut: map[QueueID]bool{},
	}
}

// source is the port as the scheduler gets it.
func (p *port) source() Receiver {
	if p.shutter {
		return p
	}
	return struct{ Receiver }{p}
}

func (p *port) SetShut(q QueueID, shut bool) {
	p.w.must(!p.receiving, "told of a queue inside Receive")
	p.w.must(p.shut[q] != shut, "told twice that queue %d is shut: %v", q, shut)
	p.shut[q] = shut
}

func (p *port) setFeeds(e *exit, fed bool) {
	err := p.w.s.SetFeeds(p.id, e.id, fed)
	if !p.shutter || !e.selective {
		require.ErrorIs(p.w.t, err, ErrNotFound)
		return
	}
	require.NoError(p.w.t, err)
	p.fed[e.id] = fed
}

// notice says that packets go to an exit; forget that for a while none did.
func (p *port) notice(e *exit) {
	if p.shutter && e.selective && !p.fed[e.id] {
		p.setFeeds(e, true)
	}
}

func (p *port) forget() {
	if p.turns++; p.turns%32 != 0 {
		return
	}
	for i, e := range p.w.egress {
		if p.fed[e.id] && !p.goesTo(i) {
			p.setFeeds(e, false)
		}
	}
}

func (p *port) goesTo(i int) bool { return p.sends&0xf == 0 || p.sends>>(i%4)&1 != 0 }

// target is where the next packet goes. What is for an exit that is shut has
// been refused by a door that sees.
func (p *port) target() *exit {
	for range p.w.egress {
		p.to++
		i := p.to % len(p.w.egress)
		if e := p.w.egress[i]; p.goesTo(i) && (p.blind || !p.shut[e.id]) {
			return e
		}
	}
	return nil
}

// room is what a turn may take: a quota of 16, what any queue has that stops it
// alone, and what the selective ones that it feeds have together.
func (p *port) room() int {
	limit, sum, fed := 16, 0, false
	for i, q := range p.w.s.queues {
		e := p.w.egress[i]
		room := max(e.high-e.n, q.allowance)
		switch {
		case !p.shutter || !e.selective:
			limit = min(limit, room)
		case p.fed[e.id]:
			fed = true
			if !q.closed {
				sum += room
			}
		}
	}
	if fed {
		return min(limit, sum)
	}
	return limit
}

// checkFeeds tells whether the gate must be closed by Feedback: some queue that
// is not selective is closed, or all selective ones are that it feeds.
func (p *port) checkFeeds() bool {
	numFed, numShut, alone := 0, 0, false
	for i, q := range p.w.s.queues {
		e := p.w.egress[i]
		if !p.shutter || !e.selective {
			alone = alone || q.closed
			continue
		}
		if p.fed[e.id] {
			numFed++
		}
		shut := p.fed[e.id] && q.closed
		if shut {
			numShut++
		}
		p.w.must(p.shut[e.id] == shut, "queue %d is fed and closed: %v, told %v", e.id, shut, p.shut[e.id])
	}
	all := numFed > 0 && numShut == numFed
	held := &p.w.held
	switch {
	case alone && all:
		held.both++
	case alone:
		held.alone++
	case all && numFed > 1:
		held.several++
	case all:
		held.one++
	case numShut > 0:
		held.some++
	}
	switch {
	case !all || alone:
		p.heldSince = -1
	case p.heldSince < 0:
		p.heldSince = p.w.now
	default:
		p.w.must(p.w.now-p.heldSince < int64(ms), "held by selective queues from %d to %d", p.heldSince, p.w.now)
	}
	return alone || all
}

func (w *world) addExit(selective bool) {
	e := &exit{w: w, selective: selective, rate: 20, high: 24, spare: 8}
	qc := DefaultQueue(32)
	qc.Selective = selective
	var err error
	e.id, err = w.s.AddQueue("exit", e, qc)
	require.NoError(w.t, err)
	e.out, err = w.s.AddTransmitter("exit", e)
	require.NoError(w.t, err)
	w.egress = append(w.egress, e)
}

func (w *world) removeExit(i int) {
	e := w.egress[i]
	changes := map[*port]int{}
	for _, p := range w.ports {
		changes[p] = p.changes
		if p.shut[e.id] {
			w.held.removed++
		}
	}
	require.NoError(w.t, w.s.RemoveQueue(e.id))
	require.NoError(w.t, w.s.RemoveTransmitter(e.out))
	w.egress = slices.Delete(w.egress, i, i+1)
	w.left += e.sent
	for _, p := range w.ports {
		w.must(!p.shut[e.id], "a queue that is removed is left shut")
		w.must(p.changes-changes[p] <= 1, "a gate moved %d times for a removal", p.changes-changes[p])
		delete(p.fed, e.id)
		delete(p.shut, e.id)
	}
}
