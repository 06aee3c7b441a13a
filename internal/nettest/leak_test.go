package nettest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLeaksAreFound(t *testing.T) {
	files, goroutines := openFiles(), runtime.NumGoroutine()
	require.Empty(t, leaksNow(files, goroutines))

	f, err := os.Create(filepath.Join(t.TempDir(), "left"))
	require.NoError(t, err)
	stop := make(chan struct{})
	go func() { <-stop }()
	leaks := leaksNow(files, goroutines)
	require.Len(t, leaks, 2)
	require.Contains(t, leaks[0], "1 open "+f.Name())
	require.Contains(t, leaks[1], "TestLeaksAreFound")
	close(stop)
	require.NoError(t, f.Close())
	require.Empty(t, findLeaks(files, goroutines))

	if privileged() == nil {
		n, err := NewNS("leak")
		require.NoError(t, err)
		require.Contains(t, leaksNow(files, goroutines), "namespace "+n.Name())
		require.NoError(t, n.Close())
		require.Empty(t, findLeaks(files, goroutines))
	}
}

func TestOwnerOf(t *testing.T) {
	for name, want := range map[string]int{
		"weir-12-a": 12, "weir-12-a-b": 12, "weir-12-": 12,
		"weir-12": 0, "weir--a": 0, "weir-012-a": 0, "weir-+1-a": 0, "weir-0-a": 0, "weir--1-a": 0, "other-12-a": 0, "weir-x-a": 0,
	} {
		pid, ok := ownerOf(name)
		require.Equal(t, want != 0, ok, name)
		if ok {
			require.Equal(t, want, pid, name)
		}
	}
}

func TestAlive(t *testing.T) {
	require.True(t, alive(os.Getpid()))
	require.True(t, alive(1))
	require.False(t, alive(1<<22+1), "above the largest pid")
}
