package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/napi"
	"weir/xdpprog"
)

// The first look at where receive work would run comes after a second, the next ones later and later, at most half a minute apart.
func TestPlaceProbe(t *testing.T) {
	var p placeProbe
	looks := func(n int) (at []int) {
		for i := range n {
			if p.due() {
				at = append(at, i+1)
			}
		}
		return at
	}
	require.Equal(t, []int{4, 12, 28, 60, 124, 244, 364, 484}, looks(500))
	p.reset()
	require.Equal(t, []int{4, 12}, looks(20))
}

func TestCheckPlace(t *testing.T) {
	for _, c := range []struct {
		name   string
		thread kernelThread
		cpus   int
		looks  int
		away   bool
	}{
		{"softirq, before a look is due", kernelThread{}, 2, probeFirst - 1, false},
		{"softirq, when it is", kernelThread{}, 2, probeFirst, true},
		{"softirq, on the only CPU", kernelThread{}, 1, probeMost, false},
		{"a thread on the worker's CPU", kernelThread{pid: 1, cpus: []int{0, 1}}, 2, probeMost, false},
		{"a thread elsewhere", kernelThread{pid: 1, cpus: []int{1}}, 2, 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, s, o, sock := watched(t)
			g.cpus = c.cpus
			require.NoError(t, s.worker.driver.init())
			defer func() { require.NoError(t, s.worker.driver.close()) }()
			require.NoError(t, o.Own())
			s.kernel = c.thread
			n := sock.seen()
			n.PID = c.thread.pid
			s.known = n
			for range c.looks {
				require.NoError(t, g.checkPlace(s, n))
				s.worker.driver.runCalls()
			}
			require.Equal(t, c.away, o.away)
		})
	}
	t.Run("a thread that comes or goes makes the next look come soon", func(t *testing.T) {
		g, s, o, sock := watched(t)
		require.NoError(t, s.worker.driver.init())
		defer func() { require.NoError(t, s.worker.driver.close()) }()
		require.NoError(t, o.Own())
		s.probe = placeProbe{wait: probeMost, left: probeMost}
		s.known.PID = 5
		n := sock.seen() // the thread is gone
		for range 1 + probeFirst {
			require.False(t, o.away)
			require.NoError(t, g.checkPlace(s, n))
			s.worker.driver.runCalls()
			if s.worker.driver.called.Load() == 0 && o.away {
				break
			}
		}
		require.True(t, o.away)
	})
}

// What should be owned and was received by others three times in a row is learned again.
func TestDrivenShare(t *testing.T) {
	g, s, o, _ := watched(t)
	s.worker.driver.done = make(chan struct{})
	close(s.worker.driver.done) // nobody answers: that it was tried is enough
	s.worker.driver.calls = make(chan func())
	require.NoError(t, o.Own())
	door := &xdpprog.PlainDoor{Door: *s.door, CPU: s.worker.cpu}
	look := func(driven, others int) error {
		for range driven {
			s.door.SetDriving(true)
			door.Admit()
		}
		s.door.SetDriving(false)
		for range others {
			door.Admit()
		}
		return g.checkDriven(s)
	}
	s.driven.start(s)
	for _, c := range []struct {
		driven, others int
		again          bool
	}{
		{100, 0, false}, {50, 50, false},
		{0, 100, false}, {49, 51, false}, {100, 0, false}, // two in a row are not enough
		{0, 100, false}, {0, 100, false}, {0, lookAt - 1, false}, // too few to tell
		{0, 100, false}, {0, 100, false}, {10, 100, true},
		{0, 100, false},
	} {
		err := look(c.driven, c.others)
		if !c.again {
			require.NoError(t, err, c)
			require.Empty(t, g.engine.events, c)
			continue
		}
		require.Error(t, err, c)
		require.Contains(t, <-g.engine.events, "only 10 of 110 packets")
		<-g.engine.events
	}
	require.Equal(t, napi.NAPI{ID: scriptedNAPI, Settings: scriptedBefore}, s.known, "to be tried again")
}
