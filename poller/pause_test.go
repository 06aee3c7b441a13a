package poller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// From the last packet of an owned source to its release: what each look that
// finds nothing is answered with, and how many there are.
func TestPauseBetweenLooks(t *testing.T) {
	for _, test := range []struct {
		name         string
		pause, drain time.Duration
		looks        int // before the one that releases, a microsecond each
	}{
		{"default", 50 * us, ms, 20},
		{"short", us, ms, 500},
		{"as long as drain: two looks", ms, ms, 1},
		{"half of drain", ms, 2 * ms, 2},
		{"none: it spins", 0, ms, 999},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Own.Pause, c.Drain = test.pause, test.drain })
			src, h := &ring{name: "in"}, &handle{learned: true}
			r.receive(src, ReceiverConfig{Owner: h})
			r.receive(&ring{name: "bare"}, ReceiverConfig{})
			r.busy(src, 4)
			require.True(t, h.owned)

			src.waiting = 64
			require.Equal(t, Again, r.step(us).Do, "a look that found something is followed by another at once")
			begin := r.now
			waits := r.Counters().NextBlock
			for range test.looks {
				next := r.step(us)
				require.True(t, h.owned)
				if test.pause == 0 {
					require.Equal(t, Again, next.Do)
					continue
				}
				require.Equal(t, Next{Block, r.now + int64(test.pause)}, next)
				r.wake(test.pause)
			}
			require.Equal(t, Again, r.step(us).Do)
			require.False(t, h.owned)
			require.GreaterOrEqual(t, r.now-begin, int64(test.drain))
			require.LessOrEqual(t, r.now-begin, int64(test.drain+test.pause+us), "late by at most a pause and a round")
			require.Equal(t, Next{Block, math.MaxInt64}, r.step(us))
			if test.pause > 0 {
				waits += uint64(test.looks)
			}
			require.Equal(t, waits+1, r.Counters().NextBlock)
			require.Zero(t, r.Counters().FruitlessWaits, "a pause is no retry")
		})
	}
}

// Whoever held the device gets the CPU in the pause and lets go of it; then the
// worker finds all that has gathered, and goes on without a pause.
func TestPauseLetsTheFormerPollerLetGo(t *testing.T) {
	r := newRig(t, nil)
	src, h := &ring{name: "in"}, &handle{learned: true}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.busy(src, 4)
	src.waiting = 0 // what arrives is held from now on
	require.Equal(t, Block, r.step(us).Do)
	r.wake(900 * us) // it took its time
	src.waiting = 200
	for range 4 {
		require.Equal(t, Again, r.step(us).Do)
	}
	require.Zero(t, src.waiting)
	next := r.step(us)
	require.Equal(t, Next{Block, r.now + int64(50*us)}, next)
	require.True(t, h.owned)
	require.Zero(t, r.status(id).Counters.Moves[MoveReleasedDrained])
}

// A pause ends with whatever must happen before. Each case has an owned source
// that is empty, a long pause and the rounds' answers from then on.
func TestPauseEndsWithTheFirstDeadline(t *testing.T) {
	const long = 5 * ms
	for _, test := range []struct {
		name    string
		prepare func(r *rig)
		do      Action
		waits   []time.Duration
	}{
		{"nothing else", func(*rig) {}, Block, []time.Duration{long, long}},
		{"a queue fed by another source is closed", func(r *rig) {
			id := r.receive(&ring{name: "other"}, ReceiverConfig{})
			full := &box{name: "full", n: 24}
			q := paperQueue
			q.Timeout, q.Feeders = 3*ms, []ReceiverID{id}
			r.queue(full, q)
		}, Block, []time.Duration{3*ms - us}},
		{"another source learns", func(r *rig) {
			src := &ring{name: "other", waiting: 1000}
			id := r.receive(src, ReceiverConfig{Owner: &handle{}})
			for r.status(id).State != StateLearning {
				r.step(us)
			}
			src.waiting = 0
		}, Block, []time.Duration{2*ms - us, 2 * ms}},
		{"a transmitter has something left", func(r *rig) { r.transmit(&box{name: "out", pending: true}) },
			Block, []time.Duration{50 * us, 100 * us, 200 * us, 400 * us, 800 * us, 1600 * us, 3200 * us, long}},
		{"another source is out of frames", func(r *rig) { r.receive(&ring{name: "other", waiting: 1, refuses: true}, ReceiverConfig{}) },
			Sleep, []time.Duration{50 * us, 50 * us, 50 * us}},
		{"the share is used up", func(r *rig) { r.step(2 * ms); r.now -= int64(2 * ms) }, Sleep, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) {
				c.Own.Pause, c.Drain, c.Own.LearnTimeout = long, 100*ms, 2*ms
				if test.waits == nil {
					limited(10, true)(c)
				}
			})
			src, h := &ring{name: "in"}, &handle{learned: true}
			r.receive(src, ReceiverConfig{Owner: h})
			r.busy(src, 4)
			src.waiting = 0
			r.step(us)
			if test.waits == nil {
				require.Equal(t, Next{Sleep, int64(10 * ms)}, r.step(2*ms))
				require.True(t, h.owned)
				return
			}
			test.prepare(r)
			for _, wait := range test.waits {
				next := r.step(us)
				require.Equal(t, Next{test.do, r.now + int64(wait)}, next)
				r.wake(wait)
			}
			require.True(t, h.owned)
		})
	}
}

