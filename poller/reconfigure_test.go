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
