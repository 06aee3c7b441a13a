package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"weir/poller"
)

// driver is what the scheduler does not know of: the thread, the clock, the sleep, and the calls that other goroutines want made
// between two rounds.
type driver struct {
	start time.Time
	wake  int // eventfd: ends a block
	fds   []unix.PollFd
	calls chan func()
	// called counts calls not yet run, so that a round without one costs one load.
	called atomic.Int32
	stop   bool // set by a call
	// running says that the worker's thread was started; set before it, by the goroutine that starts and ends it.
	running bool
	done    chan struct{}
	// failed receives at most one error: the reason why the worker ended by itself.
	failed chan error
	cpu    int64 // the thread's CPU time when last asked
	// charged is the CPU time charged since then, nextCharge when it is asked again.
	charged, nextCharge int64
	idleNS              atomic.Int64
	tid                 atomic.Int64 // of the thread
	// sharedNS is the time asleep because the CPU share was used up; free, set by the guard, says that the share is not enforced now.
	sharedNS atomic.Int64
	free     atomic.Bool
	// softIRQNS is the CPU's time in softirq as the guard read it last.
	softIRQNS atomic.Int64
	// beat counts rounds and ends of blocks; standing still while packets wait means that the worker is stuck.
	beat atomic.Uint64
}

func (d *driver) init() error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("create eventfd for a worker: %w", err)
	}
	d.start, d.wake = time.Now(), fd
	d.calls, d.done, d.failed = make(chan func(), 16), make(chan struct{}), make(chan error, 1)
	d.fds = []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	return nil
}

// watch adds a socket whose packets end a block, and returns its slot in the poll set; before the worker runs, or from a call.
func (d *driver) watch(fd int) (slot int) {
	d.fds = append(d.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	return len(d.fds) - 1
}

// listen says whether the socket in a slot may end a block. poll passes over negative descriptors.
func (d *driver) listen(slot int, on bool) {
	if on != (d.fds[slot].Fd >= 0) {
		d.fds[slot].Fd = ^d.fds[slot].Fd
	}
}

// end stops the worker after its current round and waits for it, at most callTimeout; false when it is still there then. Nothing to do
// for one that never ran.
func (d *driver) end() bool {
	if !d.running {
		return true
	}
	timeout := time.After(callTimeout)
	d.post(func() { d.stop = true }, timeout)
	select {
	case <-d.done:
		return true
	case <-timeout:
		return false
	}
}

// close releases what init took, after end.
func (d *driver) close() error {
	if d.wake < 0 {
		return nil
	}
	err := unix.Close(d.wake)
	d.wake = -1
	return err
}

// now is monotonic nanoseconds.
func (d *driver) now() int64 { return int64(time.Since(d.start)) }

// run is the worker's thread: rounds while there is work, ppoll when there is none. It returns when a call has set stop. The thread
// is not given back to the Go scheduler, since its affinity is ours.
func (w *worker) run(pinned chan<- error) {
	d := &w.driver
	defer close(d.done)
	runtime.LockOSThread()
	d.tid.Store(int64(unix.Gettid()))
	var set unix.CPUSet
	set.Set(w.cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		pinned <- fmt.Errorf("pin worker %d to CPU %d: %w: choose a CPU of this process's cpuset with workers:", w.id, w.cpu, err)
		return
	}
	// Waits of 50 µs are meant as such; by default the kernel may make them twice as long.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, w.nice); err != nil {
		pinned <- fmt.Errorf("set nice %d of worker %d: %w: needs CAP_SYS_NICE; set poller.nice 0", w.nice, w.id, err)
		return
	}
	pinned <- nil
	d.used() // what the thread did before it was the worker's
	for {
		begin := d.now()
		w.sched.Round(begin)
		end := d.now()
		next := w.sched.Settle(end, w.charge(begin, end))
		w.publish()
		d.beat.Add(1)
		if err := w.broken(); err != nil {
			d.failed <- err
			return
		}
		d.runCalls()
		if d.stop {
			return
		}
		var err error
		switch next.Do {
		case poller.Block:
			err = d.block(next.UntilNS)
			w.sched.Woke(d.now())
		case poller.Sleep:
			err = w.rest(next.UntilNS)
		}
		if err != nil {
			d.failed <- fmt.Errorf("worker %d on CPU %d: %w", w.id, w.cpu, err)
			return
		}
	}
}

// maxBlock bounds a sleep. Every event worth waking for wakes the worker by itself but one: credits that the door lost while it slept
// are found by the next turn, and this is how long that may take.
const maxBlock = int64(250 * time.Millisecond)

