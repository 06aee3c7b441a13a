package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Queues counts the receive and transmit queues an interface has now, from sysfs (queues/rx-*, queues/tx-*). Ask after attaching a
// program, since some drivers change their queues then; other sources of the number say how many there could be.
//
// What /sys shows are the devices of the network namespace it was mounted from. So a sysfs of the calling thread's own namespace is
// opened, without mounting it anywhere (Linux 5.2, CAP_SYS_ADMIN). Where that is refused, /sys is used if the interface there has the
// same index as in this namespace.
func Queues(name string) (rx, tx int, err error) {
	return countQueues(name, openSysfs)
}

// countQueues is Queues with the way to open a sysfs of this namespace.
func countQueues(name string, open func() (int, error)) (rx, tx int, err error) {
	link, err := findLink(name)
	if err != nil {
		return 0, 0, err
	}
	root, err := open()
	if err != nil {
		refused := err
		if root, err = unix.Open("/sys", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return 0, 0, fmt.Errorf("count queues of %s: open /sys: %w", name, err)
		}
		defer unix.Close(root)
		if index, err := sysfsIndex(root, name); err != nil || index != link.Attrs().Index {
			return 0, 0, fmt.Errorf("count queues of %s: /sys shows another network namespace, and this one's cannot be opened: %w: "+
				"grant CAP_SYS_ADMIN, or mount sysfs in this namespace", name, refused)
		}
	} else {
		defer unix.Close(root)
	}
	entries, err := readDirAt(root, "class/net/"+name+"/queues")
	if err != nil {
		return 0, 0, fmt.Errorf("count queues of %s: %w", name, err)
	}
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e, "rx-"):
			rx++
		case strings.HasPrefix(e, "tx-"):
			tx++
		}
	}
	return rx, tx, nil
}

// openSysfs opens a sysfs of the calling thread's network namespace that is mounted nowhere and ends with the descriptor.
func openSysfs() (int, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("fsopen sysfs: %w", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, fmt.Errorf("create sysfs: %w", err)
	}
	root, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_RDONLY)
	if err != nil {
		return -1, fmt.Errorf("fsmount sysfs: %w", err)
	}
	return root, nil
}

// sysfsIndex is the index of an interface in the sysfs at root.
func sysfsIndex(root int, name string) (int, error) {
	f, err := openAt(root, "class/net/"+name+"/ifindex", unix.O_RDONLY)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var text [16]byte
	n, err := f.Read(text[:])
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text[:n])))
}

// readDirAt lists a directory below root.
func readDirAt(root int, path string) ([]string, error) {
	dir, err := openAt(root, path, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// openAt opens a file below root.
func openAt(root int, path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Openat(root, path, flags|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: "sysfs " + path, Err: err}
		}
	}
}
