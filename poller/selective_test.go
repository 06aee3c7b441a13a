package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// door is a ring whose source can refuse what is for one queue.
type door struct {
	ring
	shut      map[QueueID]bool
	told      int
	inReceive func()
	busy      bool
	t         *testing.T
}

func (d *door) SetShut(q QueueID, shut bool) {
	require.False(d.t, d.busy, "not inside Receive")
	d.shut[q] = shut
	d.told++
}

func (d *door) SetGate(why Reason) {
	require.False(d.t, d.busy, "not inside Receive")
	d.ring.SetGate(why)
}

func (d *door) Receive(max int) (int, bool) {
	if d.inReceive != nil {
		d.busy = true
		d.inReceive()
		d.busy = false
	}
	return d.ring.Receive(max)
}

// doors is a rig with one source that can refuse, and selective queues a, b
// and c that the test fills, 24 being full.
type doors struct {
	*rig
	src *door
	id  ReceiverID
	box map[byte]*box
	q   map[byte]QueueID
}

func newDoors(t *testing.T, fed string) *doors {
	d := &doors{rig: newRig(t, nil), box: map[byte]*box{}, q: map[byte]QueueID{}}
	d.src = &door{ring: ring{name: "in"}, shut: map[QueueID]bool{}, t: t}
	var err error
	d.id, err = d.AddReceiver("in", d.src, ReceiverConfig{Quota: 10})
	require.NoError(t, err)
	for _, c := range []byte("abc") {
		qc := paperQueue
		qc.Selective = true
		d.box[c] = &box{name: string(c)}
		d.q[c] = d.queue(d.box[c], qc)
	}
	d.feed(fed, true)
	return d
}

func (d *doors) feed(names string, fed bool) {
	d.t.Helper()
	for _, c := range []byte(names) {
		require.NoError(d.t, d.SetFeeds(d.id, d.q[c], fed))
	}
}

// fill sets how many packets each of the named queues holds.
func (d *doors) fill(names string, n int) {
	for _, c := range []byte(names) {
		d.box[c].n = n
	}
}

// shut are the queues for which SetShut said so last.
func (d *doors) shut() (names string) {
	for _, c := range []byte("abc") {
		if d.src.shut[d.q[c]] {
			names += string(c)
		}
	}
	return names
}

func TestSelectiveQueuesCloseTheGateOnlyTogether(t *testing.T) {
	for _, test := range []struct {
		name, fed, full string
		plain           bool // a queue that is not selective is full as well
		shut            string
		gate            Reason
	}{
		{"all open", "abc", "", false, "", 0},
		{"one of two", "ab", "a", false, "a", 0},
		{"two of three", "abc", "ac", false, "ac", 0},
		{"all of two", "ab", "ab", false, "ab", Feedback},
		{"the only one", "b", "b", false, "b", Feedback},
		{"only what it does not feed", "b", "ac", false, "", 0},
		{"all it feeds and more", "b", "abc", false, "b", Feedback},
		{"feeds none", "", "abc", false, "", 0},
		{"a plain one", "ab", "", true, "", Feedback},
		{"a plain one and one of two", "ab", "a", true, "a", Feedback},
		{"a plain one and all", "ab", "ab", true, "ab", Feedback},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDoors(t, test.fed)
			plain := &box{name: "plain"}
			d.queue(plain, paperQueue)
			d.fill(test.full, 24)
			if test.plain {
				plain.n = 24
			}
			d.step(us)
			require.Equal(t, test.shut, d.shut())
			require.Equal(t, test.gate, d.src.gate)
			require.Equal(t, len(test.shut), d.src.told)

			plain.n = 0 // opens first
			d.step(us)
			want := test.gate
			if len(test.shut) < len(test.fed) || test.fed == "" {
				want = 0
			}
			require.Equal(t, test.shut, d.shut())
			require.Equal(t, want, d.src.gate)

			d.fill("abc", 8)
			require.Equal(t, Block, d.step(us).Do, "opened before its turn of this round")
			require.Empty(t, d.shut())
			require.Zero(t, d.src.gate)
			require.Equal(t, 2*len(test.shut), d.src.told)
			c := d.status(d.id).Counters
			require.Equal(t, c.GateClosed, c.GateOpened)
		})
	}
}

