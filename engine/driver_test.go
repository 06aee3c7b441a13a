package engine

import (
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/poller"
)

// idleWorker returns a worker without ports whose thread is not started, and the CPU it may be pinned to.
func idleWorker(t *testing.T) *worker {
	t.Helper()
	cpus, err := usableCPUs()
	require.NoError(t, err)
	w := newWorker(0, cpus[len(cpus)-1], 0, &scriptedTable{})
	w.sched, err = poller.New(poller.Default())
	require.NoError(t, err)
	require.NoError(t, w.driver.init())
	t.Cleanup(func() {
		w.driver.end()
		require.NoError(t, w.driver.close())
		require.NoError(t, w.driver.close(), "twice is once")
	})
	return w
}

// start starts the worker's thread.
func start(t *testing.T, w *worker) {
	t.Helper()
	pinned := make(chan error, 1)
	w.driver.running = true
	go w.run(pinned)
	require.NoError(t, <-pinned)
}

func TestDriverPinsItsThread(t *testing.T) {
	w := idleWorker(t)
	start(t, w)
	var set unix.CPUSet
	require.True(t, w.driver.call(func() { require.NoError(t, unix.SchedGetaffinity(0, &set)) }))
	require.Equal(t, 1, set.Count())
	require.True(t, set.IsSet(w.cpu))

	require.NoError(t, unix.SchedGetaffinity(0, &set))
	cpus, err := usableCPUs()
	require.NoError(t, err)
	w.driver.end()
	require.Equal(t, len(cpus), set.Count(), "no other thread was pinned")
}

func TestDriverReportsACPUThatIsNot(t *testing.T) {
	w := idleWorker(t)
	w.cpu = 1023
	pinned := make(chan error, 1)
	w.driver.running = true
	go w.run(pinned)
	err := <-pinned
	require.ErrorIs(t, err, unix.EINVAL)
	require.ErrorContains(t, err, "pin worker 0 to CPU 1023: ")
	require.False(t, w.driver.call(func() { t.Error("called") }))
}

// A call ends a block at once: fifty that each waited for the block to end by itself would take five seconds.
func TestDriverCallsArePrompt(t *testing.T) {
	w := idleWorker(t)
	start(t, w)
	begin := time.Now()
	ran := 0
	for range 50 {
		require.True(t, w.driver.call(func() { ran++ }))
	}
	require.Equal(t, 50, ran)
	require.Less(t, time.Since(begin), 25*time.Duration(maxBlock))
}

func TestDriverCallsFromMany(t *testing.T) {
	w := idleWorker(t)
	start(t, w)
	total := 0 // of the worker's thread
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 200 {
				if !w.driver.call(func() { total++ }) {
					t.Error("the worker has ended")
				}
			}
		})
	}
	callers.Wait()
	require.True(t, w.driver.call(func() { require.Equal(t, 1600, total) }))
}

// A worker that hangs in a round makes a call fail and nobody hang, however many call. When it has come through, it answers again.
func TestDriverThatHangs(t *testing.T) {
	w := idleWorker(t)
	start(t, w)
	hang := make(chan struct{})
	hanging := w.driver.post(func() { <-hang }, nil)
	var callers sync.WaitGroup
	var ran atomic.Int64
	for range 40 {
		callers.Go(func() {
			if w.driver.call(func() { ran.Add(1) }) {
				t.Error("answered")
			}
		})
	}
	callers.Wait()
	require.Zero(t, ran.Load())
	close(hang)
	<-hanging
	require.True(t, w.driver.call(func() {}))
	require.Zero(t, ran.Load(), "what was given up does not run later")
}

// Whoever calls while the worker ends is told so, and is not left waiting.
func TestDriverEndsUnderCalls(t *testing.T) {
	for range 20 {
		w := idleWorker(t)
		start(t, w)
		var callers sync.WaitGroup
		var ran, refused atomic.Int64
		for range 4 {
			callers.Go(func() {
				for w.driver.call(func() { ran.Add(1) }) {
				}
				refused.Add(1)
			})
		}
		for ran.Load() < 20 {
			runtime.Gosched()
		}
		w.driver.end()
		callers.Wait()
		require.EqualValues(t, 4, refused.Load())
		require.False(t, w.driver.call(func() { t.Error("called") }))
		w.driver.end()
	}
}

func TestDriverThatNeverRan(t *testing.T) {
	w := idleWorker(t)
	w.driver.end()
	d := &driver{wake: -1}
	d.end()
	require.NoError(t, d.close())
}

// socket returns a descriptor that stands for a socket in a driver's poll set, and one that makes it readable.
func socket(t *testing.T, d *driver) (slot int, r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return d.watch(int(r.Fd())), r, w
}

