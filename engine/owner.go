package engine

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/napi"
	"weir/poller"
	"weir/queues"
	"weir/xdpprog"
)

const (
	// flushTimeout is how long the kernel leaves an owned NAPI to a worker that does not come; then it polls by itself. It must exceed the
	// worker's longest sleep with the NAPI masked (a period of the CPU share, or RetryMax of the poller), or receive work is lost to the
	// timer. After a kill -9 it is the longest a packet may wait in a device that nobody polls.
	flushTimeout = 20 * time.Millisecond
	// deferHardIRQs is how many polls in a row may find nothing before the kernel unmasks. One is enough: each poll of ours sets it anew.
	deferHardIRQs = 1
	// maxLessons is how many lessons may come to nothing, one hold-off of the poller's included, before the next means is tried.
	maxLessons = 5
	// lookAt is how many frames it takes to tell where receive work runs.
	lookAt = 64
	// lessonHead is how many bytes of a frame the door keeps for us while the rest comes back as a datagram.
	lessonHead = 42
	// Budgets of one poll: less than minBudget is all system call and no work; maxBudget is twice what drivers are used to.
	minBudget, maxBudget = 4, 128
)

// handle drives one NAPI from the calling thread: a napi.Socket or a napi.Uring.
type handle interface {
	Drive() error
	SetPrefer(on bool) error
	Close() error
}

// lessonSocket is a handle that learns its NAPI from a lesson; a napi.Socket.
type lessonSocket interface {
	handle
	Port() uint16
	FD() int
	ReadLesson(buf []byte) (n int, ok bool, err error)
	SetBudget(packets int) (granted int, err error)
}

// masker sets how long a NAPI stays masked; a napi.Client.
type masker interface {
	SetMasking(id int, deferHardIRQs uint32, groFlush time.Duration) error
}

// owner is the receive work of one source and the means to run it on the worker's thread only:
//
//	Learn, Learned   the door sends a packet back to us as a datagram, and its socket knows the NAPI from then on
//	Own              mask: defer + flush timeout long, prefer on
//	drive            one call polls the NAPI, at most twice the budget
//	Release          unmask: what was there before, prefer off; the poller then drives once more
//
// The worker's thread runs it. The guard (guard.go) may step in from another while the worker does not get the CPU; mu is between the two
// and is taken at own and release, never per turn.
type owner struct {
	source *source
	masker masker
	asked  Ownership
	cpu    int
	flush  time.Duration

	mu      sync.Mutex
	means   Ownership    // in force or tried next: socket, io_uring; kthread or off when the worker cannot drive
	sock    lessonSocket // the handle of means socket
	handle  handle       // sock or a *napi.Uring; nil when there is none
	napi    napi.NAPI    // as the guard saw it last; ID 0 is unknown
	before  napi.Settings
	seen    napi.Settings // at the guard's last look
	thread  kernelThread  // likewise
	learned bool
	owned   bool
	rescued bool // the guard has masked it for a worker that was starved

	lessons int    // calls of Learn since receive work was last owned
	asking  bool   // a lesson was asked for that is not back
	late    bool   // it was given, and looked for in vain once
	back    uint64 // lessons given when it was asked for
	why     error  // the means before this one was given up
	kept    error  // what close could not put back
	budget  int    // of the handle; 0 is not set yet
	lastErr error

	// Where receive work runs while nobody owns it, from the door's counters.
	markAll, markHere uint64
	here              bool
	// moves counts owns and releases, so that the guard can tell that what it reads is changing.
	moves atomic.Uint64
	// away is set by the guard, on the worker's thread: what it sees of the NAPI's thread, or a look at where receive work would run.
	away bool

	count ownerCounters
}

// ownerCounters are written by the worker's thread and by the guard.
type ownerCounters struct {
	driven, failed, rescued, retaken, voided atomic.Uint64
}

func newOwner(s *source, asked Ownership, share poller.Share) *owner {
	o := &owner{source: s, asked: asked, cpu: s.worker.cpu, means: asked, flush: max(flushTimeout, 2*share.Period)}
	if asked == OwnershipAuto {
		o.means = OwnershipSocket
	}
	return o
}

