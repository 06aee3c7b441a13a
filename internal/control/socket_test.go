package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSocketPath(t *testing.T) {
	require.Equal(t, "/run/weir/4026531840.sock", SocketPath(4026531840))
}

func TestLiveSocketIsRefused(t *testing.T) {
	o := options(t)
	start(t, o)
	_, err := New(o)
	require.ErrorContains(t, err, fmt.Sprintf("claim control socket %s: in use by pid %d ", o.Socket, os.Getpid()))
	require.ErrorContains(t, err, ": stop it, or set control.socket")
	_, err = Dial(o.Socket)
	require.NoError(t, err, "the first is unharmed")
}

func TestStaleSocketIsReplaced(t *testing.T) {
	o := options(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(o.Socket), 0o755))
	dead, err := net.Listen("unix", o.Socket)
	require.NoError(t, err)
	dead.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	require.FileExists(t, o.Socket)

	_, err = Dial(o.Socket)
	require.ErrorIs(t, err, ErrNotRunning)
	start(t, o)
	_, err = Dial(o.Socket)
	require.NoError(t, err)
}

func TestOtherFileIsLeftAlone(t *testing.T) {
	o := options(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(o.Socket), 0o755))
	require.NoError(t, os.WriteFile(o.Socket, []byte("precious"), 0o600))
	_, err := New(o)
	require.ErrorContains(t, err, "the file is no socket (-rw-------): remove it, or set control.socket")
	require.FileExists(t, o.Socket)
}

func TestSocketOfAnotherIsNotRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	first, err := claim(path)
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	second, err := claim(path)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	require.FileExists(t, path)
	require.NoError(t, second.Close())
	require.NoFileExists(t, path)
}

func TestClaimsAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	var mu sync.Mutex
	var won []*socket
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if s, err := claim(path); err == nil {
				mu.Lock()
				defer mu.Unlock()
				won = append(won, s)
			}
		})
	}
	wg.Wait()
	require.Len(t, won, 1)
	require.NoError(t, won[0].Close())
}

func TestClaimDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := claim(filepath.Join(file, "s.sock"))
	require.ErrorContains(t, err, "make directory of control socket")
	require.ErrorIs(t, err, syscall.ENOTDIR)
	s, err := claim(filepath.Join(dir, "new", "s.sock"))
	require.NoError(t, err)
	defer s.Close()
	info, err := os.Stat(filepath.Join(dir, "new"))
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o022, "only the owner may write")
}

func TestDialNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.sock")
	_, err := Dial(path)
	require.ErrorIs(t, err, ErrNotRunning)
	require.EqualError(t, err, "connect to "+path+
		": no weir is running in this network namespace (no such file or directory): start one, or name its control socket")
}

func TestClientAfterServerEnded(t *testing.T) {
	o := options(t)
	s, err := New(o)
	require.NoError(t, err)
	c, err := Dial(o.Socket)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, s.Close())
	_, err = c.Stats(t.Context())
	require.ErrorIs(t, err, ErrNotRunning)
}

func TestClientOfStrangers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	mux := http.NewServeMux()
	mux.HandleFunc("/reload", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
	srv := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { srv.Serve(l); close(done) }()
	defer func() { srv.Close(); <-done }()
	c, err := Dial(path)
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err = c.Stats(ctx)
	require.ErrorContains(t, err, "stats: 404 Not Found (404 page not found): use the weir command of the version that runs")
	_, err = c.Reload(ctx)
	require.ErrorContains(t, err, "reload: answer is not understood")
}
