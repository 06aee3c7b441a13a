package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// patience bounds every wait for something that is about to happen.
const patience = 20 * time.Second

// options serve fixed answers on a socket of the test's own and a free port.
func options(t *testing.T) Options {
	t.Helper()
	return Options{
		Socket: filepath.Join(t.TempDir(), "weir", "test.sock"),
		Listen: "127.0.0.1:0",
		Stats:  func() (any, error) { return map[string]int{"offered": 7}, nil },
		Reload: func(context.Context) (ReloadReply, error) {
			return ReloadReply{Changed: []Change{{Key: "poller.quota", Old: "64", New: "32"}}}, nil
		},
		Health: func() error { return nil },
	}
}

// start serves until the test ends, and fails it if goroutines or the socket remain.
func start(t *testing.T, o Options) *Server {
	t.Helper()
	before := runtime.NumGoroutine()
	s, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
		require.NoFileExists(t, o.Socket)
		http.DefaultClient.CloseIdleConnections()
		// Not require.Eventually: it runs its condition in a goroutine of its own.
		for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			require.True(t, time.Now().Before(deadline), "goroutines remain")
		}
		require.NoError(t, s.Close(), "closing again does nothing")
	})
	return s
}

// get asks the HTTP listener.
func get(t *testing.T, s *Server, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + s.Addr() + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b)
}

func TestStatsAndReload(t *testing.T) {
	o := options(t)
	start(t, o)
	info, err := os.Stat(o.Socket)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())

	c, err := Dial(o.Socket)
	require.NoError(t, err)
	defer c.Close()
	stats, err := c.Stats(t.Context())
	require.NoError(t, err)
	require.JSONEq(t, `{"offered": 7}`, string(stats))
	answer, err := c.Reload(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Change{{Key: "poller.quota", Old: "64", New: "32"}}, answer.Changed)
}

func TestReloadRefused(t *testing.T) {
	o := options(t)
	o.Reload = func(context.Context) (ReloadReply, error) {
		return ReloadReply{}, errors.New("weir.yaml:7:3: poller.quota: 0: must be at least 1 packet, or auto, or inf")
	}
	start(t, o)
	c, err := Dial(o.Socket)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Reload(t.Context())
	require.EqualError(t, err, "reload: weir.yaml:7:3: poller.quota: 0: must be at least 1 packet, or auto, or inf")
}

func TestReloadsDoNotOverlap(t *testing.T) {
	o := options(t)
	var inside, calls atomic.Int32
	o.Reload = func(context.Context) (ReloadReply, error) {
		defer inside.Add(-1)
		if inside.Add(1) != 1 {
			return ReloadReply{}, errors.New("overlap")
		}
		calls.Add(1)
		time.Sleep(5 * time.Millisecond)
		return ReloadReply{}, nil
	}
	start(t, o)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			c, err := Dial(o.Socket)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := c.Reload(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, int32(8), calls.Load())
}

func TestStatsThatCannotBeEncoded(t *testing.T) {
	o := options(t)
	o.Stats = func() (any, error) { return make(chan int), nil }
	start(t, o)
	c, err := Dial(o.Socket)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Stats(t.Context())
	require.EqualError(t, err, "stats: the answer cannot be encoded as JSON")
}

func TestStatsThatCannotBeRead(t *testing.T) {
	o := options(t)
	o.Stats = func() (any, error) { return nil, errors.New("read counters of in0: no such device") }
	start(t, o)
	c, err := Dial(o.Socket)
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Stats(t.Context())
	require.EqualError(t, err, "stats: read counters of in0: no such device")
}

func TestHTTP(t *testing.T) {
	o := options(t)
	var sick atomic.Bool
	o.Health = func() error {
		if sick.Load() {
			return errors.New("worker 1: no round for 3s")
		}
		return nil
	}
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "weir_test_total", Help: "For this test."})
	counter.Add(3)
	o.Collector = counter
	s := start(t, o)

	status, body := get(t, s, "/metrics")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "\nweir_test_total 3\n")
	require.Contains(t, body, "\ngo_goroutines ")

	status, body = get(t, s, "/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ok\n", body)
	sick.Store(true)
	status, body = get(t, s, "/healthz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "worker 1: no round for 3s\n", body)

	status, body = get(t, s, "/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "/metrics")
	for _, path := range []string{"/stats", "/reload", "/debug/pprof/"} {
		status, _ = get(t, s, path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
		req, err := http.NewRequest(method, "http://"+s.Addr()+"/metrics", nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		resp.Body.Close()
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, method)
	}
}

func TestHeaderLimit(t *testing.T) {
	s := start(t, options(t))
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Addr()+"/healthz", nil)
	require.NoError(t, err)
	req.Header.Set("X", strings.Repeat("x", 2*maxHeader))
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, resp.StatusCode)
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, options(t))
	conns := make([]net.Conn, maxConns)
	for i := range conns {
		c, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		defer c.Close()
		conns[i] = c
	}
	// The kernel completes this connection, but nobody answers it until another one ends.
	c, err := net.Dial("tcp", s.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "GET /healthz HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	conns[0].Close()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	answer, err := io.ReadAll(c)
	require.NoError(t, err)
	require.Contains(t, string(answer), "200 OK")
	for _, c := range conns {
		c.Close()
	}
}

func TestNoHTTPListener(t *testing.T) {
	o := options(t)
	o.Listen = ""
	s := start(t, o)
	require.Empty(t, s.Addr())
}

func TestShutdownEndsOpenRequests(t *testing.T) {
	o := options(t)
	entered := make(chan struct{})
	o.Reload = func(ctx context.Context) (ReloadReply, error) {
		close(entered)
		<-ctx.Done()
		return ReloadReply{}, ctx.Err()
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	s, err := New(o)
	require.NoError(t, err)
	go func() { done <- s.Serve(ctx) }()
	c, err := Dial(o.Socket)
	require.NoError(t, err)
	defer c.Close()
	refused := make(chan error, 1)
	go func() {
		_, err := c.Reload(t.Context())
		refused <- err
	}()
	<-entered
	cancel()
	require.NoError(t, <-done)
	require.ErrorContains(t, <-refused, "context canceled")
	require.NoFileExists(t, o.Socket)
}

func TestServeUntilDone(t *testing.T) {
	o := options(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, o) }()
	require.Eventually(t, func() bool {
		c, err := Dial(o.Socket)
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Stats(t.Context())
		return err == nil
	}, patience, time.Millisecond)
	cancel()
	require.NoError(t, <-done)
	require.Error(t, Serve(t.Context(), Options{}))
}

func TestRefusedListener(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	o := options(t)
	o.Listen = taken.Addr().String()
	_, err = New(o)
	require.EqualError(t, err, "listen for metrics on "+o.Listen+": address already in use: "+
		"set metrics.listen to an address of this network namespace with a free port, or to off")
	require.NoFileExists(t, o.Socket, "what was taken is given back")
}

func TestRefusedCollector(t *testing.T) {
	o := options(t)
	o.Collector = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "go_goroutines", Help: "Not ours."}, func() float64 { return 0 })
	_, err := New(o)
	require.ErrorContains(t, err, "register metrics: ")
	require.NoFileExists(t, o.Socket)
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	o := options(t)
	o.Log = slog.New(slog.NewTextHandler(&out, nil))
	o.Stats = func() (any, error) { return json.RawMessage("{"), nil }
	s, err := New(o)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	c, err := Dial(o.Socket)
	require.NoError(t, err)
	_, err = c.Stats(ctx)
	require.Error(t, err)
	c.Close()
	cancel()
	require.NoError(t, <-done)
	require.Contains(t, out.String(), "encode answer")
}