func TestPauseWhileLivelocked(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Own.Pause, c.Drain, c.Watchdog = 5*ms, 100*ms, ms })
	src, h := &ring{name: "in"}, &handle{learned: true}
	r.receive(src, ReceiverConfig{Owner: h})
	r.transmit(&box{name: "out", n: 1})
	for !r.Livelock() {
		r.busy(src, 1)
	}
	src.waiting = 0
	r.now += int64(100 * us)
	for range 4 {
		next := r.pass(us)
		require.LessOrEqual(t, next.UntilNS, r.guard.started+int64(ms))
	}
	require.True(t, h.owned)
}

// Sources that are not owned end a pause by their packets. They are served at
// once, and neither put off the release nor leave the owned source out.
func TestEventEndsThePause(t *testing.T) {
	r := newRig(t, nil)
	src, h, bare := &ring{name: "in"}, &handle{learned: true}, &ring{name: "bare"}
	id := r.receive(src, ReceiverConfig{Owner: h})
	r.receive(bare, ReceiverConfig{})
	r.busy(src, 4)
	src.waiting = 0
	begin := r.now
	looks := 0
	for ; h.owned; looks++ {
		require.Less(t, r.now-begin, int64(2*ms), "owned for ever")
		next := r.step(us)
		if next.Do == Again && h.owned {
			require.Zero(t, bare.waiting)
			next = r.step(us)
		}
		if !h.owned {
			break
		}
		require.Equal(t, Next{Block, r.now + int64(50*us)}, next, "a whole pause after each event")
		r.wake(10 * us)
		bare.waiting = 1
	}
	require.Greater(t, looks, 80, "an event each 10 µs")
	require.LessOrEqual(t, r.now-begin, int64(ms+12*us))
	require.Equal(t, bare.turns, src.turns)
	require.EqualValues(t, 1, r.status(id).Counters.Moves[MoveReleasedDrained])
}

// An owned source whose gate is closed for a while does not shorten a wait: its
// packets could not be taken.
func TestNoPauseForWhatIsClosed(t *testing.T) {
	r := newRig(t, nil)
	src, h, out := &ring{name: "in"}, &handle{learned: true}, &box{name: "out"}
	r.receive(src, ReceiverConfig{Owner: h})
	r.queue(out, paperQueue)
	r.busy(src, 4)
	out.n = 24
	next := r.step(us)
	for next.Do == Again {
		next = r.step(us)
	}
	require.Equal(t, Feedback, src.gate)
	require.Equal(t, Next{Block, r.Scheduler.queues[0].deadline}, next)
	require.True(t, h.owned)
}

func TestPauseInModePoll(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Mode = Poll })
	src, h := &ring{name: "in", waiting: 1}, &handle{learned: true}
	r.receive(src, ReceiverConfig{Owner: h})
	for range 2000 {
		require.Equal(t, Again, r.step(us).Do, "everything is owned: it spins")
	}
	require.True(t, h.owned)

	late, hl := &ring{name: "late"}, &handle{learned: true}
	r.receive(late, ReceiverConfig{Owner: hl})
	src.waiting = 1
	require.Equal(t, Again, r.step(us).Do)
	next := r.step(us)
	require.Equal(t, Next{Block, r.now + int64(50*us)}, next, "one is not: it pauses")
	r.wake(20 * us)
	late.waiting = 1
	require.Equal(t, Again, r.step(us).Do)
	require.True(t, h.owned && hl.owned)
	for range 2000 {
		require.Equal(t, Again, r.step(us).Do, "and spins again")
	}
	require.True(t, h.owned && hl.owned)
}
