package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/engine/fib"
	"weir/poller"
)

// Nothing on the path of a packet allocates, whatever becomes of it.
func TestForwardDoesNotAllocate(t *testing.T) {
	table := testTable()
	frame := make([]byte, 2048)
	for _, c := range forwardCases() {
		require.Zero(t, testing.AllocsPerRun(10, func() {
			h := forward(frame[:copy(frame, c.frame)], c.partial, table)
			if h.reason != c.reason {
				t.Fatal(c.name, h.reason)
			}
			if h.ask {
				nextHopAddr(frame, table)
			}
		}), "%s/%s", c.reason, c.name)
	}
}

// silentRig is a rig whose wires keep nothing, at rest.
func silentRig(t *testing.T, o rigOptions) *rig {
	r := newRig(t, o)
	for _, p := range r.ports {
		p.wire.SetSink(func([]byte) {})
	}
	r.table.asked = make([]fib.Request, 0, 1<<16)
	r.rest()
	return r
}

// turn is all that one packet passes through, and the end of the round.
func (r *rig) turn(frame []byte) {
	r.ports[portIn].door.Admit()
	r.one[0] = frame
	r.ports[portIn].wire.Inject(r.one[:]...)
	r.round()
}

func TestWorkerDoesNotAllocate(t *testing.T) {
	for _, split := range []bool{false, true} {
		for _, offloads := range []bool{false, true} {
			r := silentRig(t, rigOptions{split: split, offloads: offloads})
			for _, c := range forwardCases() {
				if len(c.frame) == 0 {
					continue
				}
				before := r.ports[portIn].source.live[sourceReceived]
				require.Zero(t, testing.AllocsPerRun(10, func() { r.turn(c.frame) }), "%s/%s", c.reason, c.name)
				require.EqualValues(t, 11, r.ports[portIn].source.live[sourceReceived]-before, "%s/%s", c.reason, c.name)
			}
		}
	}
}

// The same where a packet cannot leave, for every way that can come about.
func TestWorkerDoesNotAllocateUnderPressure(t *testing.T) {
	in, _ := numbered(0, 1)
	for _, c := range []struct {
		name    string
		options rigOptions
		spoil   func(r *rig)
		reason  Reason
	}{
		{"kernel busy", rigOptions{}, func(r *rig) { r.ports[portOut].wire.SetKickErrno(unix.EAGAIN) }, DropBacklogFull},
		{"kernel without memory", rigOptions{}, func(r *rig) { r.ports[portOut].wire.SetKickErrno(unix.ENOBUFS) }, DropBacklogFull},
		{"kernel busy, two UMEMs", rigOptions{split: true}, func(r *rig) { r.ports[portOut].wire.SetKickErrno(unix.EAGAIN) }, DropBacklogFull},
		{"device drops", rigOptions{}, func(r *rig) { r.ports[portOut].wire.SetKickErrno(unix.EBUSY) }, forwarded},
		{"device down", rigOptions{}, func(r *rig) { r.ports[portOut].kernel.SetDown(portOut+1, true) }, forwarded},
		{"device gone", rigOptions{}, func(r *rig) { r.ports[portOut].kernel.RemoveDevice(portOut + 1) }, forwarded},
		{"completions never come", rigOptions{}, func(r *rig) { r.ports[portOut].wire.HoldCompletions(true) }, DropBacklogFull},
		{"no frame for the copy", rigOptions{split: true}, func(r *rig) {
			for _, ok := r.ports[portOut].umem.Alloc(); ok; _, ok = r.ports[portOut].umem.Alloc() {
			}
		}, DropNoFrame},
		{"kernel asleep for want of frames", rigOptions{}, func(r *rig) { r.ports[portIn].wire.SetNeedWakeup(true, true) }, forwarded},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.config = func(c *Config) { c.Feedback.Off = true }
			r := silentRig(t, o)
			c.spoil(r)
			for range 100 { // until the rings are full
				r.turn(in[0])
			}
			before := r.ports[portIn].source.live[c.reason]
			require.Zero(t, testing.AllocsPerRun(100, func() { r.turn(in[0]) }))
			require.EqualValues(t, 101, r.ports[portIn].source.live[c.reason]-before, "%v", r.ports[portIn].drops())
		})
	}
}

// And with gates that close and open, and credits that come and go.
func TestGatesDoNotAllocate(t *testing.T) {
	r := silentRig(t, rigOptions{})
	in, _ := numbered(0, 1)
	out := r.ports[portOut].wire
	require.Zero(t, testing.AllocsPerRun(200, func() {
		out.SetKickErrno(unix.EAGAIN)
		for range 60 {
			r.turn(in[0])
		}
		out.SetKickErrno(0)
		for range 10 {
			r.round()
		}
	}))
	status := r.worker.sched.Queues(nil)[portOut]
	require.NotZero(t, status.Counters.OpenedLow)
	for _, reason := range []poller.Reason{poller.Feedback, 0} {
		s := r.ports[portIn].source
		require.Zero(t, testing.AllocsPerRun(100, func() {
			s.SetGate(reason)
			s.Grant(1)
		}))
	}
}

// And while receive work is owned, with a budget that follows the turns, and owning, releasing and learning again and again.
func TestOwnedTurnsDoNotAllocate(t *testing.T) {
	r := silentRig(t, rigOptions{})
	o, sock := r.pupil(portIn)
	in, _ := numbered(0, 64)
	r.teach(portIn, in[0])
	r.rest()
	sock.quiet = true
	p := r.ports[portIn]
	sock.driven = func(packets int) {
		for _, f := range in[:min(packets, len(in))] {
			if p.door.Admit() {
				r.one[0] = f
				p.wire.Inject(r.one[:]...)
			}
		}
	}
	// In mode hybrid the scheduler itself owns what stays full: the script sees to that, and to empty turns.
	p.door.CPU = r.worker.cpu
	for i := range 1000 {
		r.arrive(portIn, in...)
		r.round()
		require.Less(t, i, 999, "it is never owned: %v", r.worker.sched.Receivers(nil)[portIn].Counters.Moves)
		if o.owned {
			break
		}
	}
	before, polls := p.source.live[sourceReceived], o.count.driven.Load()
	require.Zero(t, testing.AllocsPerRun(200, r.round))
	require.True(t, o.owned)
	require.Greater(t, p.source.live[sourceReceived]-before, uint64(1000))
	require.GreaterOrEqual(t, o.count.driven.Load()-polls, uint64(201))

	limit := 0
	require.Zero(t, testing.AllocsPerRun(200, func() {
		limit = limit%300 + 7
		o.drive(limit)
		p.source.Receive(64)
		if o.Own() != nil || o.Release() != nil || !o.Competes() && o.Losing() {
			t.Error("refused")
		}
	}))
	require.NotZero(t, sock.budgets)
}
