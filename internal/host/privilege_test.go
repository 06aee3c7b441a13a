package host

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

func TestMissingCapabilities(t *testing.T) {
	all := uint64(1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON)
	require.Empty(t, missingCapabilities(all))
	require.Empty(t, missingCapabilities(all&^(1<<unix.CAP_BPF|1<<unix.CAP_PERFMON)|1<<unix.CAP_SYS_ADMIN), "which includes it")
	require.Equal(t, []string{"CAP_BPF (to load the receive program)"}, missingCapabilities(all&^(1<<unix.CAP_BPF)))
	require.Len(t, missingCapabilities(0), 4)
}

func TestCapabilities(t *testing.T) {
	nettest.RequirePrivilege(t)
	require.NoError(t, Capabilities())
	// Capabilities are a thread's: one that dies with its goroutine can give them away.
	answer := make(chan error)
	go func() {
		runtime.LockOSThread()
		answer <- withoutCapabilities(Capabilities)
	}()
	require.EqualError(t, <-answer, "start: missing CAP_NET_ADMIN (to attach to interfaces, read rules and routes), "+
		"CAP_NET_RAW (to open AF_XDP sockets), CAP_BPF (to load the receive program), CAP_PERFMON (to let the kernel verify it): "+
		"run as root, or grant them (setcap, or AmbientCapabilities= of a systemd unit)")
}

// withoutCapabilities calls f after the calling thread gave up all capabilities.
func withoutCapabilities(f func() error) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return err
	}
	return f()
}

func TestLockedMemory(t *testing.T) {
	require.NoError(t, lockedMemory(32<<20, true, 8<<20))
	require.NoError(t, lockedMemory(8<<20, false, 8<<20))
	require.NoError(t, lockedMemory(1<<40, false, unix.RLIM_INFINITY))
	require.EqualError(t, lockedMemory(32<<20, false, 8<<20), "register 32768 KiB of packet memory: more than the limit of locked memory, 8192 KiB: "+
		"grant CAP_IPC_LOCK, raise the limit (ulimit -l, or LimitMEMLOCK= of a systemd unit), or lower umem.frames")
	require.NoError(t, LockedMemory(0))
}
