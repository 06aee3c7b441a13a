package poller

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ring is a receive source over numbers: packets wait in it, and go to sink.
type ring struct {
	name    string
	waiting int
	refuses bool // takes nothing though packets wait, as without frames
	sink    *box // where packets go, or nil
	log     *[]string

	gate    Reason
	changes int
	granted int
	turns   int
	largest int // most asked for in one turn
}

func (r *ring) Receive(max int) (int, bool) {
	r.turns++
	r.largest = atLeast(r.largest, max)
	if r.log != nil {
		*r.log = append(*r.log, "rx "+r.name)
	}
	if r.refuses {
		return 0, r.waiting > 0
	}
	n := min(max, r.waiting)
	r.waiting -= n
	if r.sink != nil {
		r.sink.n += n
	}
	return n, r.waiting > 0
}

func atLeast(a, b int) int {
	if a > b {
		return a
	}
	return b
}

func (r *ring) SetGate(why Reason) { r.gate = why; r.changes++ }
func (r *ring) Grant(n int)        { r.granted += n }

// box is a downstream queue and the transmitter that drains it.
type box struct {
	name    string
	n       int
	rate    int // packets that leave per turn
	pending bool
	log     *[]string
}

func (b *box) Len() int { return b.n }

func (b *box) Transmit(max int) (int, bool) {
	if b.log != nil {
		*b.log = append(*b.log, "tx "+b.name)
	}
	n := min(b.n, b.rate, max)
	b.n -= n
	return n, b.n > 0
}

func (b *box) Kick() bool {
	if b.log != nil {
		*b.log = append(*b.log, "kick "+b.name)
	}
	return b.pending
}

// handle is an Owner that does what it is told.
type handle struct {
	learned  bool
	lessons  int
	drives   int
	found    bool // what Drive reports
	owned    bool
	ownErr   error
	freeErr  error
	teaching bool // Learn succeeds at once
	away     bool // receive work runs on another CPU
	asked    int  // calls of Competes
	losing   bool // what Losing says, once
	losses   int  // calls of Losing
}

var errFake = errors.New("fake")

func (h *handle) Learn()        { h.lessons++; h.learned = h.learned || h.teaching }
func (h *handle) Learned() bool { return h.learned }
func (h *handle) Own() error {
	if h.ownErr == nil {
		h.owned = true
	}
	return h.ownErr
}
func (h *handle) Losing() bool {
	h.losses++
	lost := h.losing
	h.losing = false
	return lost
}
func (h *handle) Competes() bool { h.asked++; return !h.away }
func (h *handle) Drive() bool    { h.drives++; return h.found }
func (h *handle) Release() error {
	if h.freeErr == nil {
		h.owned = false
	}
	return h.freeErr
}

// rig is a scheduler with a clock that the test moves.
type rig struct {
	*Scheduler
	t   *testing.T
	now int64
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	c := Default()
	c.Share.Limit = 100
	if change != nil {
		change(&c)
	}
	s, err := New(c)
	require.NoError(t, err)
	return &rig{Scheduler: s, t: t}
}

func (r *rig) receive(src *ring, rc ReceiverConfig) ReceiverID {
	r.t.Helper()
	if rc.Quota == 0 {
		rc.Quota = Common
	}
	id, err := r.AddReceiver(src.name, src, rc)
	require.NoError(r.t, err)
	return id
}

func (r *rig) transmit(b *box) TransmitterID {
	r.t.Helper()
	id, err := r.AddTransmitter(b.name, b)
	require.NoError(r.t, err)
	return id
}

func (r *rig) queue(b *box, qc QueueConfig) QueueID {
	r.t.Helper()
	id, err := r.AddQueue(b.name, b, qc)
	require.NoError(r.t, err)
	return id
}

// step runs one round that takes so long, and settles it.
func (r *rig) step(took time.Duration) Next {
	r.Round(r.now)
	r.now += int64(took)
	return r.Settle(r.now, int64(took))
}

// pass is step, and sleeps a wait through to its end.
func (r *rig) pass(took time.Duration) Next {
	r.t.Helper()
	next := r.step(took)
	if next.Do != Again {
		require.Less(r.t, next.UntilNS, int64(math.MaxInt64), "a wait without end")
		r.wake(time.Duration(next.UntilNS - r.now))
	}
	return next
}

// wake lets time pass and ends a wait.
func (r *rig) wake(after time.Duration) {
	r.now += int64(after)
	r.Woke(r.now)
}

func (r *rig) status(id ReceiverID) ReceiverStatus {
	r.t.Helper()
	for _, s := range r.Receivers(nil) {
		if s.ID == id {
			return s
		}
	}
	require.FailNow(r.t, "no such source")
	return ReceiverStatus{}
}
