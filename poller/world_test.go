package poller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// world is a scheduler in virtual time among devices, queues and processes that
// misbehave by script, and the invariants of doc.go checked after every call.
type world struct {
	t   *testing.T
	s   *Scheduler
	cfg Config
	now int64

	ports   []*port
	egress  []*exit
	held    heldBy
	left    uint64 // sent by exits that are gone
	idle    bool   // the script says that the CPU has nothing else to run
	settles uint64

	fruitless int   // rounds in a row without progress and without ownership
	charged   int64 // to this period, before the last round
	exhausted bool
	periodEnd int64
}

// port is a receive source with the device behind it.
type port struct {
	w      *world
	id     ReceiverID
	device int // packets in the device's ring, unseen while masked
	ring   int // packets in the receive ring
	credit int
	to     int
	stuck  bool // out of frames: takes nothing

	masked   bool
	owner    bool // it can be owned
	window   int
	away     bool // receive work would run on another CPU
	asked    int  // calls of Competes since the last round
	losing   bool // packets were lost since it was asked
	lostIn   uint64
	canLearn bool
	taught   bool // asked for a lesson
	learned  bool
	failOwn  bool
	failFree bool
	driven   bool // since it was last unmasked

	feeding
	gate    Reason
	outside Reason // what the script has closed
	visited bool
	took    int
	seen    uint64 // rounds since it was added
	gone    uint64 // packets taken
}

// must fails the test unless ok. It costs nothing when ok, unlike require.
func (w *world) must(ok bool, format string, args ...any) {
	if !ok {
		w.t.Helper()
		w.t.Fatalf(format, args...)
	}
}

// arrive brings packets to the device, and on to the ring unless receive work
// is masked.
func (p *port) arrive(n int) {
	p.device += n
	if !p.masked {
		p.softirq(p.device)
	}
}

// softirq moves packets from the device through the door to the ring.
func (p *port) softirq(n int) {
	n = min(n, p.device)
	p.device -= n
	if p.gate != 0 {
		return // dropped at the door
	}
	in := min(n, p.credit)
	p.credit -= in
	p.ring += in
	if in < n {
		p.lose()
	}
}

// lose loses packets before the end of the next round.
func (p *port) lose() { p.losing, p.lostIn = true, p.seen+1 }

func (p *port) Receive(max int) (int, bool) {
	w := p.w
	w.must(p.gate == 0, "received through a gate closed by %v", p.gate)
	w.must(!p.visited, "visited twice in one round")
	w.must(max > 0, "asked for %d packets", max)
	if w.cfg.Share.Limit < 100 {
		w.must(!w.exhausted, "received after the share was used up")
	}
	want := p.room()
	w.must(max == want, "asked for %d packets, there is room for %d", max, want)
	p.receiving = true
	defer func() { p.receiving = false }()
	p.visited = true
	if p.masked {
		p.softirq(max)
	}
	if p.stuck {
		return 0, p.ring > 0
	}
	n := min(max, p.ring)
	p.ring -= n
	p.took = n
	p.gone += uint64(n)
	for range n {
		if e := p.target(); e != nil {
			e.push()
			p.notice(e)
		}
	}
	p.forget()
	return n, p.ring > 0 || p.masked && p.device > 0
}

func (p *port) SetGate(r Reason) {
	p.w.must(p.gate != r, "told of a change from %v to %v", p.gate, r)
	p.w.must(!p.receiving, "told of a gate inside Receive")
	p.gate = r
	p.changes++
	if r&Feedback == 0 {
		p.heldSince = -1
	}
}

func (p *port) Grant(n int) {
	p.w.must(n > 0, "granted %d", n)
	p.credit += n
	p.w.must(p.credit+p.ring <= p.window, "%d credits given, the window is %d", p.credit+p.ring, p.window)
}

const portWindow = 300

func (p *port) Learn() { p.taught = true }
func (p *port) Learned() bool {
	p.learned = p.learned || p.taught && p.canLearn
	return p.learned
}
func (p *port) Own() error {
	p.w.must(p.learned, "owned before it has learned")
	p.w.must(!p.away || p.w.cfg.Mode == Poll, "owned what does not compete")
	if p.failOwn {
		return errFake
	}
	p.masked, p.driven = true, false
	return nil
}
func (p *port) Losing() bool {
	lost := p.losing
	p.losing = false
	return lost
}

