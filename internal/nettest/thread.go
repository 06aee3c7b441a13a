package nettest

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on a locked operating system thread that enter has prepared, and waits for it. f and enter share that thread.
// Afterwards leave undoes what enter did; only when it succeeds does the thread go back to Go's pool, otherwise it dies.
// When f ends by runtime.Goexit, as testing's FailNow does, the calling goroutine ends in the same way.
func onThread(enter, leave, f func() error) error {
	var err error
	returned := false
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		defer func() {
			if leave() == nil {
				runtime.UnlockOSThread()
			}
		}()
		if err = enter(); err == nil {
			err = f()
		}
		returned = true
	}()
	<-done
	if !returned {
		runtime.Goexit()
	}
	return err
}

// inNamespace runs f on a thread inside the network namespace that fd refers to.
func inNamespace(fd int, f func() error) error {
	home := -1
	enter := func() (err error) {
		if home, err = openThreadNS(); err != nil {
			return err
		}
		if err = unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace: %w: needs CAP_SYS_ADMIN", err)
		}
		return nil
	}
	leave := func() error {
		if home < 0 {
			return nil
		}
		defer unix.Close(home)
		return unix.Setns(home, unix.CLONE_NEWNET)
	}
	return onThread(enter, leave, f)
}

// openThreadNS opens the network namespace of the calling thread, which must be locked.
func openThreadNS() (int, error) {
	// thread-self, not self: self is the main thread, whose namespace may differ.
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open /proc/thread-self/ns/net: %w: is /proc mounted?", err)
	}
	return fd, nil
}
