package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/poller"
)

func TestFillDepth(t *testing.T) {
	const limit = 64
	quiet := func(f *fillDepth, turns, taken, waiting int) {
		for range turns {
			f.note(false, limit, waiting, f.now-taken)
		}
	}
	t.Run("begins at the lower bound", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		require.Equal(t, 128, f.now)
	})
	t.Run("doubles when the worker waits for what the door refused", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		require.True(t, f.note(true, limit, 0, inTransit))
		require.Equal(t, 256, f.now)
		require.True(t, f.note(true, limit, 0, inTransit))
		require.True(t, f.note(true, limit, 0, 0))
		require.Equal(t, 1024, f.now)
		require.False(t, f.note(true, limit, 0, 0), "not beyond the upper bound")
	})
	t.Run("stays while a full turn is followed by a full turn", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		f.set(224)
		quiet(&f, 10*spareTurns, limit, f.now-limit-inTransit)
		require.Equal(t, 224, f.now)
	})
	t.Run("stays when packets were refused and others wait: the worker has work", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		require.False(t, f.note(true, limit, 1, inTransit+1))
	})
	t.Run("stays when nothing was refused", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		require.False(t, f.note(false, limit, 0, 0))
	})
	t.Run("shrinks to what a full load needs", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		f.set(1024)
		for range 40 * spareTurns {
			f.note(true, limit, f.now-limit-inTransit, f.now-limit) // all that may wait does
		}
		require.Less(t, f.now, 320)
		require.GreaterOrEqual(t, f.now, 2*limit+inTransit, "the next turn is full too")
	})
	t.Run("one busy turn among the quiet ones keeps it", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		f.set(1024)
		for range 10 {
			quiet(&f, spareTurns-1, 1, 0)
			f.note(false, limit, 64, inTransit+64) // all frames were in use
		}
		require.Equal(t, 1024, f.now)
	})
	t.Run("shrinks to the lower bound at a trickle", func(t *testing.T) {
		f := newFillDepth(128, 1024)
		f.set(1024)
		quiet(&f, 40*spareTurns, 1, 0)
		require.Less(t, f.now, 200)
	})
	t.Run("equal bounds fix it", func(t *testing.T) {
		f := newFillDepth(512, 512)
		require.False(t, f.note(true, limit, 0, 0))
		quiet(&f, 10*spareTurns, 1, 0)
		require.Equal(t, 512, f.now)
	})
}

// Through a worker: the Fill depth, and with it what the door lets in, grows where the worker starves and shrinks when the load is gone.
func TestFillDepthFollowsTheLoad(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) {
		c.Poller.Quota = poller.Unlimited // with one, no more is lent than is taken in a turn
		c.Rings = Rings{RX: 512, TX: 512, Fill: 512, Completion: 512, FillDepth: 512, FillMin: 128, Backlog: 512}
	}})
	r.rest()
	p := r.ports[portIn]
	in, _ := numbered(0, 512)
	require.Equal(t, 128, p.source.fill.now)
	require.Equal(t, 128-inTransit, r.arrive(portIn, in...), "as many as may be in transit are kept back")
	for range 100 {
		r.step()
		r.arrive(portIn, in...)
		r.ports[portOut].wire.Transmitted()
	}
	require.Equal(t, 512, p.source.fill.now)
	require.Equal(t, 512, int(p.source.read(sourceFillDepth)))
	require.Equal(t, 512-inTransit, r.worker.sched.Receivers(nil)[portIn].Window)
	r.rest()
	require.Equal(t, 512, p.sock.FillLen())
	require.Equal(t, 512-inTransit, r.arrive(portIn, in...))
	r.rest()
	for range 20 * spareTurns {
		r.ports[portOut].wire.Transmitted()
		r.arrive(portIn, in[0])
		r.step()
	}
	require.Less(t, p.source.fill.now, 200)
	require.GreaterOrEqual(t, p.source.fill.now, 128)
	r.rest()
	require.Equal(t, p.source.fill.now, p.sock.FillLen())
	require.Equal(t, p.source.fill.now-inTransit, r.arrive(portIn, in...))
	r.rest()
	r.close()
}

// Without early discard Fill stays at its full depth, whatever comes: the control experiment gives the kernel all it asks for.
func TestDiscardOffKeepsFillFull(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) {
		c.EarlyDiscard = DiscardOff
		c.Rings = Rings{RX: 512, TX: 512, Fill: 512, Completion: 512, FillDepth: 512, FillMin: 128, Backlog: 512}
	}})
	r.rest()
	p := r.ports[portIn]
	in, _ := numbered(0, 600)
	require.Equal(t, 512, r.arrive(portIn, in...), "as many as there are frames, and not one was refused by the door")
	require.Zero(t, p.doorCounters().DroppedNoCredit)
	r.rest()
	for range 4 * spareTurns {
		r.ports[portOut].wire.Transmitted()
		r.arrive(portIn, in[0])
		r.step()
	}
	require.Equal(t, 512, p.source.fill.now)
	require.Equal(t, 512, p.sock.FillLen())
	p.source.SetGate(poller.Feedback)
	require.Equal(t, 1, r.arrive(portIn, in[0]), "no gate holds")
	p.source.SetGate(0)
	r.rest()
	r.close()
}

// While the CPU share is used up, only a source that is behind is shut: the packets of others wait in their ring.
func TestShareShutsWhoIsBehind(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	p := r.ports[portIn]
	in, _ := numbered(0, 1000)
	p.source.SetGate(poller.CPUShare)
	require.Equal(t, 3, r.arrive(portIn, in[:3]...))
	p.source.SetGate(poller.CPUShare | poller.Feedback)
	require.Zero(t, r.arrive(portIn, in[3]), "other reasons shut all")
	p.source.SetGate(0)
	r.rest()

	r.arrive(portIn, in[4:]...)
	r.step()
	require.True(t, p.source.behind)
	p.source.SetGate(poller.CPUShare)
	require.Zero(t, r.arrive(portIn, in[3]))
	p.source.SetGate(0)
	r.rest()
	r.close()
}