func (p *port) Competes() bool {
	r := p.w.s.receiver(p.id)
	p.asked++
	p.w.must(p.asked == 1, "asked %d times in one round", p.asked)
	p.w.must(p.w.cfg.Mode == Hybrid, "asked in mode %v", p.w.cfg.Mode)
	p.w.must(r.state != StateInterrupt || r.backlog >= p.w.cfg.Own.Backlog || p.took > 0 && p.lostIn == p.seen, "asked without backlog or loss")
	p.w.must(r.state != StateReleasing, "asked while releasing")
	return !p.away
}
func (p *port) Drive() bool {
	p.driven = true
	n := p.device
	p.softirq(n)
	return n > 0
}
func (p *port) Release() error {
	if p.failFree {
		return errFake
	}
	p.masked, p.driven = false, false
	return nil
}

// exit is an egress: queue and transmitter.
type exit struct {
	w         *world
	id        QueueID
	out       TransmitterID
	n         int
	rate      int
	selective bool
	pending   bool
	high      int
	spare     int
	drops     int
	sent      uint64
}

func (e *exit) push() {
	if e.n < e.high+e.spare {
		e.n++
	} else {
		e.drops++
	}
}

func (e *exit) Len() int { return e.n }
func (e *exit) Transmit(int) (int, bool) {
	for _, p := range e.w.ports {
		e.w.must(!p.visited, "receive before transmit")
	}
	n := min(e.n, e.rate)
	e.n -= n
	e.sent += uint64(n)
	return n, e.n > 0
}
func (e *exit) Kick() bool { return e.pending }

func newWorld(t *testing.T, mode Mode, ports, exits int, selective byte, limit float64, strict bool, pause time.Duration) *world {
	c := Default()
	c.Mode = mode
	c.Quota = 16
	c.Share = Share{Limit: limit, Period: ms, Strict: strict}
	c.Own.Pause = pause
	c.Own.HoldOff, c.Own.HoldOffMax = ms, 4*ms
	c.Own.LearnTimeout, c.Own.LearnTries = ms/2, 2
	w := &world{t: t, cfg: c}
	var err error
	w.s, err = New(c)
	require.NoError(t, err)
	for i := range exits {
		w.addExit(selective>>i&1 != 0)
	}
	for i := range ports {
		w.addPort(i%3 != 2)
	}
	return w
}

func (w *world) addPort(owner bool) {
	p := &port{w: w, canLearn: len(w.ports)%2 == 0, owner: owner, window: portWindow}
	rc := ReceiverConfig{Quota: Common, Window: portWindow}
	if owner {
		rc.Owner = p
	}
	var err error
	p.init(len(w.ports)%4 != 3)
	p.id, err = w.s.AddReceiver("port", p.source(), rc)
	require.NoError(w.t, err)
	w.ports = append(w.ports, p)
}

func (w *world) removePort(i int) {
	p := w.ports[i]
	if p.failFree {
		p.failFree = false
	}
	require.NoError(w.t, w.s.RemoveReceiver(p.id))
	w.ports = append(w.ports[:i:i], w.ports[i+1:]...)
}

// live runs the driver's loop for some virtual time. A wait is slept through to
// its end unless an event of an open source or a random wake cuts it short.
func (w *world) live(d time.Duration) {
	for end := w.now + int64(d); w.now < end; {
		next := w.round()
		switch next.Do {
		case Again:
		case Block:
			if !w.event() {
				w.now = min(max(next.UntilNS, w.now), max(end, w.now+1))
			}
			w.woke()
		case Sleep:
			w.now = min(max(next.UntilNS, w.now), max(end, w.now+1))
			w.woke()
			if w.idle {
				w.s.Idle(w.now)
				if w.exhausted && !w.cfg.Share.Strict {
					w.charged, w.exhausted = 0, false
				}
				w.check()
			}
		}
	}
}

// event tells whether a source the driver listens to has something.
func (w *world) event() bool {
	for _, p := range w.ports {
		if p.gate == 0 && p.ring > 0 {
			return true
		}
	}
	return false
}

