package nettest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NS is a network namespace of this process, mounted in /run/netns under its name. All methods may be called from any goroutine.
type NS struct {
	name   string
	fd     int
	handle *netlink.Handle

	mounted bool

	mu      sync.Mutex
	spawner *spawner
	closed  bool
}

// NewNS makes the network namespace weir-<pid>-<name> and mounts it in /run/netns, so that `ip netns exec` works on it. It starts
// quiet and predictable: lo up, forwarding off, reverse path filter off, IPv6 on without duplicate address detection, router
// solicitations and router advertisements. name must be a file name of letters, digits, - and _, unique in this process.
// The caller closes it. Needs CAP_SYS_ADMIN and CAP_NET_ADMIN.
func NewNS(name string) (*NS, error) {
	if name == "" || strings.Trim(name, nameBytes) != "" {
		return nil, fmt.Errorf("create namespace %q: name has a byte that is not in [A-Za-z0-9_-]: choose another", name)
	}
	n := &NS{name: fmt.Sprintf("weir-%d-%s", os.Getpid(), name), fd: -1}
	if err := n.create(); err != nil {
		n.Close()
		return nil, fmt.Errorf("create namespace %s: %w", n.name, err)
	}
	return n, nil
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

func (n *NS) create() error {
	fd, err := newNamespace()
	if err != nil {
		return err
	}
	n.fd = fd
	if err := mountNamespace(fd, n.Path()); err != nil {
		return err
	}
	n.mounted = true
	err = n.Do(func() (err error) {
		if err := quiet(); err != nil {
			return err
		}
		n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return err
	}
	return n.Up("lo")
}

// newNamespace makes an empty network namespace and returns a descriptor that keeps it alive.
func newNamespace() (int, error) {
	home, fd := -1, -1
	enter := func() (err error) {
		if home, err = openThreadNS(); err != nil {
			return err
		}
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare network namespace: %w: needs CAP_SYS_ADMIN", err)
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
	err := onThread(enter, leave, func() (err error) {
		fd, err = openThreadNS()
		return err
	})
	return fd, err
}

// Name returns the full name, weir-<pid>-<name>.
func (n *NS) Name() string { return n.name }

// Path returns the file the namespace is mounted on.
func (n *NS) Path() string { return filepath.Join(runNetns, n.name) }

// FD returns a descriptor of the namespace. It belongs to the NS and is valid until Close.
func (n *NS) FD() int { return n.fd }

// Handle returns a netlink handle that works inside the namespace, for what the methods of NS do not cover. It belongs to the NS,
// is valid until Close and may be used from any goroutine.
func (n *NS) Handle() *netlink.Handle { return n.handle }

// Do runs f on a thread inside the namespace and returns its error. Sockets and files of /proc/sys/net that f opens belong to the
// namespace. f must not start goroutines that are meant to run inside: they run on other threads. Do may be nested.
func (n *NS) Do(f func() error) error { return inNamespace(n.fd, f) }

// Close ends the spawner thread, unmounts the namespace and removes its file. The kernel frees the namespace, with all its links,
// when the last process and socket in it is gone. Close may be called more than once.
func (n *NS) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	if n.spawner != nil {
		n.spawner.stop()
	}
	if n.handle != nil {
		// A veth whose namespace dies goes away some time later, by a kernel worker. Whoever makes the same names again at once
		// would meet it, so take the links down with us.
		n.deleteLinks()
		n.handle.Close()
	}
	var errs []error
	if n.mounted {
		errs = append(errs, unmountNamespace(n.Path()))
	}
	if n.fd >= 0 {
		errs = append(errs, unix.Close(n.fd))
	}
	return errors.Join(errs...)
}

func (n *NS) deleteLinks() {
	links, err := n.handle.LinkList()
	if err != nil {
		return
	}
	for _, l := range links {
		if l.Attrs().Name != "lo" {
			_ = n.handle.LinkDel(l) // gone with its peer, or cannot be deleted: the namespace takes it
		}
	}
}