// A source that cannot refuse is stopped by a selective queue as by any other.
func TestSelectiveQueueStopsWhoCannotRefuse(t *testing.T) {
	d := newDoors(t, "ab")
	plain := &ring{name: "plain"}
	id := d.receive(plain, ReceiverConfig{}) // is connected to what is there
	require.ErrorIs(t, d.SetFeeds(id, d.q['a'], true), ErrNotFound)
	d.fill("a", 24)
	d.step(us)
	require.Equal(t, Feedback, plain.gate)
	require.Zero(t, d.src.gate)
	d.fill("a", 8)
	d.step(us)
	require.Zero(t, plain.gate)
}

func TestFeedsChange(t *testing.T) {
	type state struct {
		shut string
		gate Reason
	}
	for _, test := range []struct {
		name, fed, full string
		begin, end      string // what it says then
		before, after   state
	}{
		{"begins with the closed", "a", "bc", "b", "", state{"", 0}, state{"b", 0}},
		{"ends the closed", "ab", "b", "", "b", state{"b", 0}, state{"", 0}},
		{"ends the last open", "ab", "b", "", "a", state{"b", 0}, state{"b", Feedback}},
		{"ends all", "ab", "b", "", "ab", state{"b", 0}, state{"", 0}},
		{"from closed to open", "a", "a", "b", "", state{"a", Feedback}, state{"a", 0}},
		{"from closed to none", "a", "a", "", "a", state{"a", Feedback}, state{"", 0}},
		{"from none to closed", "", "a", "a", "", state{"", 0}, state{"a", Feedback}},
		{"says it twice", "a", "a", "a", "c", state{"a", Feedback}, state{"a", Feedback}},
		{"closed for open", "a", "b", "b", "a", state{"", 0}, state{"b", Feedback}},
		{"several at once, closed first", "", "a", "ab", "", state{"", 0}, state{"a", 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDoors(t, test.fed)
			d.fill(test.full, 24)
			d.step(us)
			require.Equal(t, test.before, state{d.shut(), d.src.gate})
			d.feed(test.begin, true)
			d.feed(test.end, false)
			require.Equal(t, test.after, state{d.shut(), d.src.gate})
			if test.before.gate != 0 && test.after.gate == 0 {
				turns := d.src.turns
				require.Equal(t, Again, d.Settle(d.now, 0).Do, "nobody has looked at what came in between")
				d.step(us)
				require.Equal(t, turns+1, d.src.turns)
			}
		})
		if test.before.gate != 0 {
			continue
		}
		t.Run(test.name+", inside Receive", func(t *testing.T) {
			d := newDoors(t, test.fed)
			d.fill(test.full, 24)
			d.step(us)
			changes := d.src.changes
			d.src.inReceive = func() {
				d.feed(test.begin, true)
				d.feed(test.end, false)
				d.src.inReceive = nil
			}
			d.Round(d.now)
			require.Equal(t, test.after, state{d.shut(), d.src.gate})
			want := 0
			if test.after.gate != test.before.gate {
				want = 1
			}
			require.Equal(t, want, d.src.changes-changes, "a gate moves once, by what all of it comes to")
		})
	}
	d := newDoors(t, "")
	require.ErrorIs(t, d.SetFeeds(d.id+100, d.q['a'], true), ErrNotFound)
	require.ErrorIs(t, d.SetFeeds(d.id, d.q['a']+100, true), ErrNotFound)
}