func (w *world) woke() {
	w.s.Woke(w.now)
	w.period()
	w.check()
}

func (w *world) period() {
	if w.now >= w.periodEnd {
		w.periodEnd = w.now - w.now%int64(ms) + int64(ms)
		w.charged, w.exhausted = 0, false
	}
}

const roundNS = 5000

func (w *world) round() Next {
	for _, p := range w.ports {
		p.visited, p.took, p.asked = false, 0, 0
	}
	w.period()
	before := make([]Reason, 0, 8)
	for _, p := range w.ports {
		before = append(before, p.gate)
	}
	w.s.Round(w.now)

	progress := false
	for i, p := range w.ports {
		p.seen++
		// No open source waits longer than a round: it was visited, or it
		// is closed now because what it feeds was full at its turn.
		if p.gate == 0 {
			w.must(p.visited, "open and not visited")
		} else if !p.visited {
			w.must(before[i] != 0 || p.gate&Feedback != 0, "closed by %v without its turn", p.gate)
		}
		progress = progress || p.took > 0
		p.visited = false
	}
	sent := w.s.done
	progress = progress || sent > 0
	w.now += roundNS
	losers := w.losers()
	next := w.s.Settle(w.now, roundNS)
	for _, p := range losers {
		r := w.s.receiver(p.id)
		w.must(r.state != StateInterrupt || p.failOwn && r.holdTill > w.now, "loses packets, and is not owned for it")
	}
	w.settles++
	w.period()
	w.charged += roundNS
	if limit := int64(float64(ms) * w.cfg.Share.Limit / 100); w.cfg.Share.Limit < 100 && w.charged > limit {
		w.exhausted = true
	}
	w.must(w.charged == w.s.share.used, "%d ns charged, %d counted", w.charged, w.s.share.used)
	w.check()
	w.checkNext(next, progress)
	return next
}

// losers are the sources whose losses are reason enough to own them now.
func (w *world) losers() (ps []*port) {
	for _, p := range w.ports {
		r := w.s.receiver(p.id)
		if w.cfg.Mode == Hybrid && p.owner && r.state == StateInterrupt && p.took > 0 && p.lostIn == p.seen &&
			p.outside == 0 && !p.away && w.now >= r.holdTill && p.losing {
			ps = append(ps, p)
		}
	}
	return ps
}

// pauses tells whether a worker that owns waits between looks that find nothing.
func (w *world) pauses() bool {
	if w.cfg.Own.Pause == 0 {
		return false
	}
	for _, r := range w.s.receivers {
		if r.state != StateOwned {
			return true
		}
	}
	return w.cfg.Mode != Poll
}

// spins tells whether this is the one case in which rounds without progress may
// follow each other without end, and must.
func (w *world) spins() bool {
	for _, p := range w.ports {
		if p.owner {
			return false
		}
	}
	return w.cfg.Mode == Poll && !w.exhausted
}

// checkNext are the invariants of what Settle answers.
func (w *world) checkNext(next Next, progress bool) {
	owned, releasing := false, false
	for _, r := range w.s.receivers {
		owned = owned || r.state == StateOwned && r.gate.closed == 0
		releasing = releasing || r.state == StateReleasing
	}
	if next.Do == Again {
		if progress || owned && !w.pauses() || releasing {
			w.fruitless = 0
		} else {
			w.fruitless++
		}
		if w.spins() {
			w.fruitless = 0
		}
		w.must(w.fruitless <= 1, "spins without a handle")
		return
	}
	w.fruitless = 0
	w.must(!w.spins(), "waits in mode poll with no owner")
	w.must(next.UntilNS > w.now, "a wait until %d at %d", next.UntilNS, w.now)
	more := false
	for _, r := range w.s.receivers {
		more = more || r.more && r.gate.closed == 0
	}
	for _, p := range w.ports {
		if p.gate != 0 {
			continue
		}
		switch {
		case p.masked && more:
			w.must(next.Do == Sleep && next.UntilNS <= w.now+int64(w.cfg.Retry), "%v until %d at %d while a source is masked and another cannot be served", next.Do, next.UntilNS, w.now)
		case p.masked:
			w.must(w.pauses() && !progress, "waits while a source is masked")
			w.must(next.Do == Block && next.UntilNS <= w.now+int64(w.cfg.Own.Pause), "%v until %d at %d while a source is masked", next.Do, next.UntilNS, w.now)
		default:
			w.must(p.device == 0, "waits with %d packets unseen in the device", p.device)
		}
		if p.ring > 0 {
			w.must(next.Do == Sleep, "listens to a source that cannot be served")
			w.must(p.stuck, "waits with packets in a ring")
			w.must(next.UntilNS < math.MaxInt64, "sleeps for ever with packets in a ring")
		}
	}
	for _, q := range w.s.queues {
		if q.closed {
			w.must(next.UntilNS <= q.deadline, "waits until %d, past a timeout at %d", next.UntilNS, q.deadline)
		}
	}
	if w.s.share.exhausted {
		w.must(next.UntilNS <= w.s.share.end, "sleeps until %d, the period ends at %d", next.UntilNS, w.s.share.end)
	}
}

