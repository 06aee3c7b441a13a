package queues

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// linux is the Kernel in use.
type linux struct{}

const hugePage = 2 << 20

// Map implements Kernel.
func (linux) Map(size int) ([]byte, string, error) {
	const prot, flags = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_POPULATE
	if rounded := (uint64(size) + hugePage - 1) &^ (hugePage - 1); size >= hugePage {
		// Huge pages are reserved at mmap, so success here cannot turn into SIGBUS later.
		mapping, err := unix.Mmap(-1, 0, int(rounded), prot, flags|unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
		if err == nil {
			return mapping, "2 MiB", nil
		}
	}
	mapping, err := unix.Mmap(-1, 0, size, prot, flags)
	if err != nil {
		return nil, "", fmt.Errorf("mmap: %w", err)
	}
	return mapping, fmt.Sprintf("%d KiB", os.Getpagesize()>>10), nil
}

// Unmap implements Kernel.
func (linux) Unmap(mapping []byte) error { return unix.Munmap(mapping) }
