package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/engine"
	"weir/internal/control"
	"weir/internal/nettest"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
	// refusalTimeout is how long weir may take to refuse what it cannot do.
	refusalTimeout = 2 * time.Second
	// restTimeout is how long after the last packet everything must be accounted for.
	restTimeout = time.Second
)

// process is a weir with a command of its own.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr capture
	began          time.Time
	took           time.Duration // until it ended; valid then
	ended          chan struct{}
}

// capture collects what a process writes while others read it.
type capture struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *capture) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *capture) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// weir returns the command `weir args...`, not yet started.
func weir(args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		panic(err) // Linux always knows
	}
	return exec.Command(self, args...)
}

// start starts a command in a namespace, or in that of the test when ns is nil. What is still there when the test ends is killed.
func start(t *testing.T, ns *nettest.NS, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, began: time.Now(), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.stdout, &p.stderr
	begin := cmd.Start
	if ns != nil {
		begin = func() error { return ns.Start(cmd) }
	}
	require.NoError(t, begin())
	go func() {
		_ = cmd.Wait() // the exit code tells
		p.took = time.Since(p.began)
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	return p
}

// wait waits until the process has ended and returns its exit code, -1 if a signal ended it.
func (p *process) wait(t *testing.T, timeout time.Duration) int {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(timeout):
		require.FailNow(t, "still running", "%s after %s; stderr: %s", p.cmd, timeout, &p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(s))
}

// kill ends the process as nobody can prepare for.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, unix.SIGKILL)
	p.wait(t, stopTimeout)
}

// stop ends the process with SIGTERM, which must be a success.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.signal(t, unix.SIGTERM)
	require.Zero(t, p.wait(t, stopTimeout), "exit code after SIGTERM; stderr: %s", &p.stderr)
}

// waitFor waits until the process has written to o what re matches, and returns the match with its groups.
func (p *process) waitFor(t *testing.T, o *capture, re *regexp.Regexp, timeout time.Duration) []string {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m
		}
		select {
		case <-p.ended:
			if m := re.FindStringSubmatch(o.String()); m != nil {
				return m
			}
			require.FailNow(t, "ended too early", "%s: no %q; stderr: %s", p.cmd, re, &p.stderr)
		case <-time.After(5 * time.Millisecond):
		}
		require.True(t, time.Now().Before(deadline), "%s: no %q within %s; stderr: %s", p.cmd, re, timeout, &p.stderr)
	}
}

// execute runs a command to its end and returns its exit code with what it wrote.
func execute(t *testing.T, ns *nettest.NS, cmd *exec.Cmd) (code int, p *process) {
	t.Helper()
	p = start(t, ns, cmd)
	return p.wait(t, startTimeout), p
}

// router is a `weir run` that forwards.
type router struct {
	*process
	socket, metrics string // as it announced them
	client          *control.Client
}

var announcement = regexp.MustCompile(`(?m)^forwarding; control socket (\S+), metrics (\S+)$`)

// startRouter starts `weir run args...` in a namespace and returns when it says that it forwards.
func startRouter(t *testing.T, ns *nettest.NS, args ...string) *router {
	t.Helper()
	return startRouterAs(t, ns, weir(append([]string{"run"}, args...)...))
}

// startRouterAs is startRouter for a command.
func startRouterAs(t *testing.T, ns *nettest.NS, cmd *exec.Cmd) *router {
	t.Helper()
	r := &router{process: start(t, ns, cmd)}
	m := r.waitFor(t, &r.stdout, announcement, startTimeout)
	r.socket, r.metrics = m[1], m[2]
	client, err := control.Dial(r.socket)
	require.NoError(t, err)
	r.client = client
	t.Cleanup(func() {
		require.NoError(t, client.Close())
		_ = os.Remove(r.socket) // one that was killed leaves it
	})
	return r
}

// stats reads all counters.
func (r *router) stats(t *testing.T) engine.Stats {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	raw, err := r.client.Stats(ctx)
	require.NoError(t, err)
	var st engine.Stats
	require.NoError(t, json.Unmarshal(raw, &st))
	return st
}

// atRest reads all counters when every packet and every frame is accounted for, which must be so within restTimeout.
func (r *router) atRest(t *testing.T) engine.Stats {
	t.Helper()
	for deadline := time.Now().Add(restTimeout); ; time.Sleep(10 * time.Millisecond) {
		st := r.stats(t)
		err := accountedFor(st)
		if err == nil {
			return st
		}
		require.True(t, time.Now().Before(deadline), "%s after the last packet: %v", restTimeout, err)
	}
}

// portOf is one port in a reading.
func portOf(t *testing.T, st engine.Stats, name string) engine.PortStats {
	t.Helper()
	for _, p := range st.Ports {
		if p.Name == name {
			return p
		}
	}
	require.FailNow(t, "no such port", "%s in %+v", name, st.Ports)
	return engine.PortStats{}
}

// sum adds up counters by reason.
func sum(by map[string]uint64) (n uint64) {
	for _, v := range by {
		n += v
	}
	return n
}

// oneLine requires a message of exactly one line and returns it.
func oneLine(t *testing.T, text string) string {
	t.Helper()
	line, rest, _ := strings.Cut(text, "\n")
	require.Empty(t, rest, "more than one line: %q", text)
	require.NotEmpty(t, line, "no message")
	return line
}

// gone reports whether a process has ended; a zombie has.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}
