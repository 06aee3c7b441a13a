package nettest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// runNetns is where iproute2 and we mount namespaces.
const runNetns = "/run/netns"

// mountNamespace binds the namespace behind fd to path.
func mountNamespace(fd int, path string) error {
	return withNetnsDir(func() error {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL, 0)
		if err != nil {
			return err
		}
		f.Close()
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), path, "", unix.MS_BIND, ""); err != nil {
			os.Remove(path)
			return fmt.Errorf("mount namespace on %s: %w: needs CAP_SYS_ADMIN", path, err)
		}
		return nil
	})
}

// unmountNamespace undoes mountNamespace. That somebody else has already done so is no error.
func unmountNamespace(path string) error {
	err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	if err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// withNetnsDir calls f while it holds the lock of /run/netns that iproute2 takes too. It makes the directory first and, as iproute2
// does, a shared mount of it: so an unmount reaches the copies in other mount namespaces, and a later `ip netns add` does not cover ours.
func withNetnsDir(f func() error) error {
	if err := os.MkdirAll(runNetns, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(runNetns)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := retryEINTR(func() error { return unix.Flock(int(dir.Fd()), unix.LOCK_EX) }); err != nil {
		return fmt.Errorf("lock %s: %w", runNetns, err)
	}
	err = unix.Mount("", runNetns, "none", unix.MS_SHARED|unix.MS_REC, "")
	if err == unix.EINVAL { // not a mount point yet
		if err = unix.Mount(runNetns, runNetns, "none", unix.MS_BIND|unix.MS_REC, ""); err == nil {
			err = unix.Mount("", runNetns, "none", unix.MS_SHARED|unix.MS_REC, "")
		}
	}
	if err != nil {
		return fmt.Errorf("share %s: %w: needs CAP_SYS_ADMIN", runNetns, err)
	}
	return f()
}

// CleanDead removes the namespaces that killed processes left: each weir-<pid>-<name> in /run/netns whose pid is gone or a zombie.
// Those of live processes stay, so any number of processes may call it at any time. A pid that was given to a new process keeps the
// namespace until that one ends, and a pid is looked up in our own pid namespace.
func CleanDead() error {
	if _, err := os.Stat(runNetns); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return withNetnsDir(func() error {
		entries, err := os.ReadDir(runNetns)
		if err != nil {
			return err
		}
		var errs []error
		for _, e := range entries {
			if pid, ok := ownerOf(e.Name()); ok && !alive(pid) {
				errs = append(errs, unmountNamespace(filepath.Join(runNetns, e.Name())))
			}
		}
		return errors.Join(errs...)
	})
}

// ownerOf returns the pid in a name weir-<pid>-<name>.
func ownerOf(name string) (pid int, ok bool) {
	rest, ok := strings.CutPrefix(name, "weir-")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, "-")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(digits)
	return pid, err == nil && pid > 0 && strconv.Itoa(pid) == digits
}

// alive reports whether the process can still use a namespace: it exists and is no zombie. When that cannot be told it is alive.
func alive(pid int) bool {
	if unix.Kill(pid, 0) == unix.ESRCH {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return unix.Kill(pid, 0) != unix.ESRCH
	}
	// The command, in parentheses, may hold anything; the state follows the last one.
	i := strings.LastIndexByte(string(stat), ')')
	if i < 0 || i+2 >= len(stat) {
		return true
	}
	// A thread group whose leader has exited shows Z while other threads still run.
	if stat[i+2] == 'Z' {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		return err == nil && len(tasks) > 1
	}
	return stat[i+2] != 'X'
}

// retryEINTR calls f until it returns something other than EINTR, which Go's preemption signals cause at any time.
func retryEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