// check are the invariants that hold after every call.
func (w *world) check() {
	for i, q := range w.s.queues {
		if q.closed {
			w.must(w.egress[i].n > q.low, "a queue closed with %d packets, low mark %d", w.egress[i].n, q.low)
			w.must(w.now < q.deadline, "a queue closed at %d, timeout at %d", w.now, q.deadline)
		}
	}
	for _, p := range w.ports {
		r := w.s.receiver(p.id)
		want := p.outside
		if p.checkFeeds() {
			want |= Feedback
		}
		if w.s.share.exhausted {
			want |= CPUShare
		}
		w.must(want == r.gate.closed, "a gate must be closed by %v and no other, is by %v", want, r.gate.closed)
		w.must(want == p.gate, "a source must know that it is closed by %v, was told %v", want, p.gate)
		w.must(p.masked == (r.state == StateOwned), "masked %v in state %v", p.masked, r.state)
		if r.state == StateReleasing {
			w.must(p.driven, "released and not driven once more")
		}
	}
	w.checkCounters()
}

func (w *world) checkCounters() {
	c := w.s.Counters()
	w.must(w.settles == c.NextAgain+c.NextBlock+c.NextSleep, "answers of %d calls of Settle: %+v", w.settles, *c)
	w.must(c.ClockBackwards == 0, "clock backwards %d times", c.ClockBackwards)
	for _, p := range w.ports {
		r := w.s.receiver(p.id)
		var turns uint64
		for _, n := range r.c.Turns {
			turns += n
		}
		w.must(p.seen == turns, "%d rounds, %d turns", p.seen, turns)
		w.must(p.gone == r.c.Received, "%d packets taken, %d counted", p.gone, r.c.Received)
		w.must(r.c.OverLimit == 0, "over its limit %d times", r.c.OverLimit)
		for i := range NumReasons {
			closed := one(r.gate.closed&(1<<i) != 0)
			w.must(closed == r.c.GateClosed[i]-r.c.GateOpened[i], "closed and opened for %v: %+v", Reason(1)<<i, r.c)
		}
		w.checkMoves(r.state, &r.c.Moves)
	}
	for _, q := range w.s.queues {
		w.must(one(q.closed) == q.c.Closed-q.c.OpenedLow-q.c.TimedOutSlow-q.c.TimedOutStuck-q.c.Removed, "closures and their ends: %+v", q.c)
		w.must(q.c.ClosedNS <= q.c.Closed*uint64(ms+2*roundNS), "closed for longer than its timeout: %+v", q.c)
	}
	sent := w.left
	for _, e := range w.egress {
		sent += e.sent
	}
	w.must(sent == c.Delivered, "%d packets sent, %d counted", sent, c.Delivered)
}

// checkMoves: who entered a state and has not left it is in it.
func (w *world) checkMoves(state OwnState, m *[NumMoves]uint64) {
	learning := m[MoveLearnStarted] -
		m[MoveLearnedOwned] - m[MoveLearnedRefused] - m[MoveLearnedElsewhere] - m[MoveLearnTimedOut] - m[MoveLearnAbandoned] - m[MoveLostLearning]
	owned := m[MoveOwnedKnown] + m[MoveLearnedOwned] -
		m[MoveReleasedDrained] - m[MoveReleasedGate] - m[MoveReleasedElsewhere] - m[MoveReleasedCalm] - m[MoveLostOwned]
	releasing := m[MoveReleasedDrained] + m[MoveReleasedGate] + m[MoveReleasedElsewhere] + m[MoveReleasedCalm] -
		m[MoveRestedEmpty] - m[MoveRestedWork] - m[MoveLostReleasing]
	w.must(learning == one(state == StateLearning), "learning %d in state %v", learning, state)
	w.must(owned == one(state == StateOwned), "owned %d in state %v", owned, state)
	w.must(releasing == one(state == StateReleasing), "releasing %d in state %v", releasing, state)
}

