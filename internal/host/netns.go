package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NetnsInode is the inode of the calling thread's network namespace, which names it as long as it lives.
func NetnsInode() (uint64, error) {
	var s unix.Stat_t
	// Not self: that is the process's first thread, which may be in another namespace.
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("identify the network namespace: %w", err)
	}
	return s.Ino, nil
}
