package queues

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holders names the other processes that have AF_XDP sockets in this network
// namespace, as `; AF_XDP sockets are open in pid 812 "suricata"`, or returns ""
// when it finds none. The kernel does not say who holds a queue; but whoever has an
// AF_XDP socket maps its rings, and those mappings show in /proc.
func holders() string {
	const self = "/proc/thread-self/ns/net"
	namespace, err := os.Readlink(self)
	if err != nil {
		return ""
	}
	processes, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good, so there is no error
	var found []string
	for _, dir := range processes {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that ended meanwhile, or that we may not read, is none we can name.
		if n, err := os.Readlink(filepath.Join(dir, "ns/net")); err != nil || n != namespace {
			continue
		}
		if maps, err := os.ReadFile(filepath.Join(dir, "maps")); err != nil || !mapsRings(maps) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		found = append(found, fmt.Sprintf("pid %d %q", pid, strings.TrimSpace(string(name))))
	}
	if found == nil {
		return ""
	}
	return "; AF_XDP sockets are open in " + strings.Join(found, ", ")
}

// mapsRings reports whether a /proc/<pid>/maps has a Fill or Completion ring in it: a
// socket mapped at the offset that only AF_XDP gives a meaning (if_xdp.h).
func mapsRings(maps []byte) bool {
	for line := range bytes.Lines(maps) {
		f := bytes.Fields(line) // address, permissions, offset, device, inode, path
		if len(f) < 6 || !bytes.HasPrefix(f[5], []byte("socket:[")) {
			continue
		}
		switch string(f[2]) {
		case "100000000", "180000000": // XDP_UMEM_PGOFF_FILL_RING, XDP_UMEM_PGOFF_COMPLETION_RING
			return true
		}
	}
	return false
}
