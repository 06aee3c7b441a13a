package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestShareWatch(t *testing.T) {
	var w shareWatch
	var idle, slept time.Duration
	window := func(moreIdle, moreSlept time.Duration) bool {
		idle, slept = idle+moreIdle, slept+moreSlept
		return w.window(idle, slept)
	}
	const ms = time.Millisecond
	require.True(t, window(0, 20*ms), "somebody used what the limit left over")
	require.True(t, window(200*ms, 0), "idle, but the limit was not reached")
	require.True(t, window(9*ms, 10*ms), "less than can be told from nothing")
	require.True(t, window(30*ms, 100*ms), "idle for less than half of what was left over")
	require.False(t, window(60*ms, 100*ms), "idle: free")
	for range shareFreeWindows - 1 {
		require.False(t, window(0, 0), "free however busy it is, since the worker is the one")
	}
	require.True(t, window(0, 0), "it is tried again")
	require.True(t, window(0, 100*ms), "somebody came in the meantime")
	require.False(t, window(100*ms, 100*ms), "and left")
}