func TestDriverBlock(t *testing.T) {
	d := &idleWorker(t).driver
	slot, _, wire := socket(t, d)
	// blocks reports whether a block lasts its time. A signal of Go's runtime may end one early, but hardly three in a row.
	blocks := func(until func() int64) bool {
		for range 3 {
			before := d.idleNS.Load()
			begin, end := d.now(), until()
			require.NoError(t, d.block(end))
			require.Greater(t, d.idleNS.Load(), before)
			if d.now()-begin >= min(end-begin, maxBlock) {
				return true
			}
		}
		return false
	}
	forever := func() int64 { return math.MaxInt64 }
	require.True(t, blocks(forever), "nothing happens: until the bound")
	require.True(t, blocks(func() int64 { return d.now() + 2_000_000 }), "nothing happens: until the time asked for")
	require.NoError(t, d.block(0), "a time that has passed is no wait")

	_, err := wire.Write([]byte{1})
	require.NoError(t, err)
	require.False(t, blocks(forever), "a packet ends it")
	require.False(t, blocks(forever), "and the next one, while the packet is there")
	d.listen(slot, false)
	require.True(t, blocks(forever), "the gate is closed: its packets do not")
	d.listen(slot, false)
	d.listen(slot, true)
	require.False(t, blocks(forever))
	d.listen(slot, true)
	require.False(t, blocks(forever))

	// Sleep does not look at sockets; a call ends it all the same.
	sleeps := func() bool {
		for range 3 {
			begin := d.now()
			require.NoError(t, d.sleep(begin+5_000_000))
			if d.now()-begin >= 5_000_000 {
				return true
			}
		}
		return false
	}
	require.True(t, sleeps())
	d.post(func() {}, nil)
	require.False(t, func() bool {
		begin := d.now()
		require.NoError(t, d.sleep(math.MaxInt64))
		return d.now()-begin >= maxBlock
	}())
	d.runCalls()
	d.listen(slot, false)
	require.True(t, blocks(forever), "the wake-up was taken")
	d.post(func() {}, nil)
	begin := d.now()
	require.NoError(t, d.block(math.MaxInt64))
	require.Less(t, d.now()-begin, maxBlock, "a call ends a block")
	d.runCalls()
}

// A socket whose device is gone reports an error for ever: it is not listened to any more, and the others are.
func TestDriverBlockWithABrokenSocket(t *testing.T) {
	d := &idleWorker(t).driver
	slotGone, _, gone := socket(t, d)
	slotWire, _, wire := socket(t, d)
	require.NoError(t, gone.Close())
	begin := d.now()
	require.NoError(t, d.block(math.MaxInt64))
	require.Less(t, d.now()-begin, maxBlock)
	require.Negative(t, d.fds[slotGone].Fd)
	_, err := wire.Write([]byte{1})
	require.NoError(t, err)
	begin = d.now()
	require.NoError(t, d.block(math.MaxInt64))
	require.Less(t, d.now()-begin, maxBlock)
	require.Positive(t, d.fds[slotWire].Fd)
	require.NotZero(t, d.fds[slotWire].Revents)
}

// What the thread used before it was a worker's is not charged to packets.
func TestDriverChargesOnlyItsOwnTime(t *testing.T) {
	d := &driver{}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for begin := time.Now(); time.Since(begin) < 5*time.Millisecond; {
	}
	d.used()
	require.Less(t, d.used(), int64(2*time.Millisecond))
	for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; {
	}
	require.Positive(t, d.used())
}

// A kick that nobody expects ends the worker, and says why.
func TestDriverFails(t *testing.T) {
	r := newRig(t, rigOptions{thread: true})
	r.rest()
	w := r.worker
	r.ports[portOut].wire.ScriptKicks(unix.EINVAL)
	in, _ := numbered(0, 1)
	require.Equal(t, 1, r.arrive(portIn, in...))
	start(t, w)
	require.ErrorIs(t, <-w.driver.failed, unix.EINVAL)
	<-w.driver.done
	require.False(t, w.driver.call(func() {}))
}

// The worker on its thread beside a wire that brings packets, takes them and completes them when it likes, and beside readers of what is
// published. Run it with -race.
func TestWorkerOnItsThread(t *testing.T) {
	for _, split := range []bool{false, true} {
		r := newRig(t, rigOptions{thread: true, split: split})
		in, out := r.ports[portIn], r.ports[portOut]
		var left atomic.Int64
		out.wire.SetSink(func([]byte) { left.Add(1) })
		start(t, r.worker)

		var others sync.WaitGroup
		stop := make(chan struct{})
		others.Go(func() {
			seen := make([]uint64, numSourceCounters)
			for {
				for i := range seen {
					n := in.source.read(i)
					if n < seen[i] {
						t.Errorf("counter %d fell from %d to %d", i, seen[i], n)
					}
					seen[i] = n
				}
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
		others.Go(func() {
			out.wire.HoldCompletions(true)
			for {
				out.wire.Complete(3)
				select {
				case <-stop:
					out.wire.HoldCompletions(false)
					out.wire.Complete(1000)
					return
				default:
					runtime.Gosched()
				}
			}
		})
		frames, _ := numbered(0, 7)
		arrived := 0
		for i := 0; arrived < 3000; i++ {
			arrived += r.arrive(portIn, frames...)
			if i%16 == 0 { // the wire has no descriptor to poll
				require.True(t, r.worker.driver.call(func() {}))
			}
			runtime.Gosched()
		}
		close(stop)
		others.Wait()
		busy := 1
		for busy > 0 {
			require.True(t, r.worker.driver.call(func() { busy = r.worker.inFlight() }))
		}
		r.worker.driver.end()
		r.check()
		require.EqualValues(t, arrived, in.source.read(sourceReceived))
		// The feedback's timeout lets packets in even while nothing completes: some may find the backlog full.
		sent := in.source.read(int(forwarded))
		require.EqualValues(t, arrived, sent+in.source.read(int(DropBacklogFull)))
		require.EqualValues(t, sent, left.Load())
		require.EqualValues(t, sent, out.egress.read(egressCompleted))
		r.close()
	}
}

// A call that was given up does not run when the worker comes round after all: what was refused must not take effect later.
func TestACallThatWasGivenUpNeverRuns(t *testing.T) {
	var d driver
	require.NoError(t, d.init())
	ran := false
	require.False(t, d.call(func() { ran = true }), "nobody serves it")
	d.runCalls()
	require.False(t, ran)
	require.True(t, d.end(), "it was never started")
	require.NoError(t, d.close())
}

// A worker that hangs does not hold up the end for longer than a call.
func TestEndGivesUpOnAWorkerThatHangs(t *testing.T) {
	var d driver
	require.NoError(t, d.init())
	d.running = true
	require.False(t, d.end())
	require.NoError(t, d.close())
}
