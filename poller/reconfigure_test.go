package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// endless is a source that always has more.
type endless struct{ last int }

func (g *endless) Receive(max int) (int, bool) { g.last = max; return max, true }
func (*endless) SetGate(Reason)                {}
func (*endless) Grant(int)                     {}

// level is a queue whose length the test sets.
type level struct{ n int }

func (l *level) Len() int { return l.n }

func TestReconfigureTakesEffectAtTheNextTurn(t *testing.T) {
	s, err := New(Default())
	require.NoError(t, err)
	g, l := &endless{}, &level{}
	id, err := s.AddReceiver("in", g, ReceiverConfig{Quota: 10})
	require.NoError(t, err)
	queue, err := s.AddQueue("out", l, DefaultQueue(1000))
	require.NoError(t, err)

	s.Round(0)
	require.Equal(t, 10, g.last)
	require.NoError(t, s.SetQuota(id, 7))
	s.Round(1)
	require.Equal(t, 7, g.last)

	require.ErrorIs(t, s.SetQuota(id, 0), ErrKnob)
	require.ErrorIs(t, s.SetQuota(id+100, 5), ErrNotFound)
	s.Round(2)
	require.Equal(t, 7, g.last, "a refused quota changes nothing")

	l.n = 96
	require.NoError(t, s.SetQueue(queue, QueueConfig{Capacity: 1000, High: 100, Low: 10, Timeout: time.Millisecond}))
	s.Round(3)
	require.Equal(t, 4, g.last, "the room below the new high mark")
	require.ErrorIs(t, s.SetQueue(queue, QueueConfig{Capacity: 1000, High: 10, Low: 10, Timeout: time.Millisecond}), ErrKnob)
	require.ErrorIs(t, s.SetQueue(queue+100, DefaultQueue(10)), ErrNotFound)
}

func TestWindowChangesFromTheNextTurnOn(t *testing.T) {
	r := newRig(t, func(c *Config) { c.Quota = 10 })
	src := &ring{name: "in", waiting: 1000}
	id := r.receive(src, ReceiverConfig{Window: 64})
	r.step(us)
	require.Equal(t, 64, src.granted)

	for _, step := range []struct {
		window  int
		granted int // by the next turn, which takes 10
		credit  int // after it
	}{
		{100, 46, 90}, // 54 were left
		{80, 0, 80},   // 10 too many, nothing is taken back
		{75, 0, 70},   // 5 too many
		{75, 5, 65},
		{0, 0, 55}, // no more
		{0, 0, 45},
		{46, 1, 36},
		{0, 0, 26},
		{0, 0, 16},
		{0, 0, 6},
		{0, 0, 0},
		{0, 0, 0},
		{10, 10, 0},
	} {
		require.NoError(t, r.SetWindow(id, step.window))
		require.Equal(t, step.window, r.status(id).Window)
		before := src.granted
		r.step(us)
		require.Equal(t, step.granted, src.granted-before, "%+v", step)
		require.Equal(t, step.credit, r.status(id).Credit, "%+v", step)
	}

	require.ErrorIs(t, r.SetWindow(id, -1), ErrKnob)
	require.Equal(t, 10, r.status(id).Window, "a refused window changes nothing")
	require.ErrorIs(t, r.SetWindow(id+100, 5), ErrNotFound)
}