func TestRemoveSelectiveQueue(t *testing.T) {
	for _, test := range []struct {
		name, fed, full string
		shut            string // then, without a
		gate            Reason
		changes         int // of the gate
		again           bool
	}{
		{"open", "ab", "", "", 0, 0, false},
		{"one closed of two", "ab", "a", "", 0, 0, false},
		{"the only one", "a", "a", "", 0, 1, true},
		{"all closed", "ab", "ab", "b", Feedback, 0, false},
		{"the last open", "ab", "b", "b", Feedback, 1, false},
		{"not fed", "b", "ab", "b", Feedback, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDoors(t, test.fed)
			d.fill(test.full, 24)
			d.step(us)
			changes := d.src.changes
			require.NoError(t, d.RemoveQueue(d.q['a']))
			require.Equal(t, test.shut, d.shut())
			require.Equal(t, test.gate, d.src.gate)
			require.Equal(t, test.changes, d.src.changes-changes)
			require.Equal(t, test.again, d.Settle(d.now, 0).Do == Again)
			require.ErrorIs(t, d.SetFeeds(d.id, d.q['a'], true), ErrNotFound)

			d.fill("b", 8)
			d.step(us)
			require.Empty(t, d.shut())
			require.Zero(t, d.src.gate)
		})
	}
}

func TestRemoveReceiverThatFeeds(t *testing.T) {
	d := newDoors(t, "a")
	other := &door{ring: ring{name: "other"}, shut: map[QueueID]bool{}, t: t}
	id, err := d.AddReceiver("other", other, ReceiverConfig{Quota: 10})
	require.NoError(t, err)
	require.NoError(t, d.SetFeeds(id, d.q['a'], true))
	d.fill("a", 24)
	d.step(us)
	require.Equal(t, Feedback, d.src.gate)
	require.NoError(t, d.RemoveReceiver(d.id))
	told := d.src.told
	d.fill("a", 0)
	d.step(us)
	require.Equal(t, told, d.src.told)
	require.False(t, other.shut[d.q['a']])
	require.Zero(t, other.gate)
	require.ErrorIs(t, d.SetFeeds(d.id, d.q['a'], true), ErrNotFound)
}

// What a turn may take with a quota of 10 from queues that hold so many, 24
// being full, and how it ends with more waiting.
func TestRoomOfSeveral(t *testing.T) {
	for _, test := range []struct {
		name    string
		fed     string
		a, b, c int
		plain   int
		taken   int
		end     TurnEnd
		gate    Reason // after the round
	}{
		{"one, with room", "a", 0, 23, 23, 0, 10, EndQuota, 0},
		{"one, little room", "a", 20, 0, 0, 0, 4, EndDownstream, Feedback},
		{"two, one full", "ab", 24, 0, 0, 0, 10, EndQuota, 0},
		{"two, little room together", "ab", 21, 20, 0, 0, 7, EndDownstream, 0},
		{"two, one full, little room in the other", "ab", 24, 20, 0, 0, 4, EndDownstream, 0},
		{"three, enough together", "abc", 20, 20, 20, 0, 10, EndQuota, 0},
		{"none", "", 23, 23, 23, 0, 10, EndQuota, 0},
		{"a plain one has less", "ab", 0, 0, 0, 22, 2, EndDownstream, 0},
		{"a plain one has more", "a", 22, 0, 0, 20, 2, EndDownstream, Feedback},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDoors(t, test.fed)
			plain := &box{name: "plain", n: test.plain}
			d.queue(plain, paperQueue)
			d.fill("a", test.a)
			d.fill("b", test.b)
			d.fill("c", test.c)
			d.src.waiting = 100
			d.Round(d.now)
			require.Equal(t, test.taken, 100-d.src.waiting)
			require.EqualValues(t, 1, d.status(d.id).Counters.Turns[test.end])
			if test.fed == "a" {
				d.box['a'].n += test.taken // that is where they went
			}
			d.Settle(d.now, 0)
			require.Equal(t, test.gate, d.src.gate)
		})
	}
}

