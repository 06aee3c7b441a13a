package vmtest

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Agent is the host's end of a guest's agent. All methods may be called from any goroutine.
type Agent struct {
	conn  io.ReadWriteCloser
	hello chan struct{} // closed when the guest has spoken, or never will
	ended chan struct{} // closed when nothing more comes from the guest

	sending sync.Mutex // never taken inside mu, and not by the reader: the guest may be waiting to be read
	enc     *gob.Encoder

	mu        sync.Mutex
	processes map[uint64]*Process // running
	last      uint64
	release   string
	err       error // why nothing more comes
}

// ErrGone is the cause when the guest has ended: it was closed, its kernel panicked, or its time was up.
var ErrGone = errors.New("the guest has ended")

// NewAgent starts to read from conn, whose other end is read by Serve. It takes conn over.
func NewAgent(conn io.ReadWriteCloser) *Agent {
	a := &Agent{
		conn: conn, enc: gob.NewEncoder(conn), hello: make(chan struct{}), ended: make(chan struct{}),
		processes: map[uint64]*Process{},
	}
	go a.read()
	return a
}

// Wait waits until the guest's agent runs and returns the release of the guest's kernel.
func (a *Agent) Wait(ctx context.Context) (release string, err error) {
	select {
	case <-a.hello:
	case <-ctx.Done():
		return "", fmt.Errorf("wait for the guest's agent: %w", ctx.Err())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.release == "" {
		return "", a.err
	}
	return a.release, nil
}

// Gone is closed when nothing more comes from the guest.
func (a *Agent) Gone() <-chan struct{} { return a.ended }

// Close ends the conversation: what still runs in the guest is killed, and every Process ends. It returns when nothing reads any more.
func (a *Agent) Close() error {
	err := a.conn.Close()
	<-a.ended
	return err
}

// read sorts reports until there are no more.
func (a *Agent) read() {
	defer close(a.ended)
	var err error
	for dec := gob.NewDecoder(a.conn); err == nil; {
		var r report
		if err = dec.Decode(&r); err == nil {
			a.take(r)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = fmt.Errorf("%w: %w", ErrGone, err)
	for _, p := range a.processes {
		p.end(-1, a.err)
	}
	a.processes = nil
	if a.release == "" {
		close(a.hello)
	}
}

func (a *Agent) take(r report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch p := a.processes[r.Process]; {
	case r.Process == 0:
		a.release = r.Release
		close(a.hello)
	case p == nil:
	case len(r.Data) > 0:
		p.output(r.Stderr, r.Data)
	default:
		delete(a.processes, r.Process)
		var err error
		if r.Err != "" {
			err = errors.New(r.Err)
		}
		p.end(r.Code, err)
	}
}

// Command is a command for the guest.
type Command struct {
	Argv  []string // the program, looked up in the guest's PATH, and its arguments
	Env   []string // added to the guest's environment
	Stdin []byte   // all of its standard input
}

// Start starts a command in the guest. That it cannot be started is the error of its Wait.
func (a *Agent) Start(c Command) (*Process, error) {
	if len(c.Argv) == 0 {
		return nil, errors.New("start in the guest: no program named")
	}
	p := &Process{agent: a, name: strings.Join(c.Argv, " "), changed: make(chan struct{}), ended: make(chan struct{})}
	if err := a.enter(p); err != nil {
		return nil, err
	}
	if err := a.send(request{Process: p.number, Argv: c.Argv, Env: c.Env, Stdin: c.Stdin}); err != nil {
		return nil, fmt.Errorf("start %s in the guest: %w", p.name, err)
	}
	return p, nil
}

// enter gives a process its number, before the first report about it can come.
func (a *Agent) enter(p *Process) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return fmt.Errorf("start %s in the guest: %w", p.name, a.err)
	}
	a.last++
	p.number = a.last
	a.processes[p.number] = p
	return nil
}

func (a *Agent) send(r request) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	return a.enc.Encode(r)
}

