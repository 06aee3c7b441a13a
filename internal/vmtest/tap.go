package vmtest

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenTap makes a tap with its queues in the network namespace of the calling thread. It is gone when the last queue is closed, by us
// and by the QEMU that got them. The caller closes them.
func OpenTap(name string, queues int) (_ []*os.File, err error) {
	var files []*os.File
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
		}
	}()
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if queues > 1 {
		flags |= unix.IFF_MULTI_QUEUE
	}
	for range queues {
		fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open /dev/net/tun: %w: load the module tun", err)
		}
		files = append(files, os.NewFile(uintptr(fd), "tap "+name))
		request, err := unix.NewIfreq(name)
		if err != nil {
			return nil, err
		}
		request.SetUint16(flags)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
			return nil, errors.Join(fmt.Errorf("make tap %s: %w", name, err))
		}
	}
	return files, nil
}