// Learn asks the door for a lesson, or takes the means that needs none.
func (o *owner) Learn() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.napi.ID == 0 {
		return // there is nothing to own, or not any more
	}
	if o.means == OwnershipSocket && o.lessons >= maxLessons {
		o.next(errNoLesson)
	}
	o.lessons++
	switch {
	case o.means == OwnershipSocket && o.sock != nil:
		o.ask()
	case o.means == OwnershipUring && o.napi.ID > 0 && !o.learned:
		ring, err := napi.OpenUring(o.napi.ID)
		if err != nil {
			_ = o.fail(err)
			o.next(err)
			return
		}
		if err := o.closeRing(); err != nil {
			_ = o.fail(err)
		}
		o.handle, o.learned, o.budget = ring, true, 0
	}
}

// errNoLesson says why the next means was taken.
var errNoLesson = fmt.Errorf("%d lessons came to nothing", maxLessons)

// next gives a means up for the one after it, if the choice is ours. On the worker's thread, under mu; the guard says so.
func (o *owner) next(why error) {
	if o.asked != OwnershipAuto || o.means == OwnershipKthread {
		return
	}
	o.means++ // they are in order
	o.why, o.learned, o.lessons = why, false, 0
}

// giveUpSocket is for a handle socket that could not be opened; on the worker's thread.
func (o *owner) giveUpSocket(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.fail(why)
	if o.means == OwnershipSocket {
		o.next(why)
	}
}

// ask sees to it that a lesson is on its way; under mu. What the door keeps of a lesson's packet is of the last one: the next may only be
// asked for when that is back. One that does not come is given up at the second call.
func (o *owner) ask() {
	given := o.given()
	switch {
	case o.asking && given == o.back: // nothing to make a lesson of has come
		return
	case o.asking && !o.late:
		o.late = true
		return
	}
	o.back, o.asking, o.late = given, true, false
	o.source.door.Teach(o.sock.Port())
}

// onTheWay says whether a lesson was given that is not back; under mu.
func (o *owner) onTheWay() bool { return o.asking && o.given() != o.back }

// given is how many lessons the door has made.
func (o *owner) given() uint64 {
	var c xdpprog.Counters
	o.source.door.Counters(&c)
	return c.Lessons
}

// Learned takes a lesson that has come back: its packet goes the way of all packets, and the socket knows the NAPI.
func (o *owner) Learned() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.learned || o.sock == nil || o.means != OwnershipSocket {
		return o.learned
	}
	s := o.source
	addr, ok := s.umem.Alloc()
	if !ok {
		return false // the lesson waits in its socket
	}
	d := queues.Desc{Addr: addr, Len: uint32(s.maxFrame)}
	n, ok, err := o.sock.ReadLesson(s.umem.Data(d)[lessonHead:])
	if !ok {
		s.umem.Free(addr)
		if err != nil {
			_ = o.fail(err)
		}
		return false
	}
	o.asking = false
	head := s.door.LessonHead()
	copy(s.umem.Data(d), head[:])
	d.Len = uint32(lessonHead + n)
	s.forwardLesson(d)
	if err != nil {
		_ = o.fail(err)
		return false
	}
	o.taught()
	return true
}

// taught takes a socket that knows the NAPI as the handle; under mu.
func (o *owner) taught() { o.handle, o.learned, o.budget = o.sock, true, 0 }

// Own masks the NAPI.
func (o *owner) Own() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.mask(o.masker); err != nil {
		if !errors.Is(err, napi.ErrGone) {
			o.next(err)
		}
		return err
	}
	o.owned, o.rescued, o.lessons = true, false, 0
	o.moves.Add(1)
	return nil
}

// mask makes the next poll of the handle leave the NAPI masked; under mu, by the worker or the guard, each with a masker of its own.
func (o *owner) mask(m masker) error {
	if o.handle == nil || m == nil || o.napi.ID == 0 {
		return o.fail(errNoHandle)
	}
	if err := m.SetMasking(o.napi.ID, deferHardIRQs, o.flush); err != nil {
		o.learned = false
		return o.fail(err)
	}
	if err := o.handle.SetPrefer(true); err != nil {
		return o.fail(errors.Join(err, o.unmask(m)))
	}
	return nil
}

// unmask puts back what was there before; the poll that must follow is the caller's.
func (o *owner) unmask(m masker) error {
	return errors.Join(o.handle.SetPrefer(false), m.SetMasking(o.napi.ID, o.before.DeferHardIRQs, o.before.GROFlush))
}

// errNoHandle says that the NAPI vanished between two looks.
var errNoHandle = errors.New("own receive work: the NAPI is not known any more")

