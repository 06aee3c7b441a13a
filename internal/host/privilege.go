package host

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// Capabilities says which capabilities the calling thread lacks to run weir; nil if none. It cannot see whether the process is in a user
// namespace that the kernel does not trust with BPF.
func Capabilities() error {
	have, err := effectiveCapabilities()
	if err != nil {
		return err
	}
	if missing := missingCapabilities(have); len(missing) > 0 {
		return fmt.Errorf("start: missing %s: run as root, or grant them (setcap, or AmbientCapabilities= of a systemd unit)",
			strings.Join(missing, ", "))
	}
	return nil
}

// missingCapabilities lists what a set lacks, each with what it is for.
func missingCapabilities(have uint64) []string {
	var missing []string
	for _, need := range []struct {
		name string
		any  []uint
		what string
	}{
		{"CAP_NET_ADMIN", []uint{unix.CAP_NET_ADMIN}, "attach to interfaces, read rules and routes"},
		{"CAP_NET_RAW", []uint{unix.CAP_NET_RAW}, "open AF_XDP sockets"},
		{"CAP_BPF", []uint{unix.CAP_BPF, unix.CAP_SYS_ADMIN}, "load the receive program"},
		{"CAP_PERFMON", []uint{unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}, "let the kernel verify it"},
	} {
		held := false
		for _, bit := range need.any {
			held = held || have&(1<<bit) != 0
		}
		if !held {
			missing = append(missing, fmt.Sprintf("%s (to %s)", need.name, need.what))
		}
	}
	return missing
}

// effectiveCapabilities is the effective set of the calling thread, a bit for each capability.
func effectiveCapabilities() (uint64, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData // of 32 capabilities each
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return uint64(sets[1].Effective)<<32 | uint64(sets[0].Effective), nil
}

// LockedMemory says whether the process may register this many bytes of packet memory; nil if so.
//
// The kernel charges every UMEM of a user against RLIMIT_MEMLOCK, and answers ENOBUFS beyond it, unless the process has CAP_IPC_LOCK
// (xdp_umem_account_pages, net/xdp/xdp_umem.c). What other processes of this user have charged is not visible, so a nil answer is no
// promise. BPF maps are charged to the memory cgroup instead, since Linux 5.11.
func LockedMemory(umem uint64) error {
	have, err := effectiveCapabilities()
	if err != nil {
		return err
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return fmt.Errorf("read the limit of locked memory: %w", err)
	}
	return lockedMemory(umem, have&(1<<unix.CAP_IPC_LOCK) != 0, limit.Cur)
}

// lockedMemory is the rule of LockedMemory.
func lockedMemory(umem uint64, ipcLock bool, limit uint64) error {
	if ipcLock || umem <= limit {
		return nil
	}
	return fmt.Errorf("register %d KiB of packet memory: more than the limit of locked memory, %d KiB: "+
		"grant CAP_IPC_LOCK, raise the limit (ulimit -l, or LimitMEMLOCK= of a systemd unit), or lower umem.frames", umem>>10, limit>>10)
}
