package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// claimTimeout bounds the wait for another weir that is claiming a socket in the same directory.
const claimTimeout = 2 * time.Second

// socket is a bound control socket. Closing it removes its file, unless the file is another's by now.
type socket struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// claim binds the control socket: the directory is made if it is missing, a socket nobody listens on is replaced, and one that a
// process listens on is refused with its pid.
func claim(path string) (*socket, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make directory of control socket %s: %w: run as root, or set control.socket", path, err)
	}
	// Two that start at once must not each find the socket stale, and the slower remove the faster's.
	unlock, err := lockDirectory(dir)
	if err != nil {
		return nil, fmt.Errorf("claim control socket %s: %w", path, err)
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("claim control socket %s: %w", path, err)
	}
	lc := net.ListenConfig{Control: ownerOnly}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("bind control socket %s: %w: run as root, or set control.socket", path, errno(err))
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false)
	if s.file, err = os.Lstat(path); err != nil {
		l.Close()
		return nil, fmt.Errorf("bind control socket %s: %w", path, err)
	}
	return s, nil
}

// Close ends listening and removes the file.
func (s *socket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		os.Remove(s.path)
	}
	return s.UnixListener.Close()
}

// ownerOnly sets the mode before bind makes the file, so that it is never open to others (unix_bind_bsd, net/unix/af_unix.c).
func ownerOnly(_, _ string, c syscall.RawConn) error {
	var err error
	if cerr := c.Control(func(fd uintptr) { err = syscall.Fchmod(int(fd), 0o600) }); cerr != nil {
		return cerr
	}
	return err
}

// removeStale removes a socket file that nobody listens on. It is an error if somebody does, or if the file is something else.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("the file is no socket (%v): remove it, or set control.socket", info.Mode())
	}
	conn, err := net.DialTimeout("unix", path, claimTimeout)
	switch {
	case err == nil:
		defer conn.Close()
		return fmt.Errorf("in use by %s: stop it, or set control.socket", peer(conn.(*net.UnixConn)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	}
	return errno(err)
}

// peer names the process that listens at the other end of a connection.
func peer(conn *net.UnixConn) string {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "another process"
	}
	var cred *syscall.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if cerr != nil || err != nil || cred.Pid == 0 {
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid))
	if err != nil {
		return fmt.Sprintf("pid %d", cred.Pid)
	}
	return fmt.Sprintf("pid %d %q", cred.Pid, strings.TrimSpace(string(comm)))
}

// lockDirectory takes the advisory lock on a directory, within claimTimeout.
func lockDirectory(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(claimTimeout); ; time.Sleep(10 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { f.Close() }, nil
		case err == syscall.EINTR:
		case err != syscall.EWOULDBLOCK || time.Now().After(deadline):
			f.Close()
			return nil, fmt.Errorf("lock directory %s: %w", dir, err)
		}
	}
}

// errno is the system's answer inside an error of package net, whose own text repeats the address.
func errno(err error) error {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return err
}