// Drive polls the NAPI once. The worker learns from its ring what that brought.
func (o *owner) Drive() bool {
	o.source.door.SetDriving(true)
	err := o.handle.Drive()
	o.source.door.SetDriving(false)
	o.count.driven.Add(1)
	if err != nil {
		o.mu.Lock()
		_ = o.fail(err) // the guard sees that nothing is driven, and starts again
		o.mu.Unlock()
	}
	return o.source.sock.Pending() > 0
}

// drive polls the NAPI for a turn of at most limit packets.
func (o *owner) drive(limit int) {
	if o.means == OwnershipSocket {
		if budget := budgetFor(limit); budget != o.budget {
			o.setBudget(budget)
		}
	}
	o.Drive()
}

// setBudget asks for another budget; refused, the one in force stays, and is not asked for again.
func (o *owner) setBudget(budget int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.budget = budget
	if granted, err := o.sock.SetBudget(budget); err != nil {
		_ = o.fail(err)
	} else if granted != budget {
		_ = o.fail(fmt.Errorf("busy poll budget: asked %d, granted %d", budget, granted))
	}
}

// budgetFor is half a turn, because one call polls twice, in powers of two, so that a limit that moves with every turn does not cost a
// system call each time.
func budgetFor(limit int) int {
	budget := minBudget
	for budget < maxBudget && 2*budget < limit {
		budget *= 2
	}
	return budget
}

// Release unmasks.
func (o *owner) Release() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.look()
	if err := o.giveBack(o.masker); err != nil {
		return o.fail(err)
	}
	return nil
}

// giveBack unmasks and polls, so that the kernel sees what came while it was masked; under mu.
func (o *owner) giveBack(m masker) error {
	err := o.unmask(m)
	if err == nil {
		// A pending signal, as Go's preemption sends them, keeps a call from polling: the scheduler drives once more after this, so both
		// would have to meet one.
		err = o.handle.Drive()
	}
	if err != nil {
		return err
	}
	o.owned, o.rescued = false, false
	o.moves.Add(1)
	return nil
}

// Losing says whether packets were refused for want of a frame since it was asked last.
func (o *owner) Losing() bool {
	losing := o.source.losing
	o.source.losing = false
	return losing
}

// Competes says whether receive work that nobody owns runs on the worker's CPU. Owned, the guard knows whether it still would.
func (o *owner) Competes() bool {
	switch {
	case o.means == OwnershipKthread || o.means == OwnershipOff:
		return false
	case o.owned:
		return !o.away
	case o.away:
		o.away = false
		o.look()
	}
	all, here, _ := o.source.door.Seen()
	if n := all - o.markAll; n >= lookAt {
		o.here = 2*(here-o.markHere) >= n
		o.markAll, o.markHere = all, here
	}
	return o.here
}

// look begins to look where receive work runs.
func (o *owner) look() {
	o.markAll, o.markHere, _ = o.source.door.Seen()
	o.here = false
}

// fail keeps the last error for the statistics and returns it; under mu.
func (o *owner) fail(err error) error {
	o.count.failed.Add(1)
	o.lastErr = err
	return err
}

// replace takes another handle socket, nil for none, and what the guard now knows of the NAPI; on the worker's thread. What was owned is
// not any more.
func (o *owner) replace(sock lessonSocket, n napi.NAPI) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.closeHandle()
	o.sock, o.napi, o.before = sock, n, n.Settings
	o.forget()
	return err
}

// forget begins anew: nothing is known nor owned.
func (o *owner) forget() {
	o.learned, o.owned, o.rescued, o.asking, o.late, o.lessons, o.budget = false, false, false, false, false, 0, 0
}

// void is for a NAPI that has gone, and none in its place.
func (o *owner) void() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.napi = napi.NAPI{}
	o.forget()
}

func (o *owner) closeHandle() error {
	err := o.closeRing()
	if o.sock != nil {
		err = errors.Join(err, o.sock.Close())
	}
	o.handle, o.sock = nil, nil
	return err
}

// closeRing closes a handle that is not the socket.
func (o *owner) closeRing() error {
	if o.handle == nil || o.handle == o.sock {
		return nil
	}
	return o.handle.Close()
}

// close gives the receive work back; after the worker has ended, or on its thread. Nothing is learned after it.
func (o *owner) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	if (o.owned || o.rescued) && o.handle != nil {
		err = errors.Join(o.giveBack(o.masker), o.handle.Drive())
		if errors.Is(err, napi.ErrGone) {
			err = nil // it has taken our settings with it
		}
		o.kept = err
	}
	o.napi = napi.NAPI{}
	o.forget()
	return errors.Join(err, o.closeHandle())
}
