package nettest_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestLinkAttr: attributes are those of the namespace's own link, although another namespace has one of the same name.
func TestLinkAttr(t *testing.T) {
	top := nettest.T0(t)
	for _, ns := range []*nettest.NS{top.Src, top.Dst} {
		require.NoError(t, nettest.Veth(ns, "same", ns, "peer", nettest.VethOptions{}))
	}
	require.NoError(t, top.Src.SetLinkAttr("same", "tx_queue_len", "77"))
	got, err := top.Src.LinkAttr("same", "tx_queue_len")
	require.NoError(t, err)
	require.Equal(t, "77", got)
	got, err = top.Dst.LinkAttr("same", "tx_queue_len")
	require.NoError(t, err)
	require.Equal(t, "1000", got)

	_, err = top.Src.LinkAttr("same", "none")
	require.ErrorIs(t, err, unix.ENOENT)
	require.ErrorIs(t, top.Src.SetLinkAttr("nobody", "tx_queue_len", "1"), unix.ENOENT)
	require.ErrorIs(t, top.Src.SetLinkAttr("same", "tx_queue_len", "many"), unix.EINVAL)
}

// TestStartUnpinned: a process in a namespace may use all CPUs that this process began with, whatever its threads are pinned to.
func TestStartUnpinned(t *testing.T) {
	nettest.RequirePrivilege(t)
	var all, one unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
		}
	}
	pinThreads(t, &one)
	defer pinThreads(t, &all)
	ns, err := nettest.NewNS("pinned")
	require.NoError(t, err)
	defer ns.Close()
	var out bytes.Buffer
	cmd := exec.Command("nproc")
	cmd.Stdout = &out
	require.NoError(t, ns.Run(cmd))
	require.Equal(t, fmt.Sprint(all.Count()), strings.TrimSpace(out.String()))
}

// pinThreads pins all threads of this process.
func pinThreads(t *testing.T, set *unix.CPUSet) {
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		if err := unix.SchedSetaffinity(tid, set); err != unix.ESRCH { // it may have ended
			require.NoError(t, err)
		}
	}
}
