package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/napi"
	"weir/xdpprog"
)

// watched is a guard of one source, of a rig, whose NAPI is known; nothing else of the host is.
func watched(t *testing.T) (*guard, *guarded, *owner, *scriptedSocket) {
	t.Helper()
	r := newRig(t, rigOptions{})
	o, sock := r.pupil(portIn)
	in, _ := numbered(0, 1)
	r.teach(portIn, in[0])
	sock.log = nil
	g := &guard{engine: &Engine{events: make(chan string, maxEvents)}, workers: make([]pulse, 1), cpus: 2}
	s := &guarded{source: r.ports[portIn].source, port: &port{config: PortConfig{Name: "in"}}, means: o.means}
	s.masker = sock
	s.known = napi.NAPI{ID: scriptedNAPI, Settings: scriptedBefore}
	return g, s, o, sock
}

// seen is the scripted NAPI as a look would find it now.
func (s *scriptedSocket) seen() napi.NAPI { return napi.NAPI{ID: scriptedNAPI, Settings: s.settings} }

func TestCheckMasking(t *testing.T) {
	other := napi.Settings{DeferHardIRQs: 9, GROFlush: time.Second}
	t.Run("what is owned and as it should be is left alone", func(t *testing.T) {
		g, s, o, sock := watched(t)
		require.NoError(t, o.Own())
		sock.log = nil
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.Empty(t, sock.log)
		require.Empty(t, g.engine.events)
	})
	t.Run("what others wrote over is taken back, counted and said", func(t *testing.T) {
		g, s, o, sock := watched(t)
		require.NoError(t, o.Own())
		sock.log, sock.settings = nil, other
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.Equal(t, []string{masked, "prefer true"}, sock.log)
		require.EqualValues(t, 1, o.count.retaken.Load())
		require.Contains(t, <-g.engine.events, "taken back")
		require.NoError(t, o.Release())
		require.Equal(t, scriptedBefore, sock.settings, "not what others wrote while it was owned")
	})
	t.Run("a look that an own or a release overtook says nothing", func(t *testing.T) {
		g, s, o, sock := watched(t)
		before, n := o.moves.Load(), sock.seen()
		require.NoError(t, o.Own())
		sock.log = nil
		require.NoError(t, g.checkMasking(s, n, before))
		require.Empty(t, sock.log)
		require.Zero(t, o.count.retaken.Load())
	})
	t.Run("what others set while it is not owned is what is put back from then on", func(t *testing.T) {
		g, s, o, sock := watched(t)
		sock.settings = other
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.Empty(t, sock.log)
		require.NoError(t, o.Own())
		require.NoError(t, o.Release())
		require.Equal(t, other, sock.settings)
	})
	t.Run("also before the NAPI was learned", func(t *testing.T) {
		g, s, o, sock := watched(t)
		require.NoError(t, o.replace(sock, s.known))
		sock.settings = other
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.Equal(t, other, o.before)
		require.Equal(t, other, s.noted)
	})
	t.Run("what is noted when a look comes too late is what was there", func(t *testing.T) {
		g, s, o, sock := watched(t)
		before := o.moves.Load()
		require.NoError(t, o.Own())
		require.NoError(t, g.checkMasking(s, sock.seen(), before))
		require.Equal(t, scriptedBefore, s.noted)
	})
	t.Run("a thread that others made while it is owned is theirs", func(t *testing.T) {
		g, s, o, sock := watched(t)
		require.NoError(t, o.Own())
		sock.settings.Threaded = true
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.True(t, o.before.Threaded)
		require.Zero(t, o.count.retaken.Load())
	})
	t.Run("what was masked for a starved worker is given back when it runs and owns nothing", func(t *testing.T) {
		g, s, o, sock := watched(t)
		g.rescue(s)
		require.Equal(t, []string{masked, "prefer true", "drive"}, sock.log)
		require.EqualValues(t, 1, o.count.rescued.Load())
		g.workers[0].still = 1
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.True(t, o.rescued, "it is starved still")
		g.workers[0].still = 0
		require.NoError(t, g.checkMasking(s, sock.seen(), o.moves.Load()))
		require.False(t, o.rescued)
		require.Equal(t, scriptedBefore, sock.settings)
	})
}

// A rescue of what is owned only polls: it is masked already.
func TestRescueOfWhatIsOwned(t *testing.T) {
	g, s, o, sock := watched(t)
	require.NoError(t, o.Own())
	sock.log = nil
	g.rescue(s)
	require.Equal(t, []string{"drive"}, sock.log)
	require.False(t, o.rescued)
	o.means = OwnershipKthread
	g.rescue(s)
	require.Len(t, sock.log, 1)
}

// A worker is starved when it ends no round in two looks in a row although most of the packets that came were received on its CPU.
func TestFeelPulse(t *testing.T) {
	g, s, o, _ := watched(t)
	w := s.worker
	g.engine.workers, g.sources = []*worker{w}, []*guarded{s}
	door := &xdpprog.PlainDoor{Door: *s.door, CPU: w.cpu}
	look := func(here, elsewhere int, beats bool) uint64 {
		for i := range here + elsewhere {
			door.CPU = w.cpu
			if i >= here {
				door.CPU = w.cpu + 1
			}
			door.Admit()
		}
		if beats {
			w.driver.beat.Add(1)
		}
		g.feelPulse()
		return o.count.rescued.Load()
	}
	look(0, 0, true)
	require.Zero(t, look(10, 0, false))
	require.EqualValues(t, 1, look(10, 0, false))
	require.EqualValues(t, 2, look(10, 0, false))
	require.EqualValues(t, 2, look(10, 0, true), "it runs")
	require.EqualValues(t, 2, look(10, 0, false))
	require.EqualValues(t, 2, look(0, 0, false), "nothing came: it sleeps")
	require.EqualValues(t, 2, look(10, 0, false))
	require.EqualValues(t, 2, look(4, 6, false), "most came elsewhere")
	require.EqualValues(t, 2, look(10, 0, false))
	require.EqualValues(t, 3, look(10, 0, false))
	s.source.owner = nil
	require.NotPanics(t, func() { look(10, 0, false) }, "what cannot be owned cannot be rescued")
}

// A means that was given up is said once.
func TestSayMeans(t *testing.T) {
	g, s, o, _ := watched(t)
	g.sayMeans(s)
	require.Empty(t, g.engine.events)
	o.next(errScripted)
	g.sayMeans(s)
	g.sayMeans(s)
	require.Len(t, g.engine.events, 1)
	require.Equal(t, "port in queue 0: receive work is owned by means io_uring from now on, not by socket: scripted", <-g.engine.events)
}