// block waits until a packet arrives, another goroutine calls, or untilNS, at most maxBlock.
func (d *driver) block(untilNS int64) error {
	begin := d.now()
	timeout := unix.NsecToTimespec(min(max(0, untilNS-begin), maxBlock))
	n, err := unix.Ppoll(d.fds, &timeout, nil)
	if err == nil && n > 0 {
		d.clearWake()
	}
	d.idleNS.Add(d.now() - begin)
	// EINTR is Go's preemption signal; the next round finds nothing and blocks again.
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("ppoll on %d sockets: %w", len(d.fds)-1, err)
	}
	return nil
}

// sleep waits until untilNS whatever arrives, except a call.
func (d *driver) sleep(untilNS int64) error {
	all := d.fds
	d.fds = all[:1]
	err := d.block(untilNS)
	d.fds = all
	return err
}

// rest sleeps until untilNS, or not at all for a share that is used up and not enforced now. Kernel threads that receive for the worker
// rest with it.
func (w *worker) rest(untilNS int64) error {
	d := &w.driver
	begin := d.now()
	share := w.sched.ShareExhausted()
	if share && d.free.Load() {
		w.sched.Idle(begin)
		return nil
	}
	if share {
		w.threads.demote()
		defer w.threads.promote()
	}
	err := d.sleep(untilNS)
	end := d.now()
	if share {
		d.sharedNS.Add(end - begin)
	}
	w.sched.Woke(end)
	return err
}

// clearWake empties the eventfd, and stops listening to a socket that reports an error: its device is gone, and it would end every block
// at once from now on. The engine learns of the device from the kernel's tables.
func (d *driver) clearWake() {
	if d.fds[0].Revents&unix.POLLIN != 0 {
		var count [8]byte
		_, _ = unix.Read(d.wake, count[:]) // EAGAIN only if somebody else read it; nobody does
	}
	for i := range d.fds[1:] {
		if d.fds[i+1].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 {
			d.listen(i+1, false)
		}
	}
}

func (d *driver) runCalls() {
	for d.called.Load() > 0 {
		(<-d.calls)()
		d.called.Add(-1)
	}
}

// callTimeout is how long a worker may take to come to the end of a round before it counts as stuck. Rounds take microseconds to a few
// milliseconds.
const callTimeout = time.Second

// call runs f on the worker's thread between two rounds and returns true when it is done; false when the worker has ended, or does not
// come to the end of a round within callTimeout: then f never runs. Any goroutine but the worker's own.
func (d *driver) call(f func()) bool {
	var taken atomic.Bool // by whoever comes first: the worker to run f, or the caller to give it up
	timeout := time.After(callTimeout)
	ran := d.post(func() {
		if taken.CompareAndSwap(false, true) {
			f()
		}
	}, timeout)
	if ran == nil {
		return false
	}
	select {
	case <-ran:
		return true
	case <-d.done:
		return false
	case <-timeout:
		if taken.CompareAndSwap(false, true) {
			return false
		}
		<-ran // f has begun
		return true
	}
}

// post hands f to the worker and returns a channel that is closed when it has run, or nil when the worker has ended. It waits only while
// many calls are waiting already, at most until giveUp, and then returns nil too.
func (d *driver) post(f func(), giveUp <-chan time.Time) <-chan struct{} {
	ran := make(chan struct{})
	select {
	case d.calls <- func() { f(); close(ran) }:
	case <-d.done:
		return nil
	case <-giveUp:
		return nil
	}
	d.called.Add(1)
	one := [8]byte{1}
	_, _ = unix.Write(d.wake, one[:]) // fails only when the count would overflow, and then the wake-up is already due
	return ran
}

// chargeEvery is how often CPU times are read: a tenth of the usual period. A reading is a system call.
const chargeEvery = int64(time.Millisecond)

// charge is what a round is charged: the time it took, and once in chargeEvery the CPU time that this thread and the kernel threads that
// serve it have really used, in place of what was charged since. That may be less than nothing, if others had the CPU meanwhile.
func (w *worker) charge(begin, end int64) int64 {
	d := &w.driver
	took := end - begin
	d.charged += took
	if end < d.nextCharge {
		return took
	}
	real := d.used() + w.threads.used()
	took += real - d.charged
	d.charged, d.nextCharge = 0, end+chargeEvery
	return took
}

// used is the CPU time of this thread since the last call, in nanoseconds.
func (d *driver) used() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0 // cannot fail: the clock is the calling thread's own
	}
	now := ts.Nano()
	used := now - d.cpu
	d.cpu = now
	return used
}