func one(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// play runs a script: two bytes are one event and the time that passes after.
func play(t *testing.T, script []byte) *world {
	if len(script) < 3 {
		return nil
	}
	mode := Mode(script[0] % 3)
	limit := []float64{100, 100, 50, 10, 90}[script[1]%5]
	pause := []time.Duration{50 * us, 20 * us, ms, 0}[script[1]/5%4]
	w := newWorld(t, mode, 1+int(script[2]%4), int(script[2]/4%4), script[2]>>4, limit, script[2]&0x80 != 0, pause)
	for script = script[3:]; len(script) >= 2; script = script[2:] {
		what, arg := script[0], script[1]
		var p *port
		if len(w.ports) > 0 {
			p = w.ports[int(arg)%len(w.ports)]
		}
		var e *exit
		if len(w.egress) > 0 {
			e = w.egress[int(arg)%len(w.egress)]
		}
		switch what % 22 {
		case 0, 1, 2:
			if p != nil {
				p.arrive(1 + int(arg))
			}
		case 3:
			for _, p := range w.ports {
				p.arrive(int(arg))
			}
		case 4:
			if p != nil {
				p.stuck = !p.stuck
			}
		case 5:
			if e != nil {
				e.rate = int(arg % 32)
			}
		case 6:
			if e != nil {
				e.rate = 0
			}
		case 7:
			if e != nil {
				e.pending = !e.pending
			}
		case 8, 9:
			if p != nil {
				why := []Reason{Screen, EgressDown, Admin}[arg%3]
				if p.outside&why == 0 {
					require.NoError(t, w.s.Close(p.id, why))
					p.outside |= why
				} else {
					require.NoError(t, w.s.Open(p.id, why))
					p.outside &^= why
				}
			}
		case 10:
			if p != nil {
				p.canLearn, p.failOwn, p.failFree = arg&1 != 0, arg&2 != 0, arg&4 != 0
			}
		case 11:
			if p != nil {
				if arg&0x80 != 0 && p.masked && p.outside&Screen == 0 { // while it is being released
					require.NoError(t, w.s.Close(p.id, Screen))
					p.outside |= Screen
					w.round()
				}
				p.masked, p.taught, p.learned = false, false, false
				p.softirq(p.device)
				require.NoError(t, w.s.Lost(p.id))
			}
		case 12:
			if len(w.ports) < 8 {
				w.addPort(arg&1 != 0)
			}
		case 13:
			if p != nil {
				w.removePort(int(arg) % len(w.ports))
			}
		case 14:
			w.idle = !w.idle
		case 15:
			w.live(time.Duration(arg) * 100 * us)
		case 16:
			if p != nil {
				p.away = arg&0x40 != 0
				p.canLearn = p.canLearn || arg&0x80 != 0 // the lesson comes when all has changed
			}
		case 17:
			if p != nil {
				p.window = []int{0, 1, 50, portWindow, 2 * portWindow}[arg%5]
				require.NoError(t, w.s.SetWindow(p.id, p.window))
			}
		case 18:
			if p != nil {
				p.lose() // refused for want of frames
			}
		case 19:
			if p != nil {
				p.sends = arg >> 3 // from now on its packets are for others
			}
		case 20:
			if p != nil && e != nil {
				p.setFeeds(e, arg&0x40 != 0)
			}
		case 21:
			if e != nil && arg&0x80 != 0 {
				w.removeExit(int(arg) % len(w.egress))
			} else if len(w.egress) < 4 {
				w.addExit(arg&1 != 0)
			}
		}
		w.check()
		w.live(time.Duration(arg%8) * 10 * us)
	}
	w.live(20 * ms)
	return w
}