// Run runs a command in the guest to its end. An exit code other than 0 is an *ExitError. When ctx ends first, the process is killed.
func (a *Agent) Run(ctx context.Context, argv ...string) (stdout string, err error) {
	p, err := a.Start(Command{Argv: argv})
	if err != nil {
		return "", err
	}
	code, err := p.Wait(ctx)
	switch {
	case err != nil:
		return p.Stdout(), errors.Join(err, p.Signal(unix.SIGKILL))
	case code != 0:
		return p.Stdout(), &ExitError{Command: p.name, Code: code, Stderr: p.Stderr()}
	}
	return p.Stdout(), nil
}

// Upload writes a file of the guest, with its permissions.
func (a *Agent) Upload(ctx context.Context, path string, perm uint32, data []byte) error {
	p, err := a.Start(Command{Argv: []string{"sh", "-c", `cat >"$1" && chmod "$2" "$1"`, "sh", path, fmt.Sprintf("%o", perm)}, Stdin: data})
	if err != nil {
		return err
	}
	switch code, err := p.Wait(ctx); {
	case err != nil:
		return fmt.Errorf("write %s in the guest: %w", path, err)
	case code != 0:
		return fmt.Errorf("write %s in the guest: %s", path, strings.TrimSpace(p.Stderr()))
	}
	return nil
}

// ExitError says that a command in the guest failed.
type ExitError struct {
	Command string
	Code    int    // 128 and the signal's number when a signal ended it
	Stderr  string // all of it
	Err     error  // why it could not be started or watched to its end; nil when it ended by itself
}

// Error names the command and what came of it.
func (e *ExitError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s in the guest: %v", e.Command, e.Err)
	}
	return fmt.Sprintf("%s in the guest: exit code %d: %s", e.Command, e.Code, strings.TrimSpace(e.Stderr))
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Process is a process in the guest. All methods may be called from any goroutine.
type Process struct {
	agent  *Agent
	number uint64
	name   string
	ended  chan struct{} // closed when it has ended; code and err are valid then
	code   int
	err    error

	mu             sync.Mutex
	changed        chan struct{} // closed and replaced when there is more output
	stdout, stderr bytes.Buffer
}

// String is the command.
func (p *Process) String() string { return p.name }

// Stdout is what the process has written to its standard output so far.
func (p *Process) Stdout() string { return p.text(&p.stdout) }

// Stderr is what the process has written to its standard error so far.
func (p *Process) Stderr() string { return p.text(&p.stderr) }

func (p *Process) text(b *bytes.Buffer) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return b.String()
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Wait waits until the process has ended and returns its exit code, 128 and the signal's number when a signal ended it. The error says
// that it could not be started, that ctx or the guest ended first.
func (p *Process) Wait(ctx context.Context) (code int, err error) {
	select {
	case <-p.ended:
	case <-ctx.Done():
		return -1, fmt.Errorf("wait for %s in the guest: %w", p.name, ctx.Err())
	}
	if p.err != nil {
		return p.code, &ExitError{Command: p.name, Code: p.code, Err: p.err}
	}
	return p.code, nil
}

// WaitFor waits until match is true of the output so far. It is an error when the process ends first, or ctx.
func (p *Process) WaitFor(ctx context.Context, match func(stdout, stderr string) bool) error {
	for {
		p.mu.Lock()
		changed := p.changed
		ok := match(p.stdout.String(), p.stderr.String())
		p.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for output of %s in the guest: %w; stderr: %s", p.name, ctx.Err(), p.Stderr())
		case <-p.ended:
			if match(p.Stdout(), p.Stderr()) {
				return nil
			}
			return &ExitError{Command: p.name, Code: p.code, Stderr: p.Stderr(), Err: p.err}
		}
	}
}

// Signal sends a signal to the process, which may have ended.
func (p *Process) Signal(s unix.Signal) error {
	if err := p.agent.send(request{Process: p.number, Signal: s}); err != nil {
		return fmt.Errorf("signal %s in the guest: %w", p.name, err)
	}
	return nil
}

func (p *Process) output(stderr bool, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stderr {
		p.stderr.Write(b)
	} else {
		p.stdout.Write(b)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Process) end(code int, err error) {
	p.code, p.err = code, err
	close(p.ended)
}
