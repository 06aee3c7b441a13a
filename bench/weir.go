package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/engine"
	"weir/internal/control"
	"weir/internal/nettest"
)

const (
	startTimeout = 10 * time.Second
	stopTimeout  = 5 * time.Second
)

// Weir is a weir that runs as a process of its own in a network namespace.
type Weir struct {
	process *exec.Cmd
	ended   chan error
	stderr  bytes.Buffer
	socket  string
	client  *control.Client
}

// StartWeir runs this very program as `weir run` with args in a namespace and returns when it forwards. It dies with this
// process, however that ends. Stop ends it.
func StartWeir(ctx context.Context, ns *nettest.NS, args ...string) (_ *Weir, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	var namespace unix.Stat_t
	if err := unix.Fstat(ns.FD(), &namespace); err != nil {
		return nil, fmt.Errorf("find the control socket of %s: %w", ns.Name(), err)
	}
	w := &Weir{ended: make(chan error, 1), socket: control.SocketPath(namespace.Ino)}
	args = append([]string{"run", "--set", "metrics.listen=off"}, args...)
	w.process = ns.Command(context.WithoutCancel(ctx), self, args...)
	w.process.Stderr = &w.stderr
	w.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := ns.Start(w.process); err != nil {
		return nil, fmt.Errorf("start weir run: %w", err)
	}
	go func() { w.ended <- w.process.Wait() }()
	if err := w.waitReady(ctx); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

// waitReady waits until the control socket answers, which it does only when packets are forwarded.
func (w *Weir) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		client, err := control.Dial(w.socket)
		if err == nil {
			w.client = client
			if _, err = w.Stats(ctx); err == nil {
				return nil
			}
		}
		select {
		case end := <-w.ended:
			w.ended <- end
			return fmt.Errorf("weir run ended before it forwarded (%v): %s", end, bytes.TrimSpace(w.stderr.Bytes()))
		case <-ctx.Done():
			return fmt.Errorf("weir run does not answer on its control socket within %s: %w", startTimeout, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stats reads the counters through the control socket.
func (w *Weir) Stats(ctx context.Context) (engine.Stats, error) {
	var st engine.Stats
	raw, err := w.client.Stats(ctx)
	if err == nil {
		err = json.Unmarshal(raw, &st)
	}
	return st, err
}

// livelocks is how often weir's watchdog has fired.
func (w *Weir) livelocks(ctx context.Context) (uint64, error) {
	st, err := w.Stats(ctx)
	return st.Livelock.Episodes, err
}

// Pid is the process id.
func (w *Weir) Pid() int { return w.process.Process.Pid }

// Stop ends weir with SIGTERM and reports how it ended; an exit code other than 0 is an error, with what it wrote.
func (w *Weir) Stop() error {
	if w.client != nil {
		_ = w.client.Close() // idle connections only
	}
	_ = w.process.Process.Signal(syscall.SIGTERM) // it may have ended already; Wait tells
	var err error
	select {
	case err = <-w.ended:
	case <-time.After(stopTimeout):
		_ = w.process.Process.Kill()
		err = errors.Join(fmt.Errorf("weir run: still there %s after SIGTERM", stopTimeout), <-w.ended)
	}
	if err != nil {
		err = fmt.Errorf("weir run: %w: %s", err, bytes.TrimSpace(w.stderr.Bytes()))
	}
	return err
}
