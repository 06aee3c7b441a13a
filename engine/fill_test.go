package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
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
