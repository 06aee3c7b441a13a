package nettest

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"
)

// Command returns a command to be started inside the namespace with Start. ctx kills it, as in exec.CommandContext.
func (n *NS) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, name, args...)
}

// Start starts cmd inside the namespace; the caller waits for it with cmd.Wait. All processes of one NS share a private mount
// namespace whose /sys shows the namespace's own devices; as under `ip netns exec`, what was mounted below /sys (bpf, cgroup) is not
// there, and mounts elsewhere are seen but not passed back. They may run on the CPUs that this process was started with, whatever its
// threads have been pinned to since. A command with SysProcAttr.Pdeathsig gets that signal when
// the NS is closed or this process dies, never because some thread of Go's ended.
func (n *NS) Start(cmd *exec.Cmd) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fmt.Errorf("start %s in %s: namespace is closed", cmd.Path, n.name)
	}
	if n.spawner == nil {
		s, err := newSpawner(n.fd)
		if err != nil {
			return fmt.Errorf("start %s in %s: %w", cmd.Path, n.name, err)
		}
		n.spawner = s
	}
	if err := n.spawner.start(cmd); err != nil {
		return fmt.Errorf("start %s in %s: %w", cmd.Path, n.name, err)
	}
	return nil
}

// Run starts cmd inside the namespace and waits for it.
func (n *NS) Run(cmd *exec.Cmd) error {
	if err := n.Start(cmd); err != nil {
		return err
	}
	return cmd.Wait()
}

// startCPUs are the CPUs this process was started with.
var startCPUs = func() (set unix.CPUSet) {
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		set.Fill()
	}
	return set
}()

// spawner is one locked thread inside a namespace that forks all its processes. The parent-death signal of a child follows the
// thread that forked it, so that thread lives as long as the NS.
type spawner struct {
	requests chan *exec.Cmd
	replies  chan error
	done     chan struct{}
}

func newSpawner(fd int) (*spawner, error) {
	s := &spawner{requests: make(chan *exec.Cmd), replies: make(chan error), done: make(chan struct{})}
	go s.run(fd)
	return s, <-s.replies
}

func (s *spawner) start(cmd *exec.Cmd) error {
	s.requests <- cmd
	return <-s.replies
}

func (s *spawner) stop() {
	close(s.requests)
	<-s.done
}

// run never unlocks its thread, so the thread dies with it.
func (s *spawner) run(fd int) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The main thread cannot die, and /proc/self would show the namespace it is left in. While it is locked here, the same
		// function in another goroutine gets another thread.
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			s.run(fd)
		}()
		<-finished
		runtime.UnlockOSThread()
		return
	}
	defer close(s.done)
	err := enterForExec(fd)
	s.replies <- err
	if err != nil {
		return
	}
	for cmd := range s.requests {
		s.replies <- cmd.Start()
	}
}

// enterForExec puts the calling thread into the network namespace and into a mount namespace with that namespace's sysfs.
func enterForExec(fd int) error {
	if err := unix.SchedSetaffinity(0, &startCPUs); err != nil {
		return fmt.Errorf("unpin the thread that starts processes: %w", err)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w: needs CAP_SYS_ADMIN", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("unshare mount namespace: %w: needs CAP_SYS_ADMIN", err)
	}
	// Slave: unmounts of /run/netns outside still reach us (or we would keep namespaces alive), ours do not leave.
	if err := unix.Mount("", "/", "none", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sysfs on /sys: %w", err)
	}
	return nil
}