// An earlier turn of the round may leave no room anywhere; then all closes at
// once.
func TestNoRoomLeftInARound(t *testing.T) {
	d := newDoors(t, "ab")
	d.src.waiting = 100
	d.fill("a", 20)
	d.fill("b", 20)
	for i := range 2 { // whoever begins, fills both
		id, err := d.AddReceiver("filler", &door{
			t: t, shut: map[QueueID]bool{}, inReceive: func() { d.fill("ab", 24) },
		}, ReceiverConfig{Quota: 10})
		require.NoError(t, err)
		if i == 0 {
			require.NoError(t, d.SetFeeds(id, d.q['c'], true))
		}
	}
	d.Round(d.now) // begins with the second
	require.Equal(t, 100, d.src.waiting)
	require.Equal(t, "ab", d.shut())
	require.Equal(t, Feedback, d.src.gate)
	require.EqualValues(t, 1, d.status(d.id).Counters.Turns[EndDownstream])
	require.Equal(t, Block, d.Settle(d.now, 0).Do)
}

// One queue hangs, the other is healthy, one source feeds both. Each timeout
// opens the hung one's door for one turn, and never longer because the turn is
// about other packets; the healthy one's are never stopped nor slowed.
func TestHungSelectiveQueueOpensForATurn(t *testing.T) {
	d := newDoors(t, "ab")
	d.fill("a", 32) // nothing more goes in
	d.step(us)
	require.Equal(t, "a", d.shut())
	for range 12 {
		d.wake(paperQueue.Timeout)
		require.Empty(t, d.shut(), "at most its timeout at a time")
		require.Equal(t, Block, d.step(us).Do)
		require.Empty(t, d.shut(), "until something has been taken")
		for rounds := 1; ; rounds++ {
			d.src.waiting = 100
			d.step(us)
			require.Equal(t, 90, d.src.waiting, "a whole turn")
			if d.shut() == "a" {
				break
			}
			require.LessOrEqual(t, rounds, 1, "8 packets above its high mark, and 10 a turn")
		}
		d.src.waiting = 0
	}
	require.EqualValues(t, 1, d.src.changes+1, "the gate has not moved")
	require.EqualValues(t, 12, d.Queues(nil)[0].Counters.TimedOutStuck)
}

// All that it feeds hangs: a source gets what the timeouts let in, as with any
// other queue, and no more.
func TestAllSelectiveQueuesHang(t *testing.T) {
	d := newDoors(t, "ab")
	d.fill("ab", 24)
	d.src.waiting = 1000
	d.step(us)
	require.Equal(t, Feedback, d.src.gate)
	for _, want := range []int{2, 4, 8, 10, 10} { // two allowances, up to the quota
		d.wake(time.Millisecond)
		before := d.src.waiting
		require.Equal(t, Block, d.step(us).Do)
		require.Equal(t, want, before-d.src.waiting)
		for d.src.gate == 0 { // an allowance of 16 takes two turns
			d.step(us)
		}
		require.Equal(t, "ab", d.shut())
	}
}

// A queue that opened by a timeout and is fed only then closes all the same.
func TestAllowanceIsSpentByWhoFeedsNow(t *testing.T) {
	for _, inside := range []bool{false, true} {
		d := newDoors(t, "b")
		d.fill("a", 24)
		d.step(us)
		d.wake(time.Millisecond)
		if inside {
			d.src.inReceive = func() { d.feed("a", true) }
		} else {
			d.feed("a", true)
		}
		d.src.waiting = 3
		d.step(us)
		require.Zero(t, d.src.waiting)
		require.Equal(t, "a", d.shut(), "inside Receive: %v", inside)
		require.Zero(t, d.src.gate)
	}
}

func TestAllowanceIsNotSpentByOthers(t *testing.T) {
	d := newDoors(t, "b")
	d.fill("a", 24)
	d.step(us)
	d.wake(time.Millisecond)
	d.src.waiting = 3
	d.step(us)
	require.Zero(t, d.src.waiting)
	require.False(t, d.Queues(nil)[0].Closed, "none of them were for it")
}
