package vmtest

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// outputDelay is how long the output of a process is still read after it has ended: a child of its own may keep the pipe open for ever.
const outputDelay = time.Second

// Serve is the guest's end: it starts processes and signals them as the host on conn asks, until conn ends. Processes still running
// then are killed, and Serve returns when they have ended.
func Serve(conn io.ReadWriter) error {
	s := &server{enc: gob.NewEncoder(conn), running: map[uint64]*os.Process{}}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("uname: %w", err)
	}
	s.report(report{Release: unix.ByteSliceToString(name.Release[:])})
	defer s.wg.Wait()
	defer s.killAll()
	dec := gob.NewDecoder(conn)
	for {
		var r request
		switch err := dec.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a request: %w", err)
		case len(r.Argv) > 0:
			s.start(r)
		default:
			s.signal(r.Process, r.Signal)
		}
	}
}

// server is one Serve.
type server struct {
	wg sync.WaitGroup

	sending sync.Mutex
	enc     *gob.Encoder

	mu      sync.Mutex
	running map[uint64]*os.Process
}

// report sends one report. That nobody reads any more shows in the next request.
func (s *server) report(r report) {
	s.sending.Lock()
	defer s.sending.Unlock()
	_ = s.enc.Encode(r)
}

// start starts a process and sees to its end.
func (s *server) start(r request) {
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Stdin = bytes.NewReader(r.Stdin)
	cmd.Stdout = &sender{s, report{Process: r.Process}}
	cmd.Stderr = &sender{s, report{Process: r.Process, Stderr: true}}
	cmd.WaitDelay = outputDelay
	if err := cmd.Start(); err != nil {
		s.report(report{Process: r.Process, Code: -1, Err: err.Error()})
		return
	}
	s.mu.Lock()
	s.running[r.Process] = cmd.Process
	s.mu.Unlock()
	s.wg.Go(func() {
		_ = cmd.Wait() // the state tells
		s.mu.Lock()
		delete(s.running, r.Process)
		s.mu.Unlock()
		s.report(report{Process: r.Process, Code: exitCode(cmd.ProcessState)})
	})
}

// signal sends a signal to a process that may just have ended.
func (s *server) signal(process uint64, signal unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.running[process]; p != nil {
		_ = p.Signal(signal)
	}
}

func (s *server) killAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.running {
		_ = p.Kill()
	}
}

// sender reports what a process writes to one of its outputs.
type sender struct {
	server *server
	report report
}

func (o *sender) Write(b []byte) (int, error) {
	r := o.report
	r.Data = b
	o.server.report(r)
	return len(b), nil
}

// exitCode is as a shell has it: 128 and the signal's number for a process that a signal ended.
func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
