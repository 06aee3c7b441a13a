package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLock: one at a time; the other is told who has it, or waits.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock", "file")
	first, err := lockFile(t.Context(), path, false)
	require.NoError(t, err)
	_, err = lockFile(t.Context(), path, false)
	require.ErrorIs(t, err, ErrBusy)
	require.ErrorContains(t, err, fmt.Sprintf("process %d holds", os.Getpid()))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = lockFile(ctx, path, true)
	require.ErrorIs(t, err, context.Canceled)

	waited := make(chan error)
	go func() {
		second, err := lockFile(t.Context(), path, true)
		if err == nil {
			err = second.Close()
		}
		waited <- err
	}()
	require.NoError(t, first.Close())
	require.NoError(t, <-waited)
}
