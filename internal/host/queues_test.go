package host

import (
	"net"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

func TestQueues(t *testing.T) {
	ns := newRouter(t)
	count := func(name string) (rx, tx int) {
		inside(t, ns, func() (err error) {
			rx, tx, err = Queues(name)
			return err
		})
		return rx, tx
	}
	rx, tx := count("in0")
	require.Equal(t, []int{4, 2}, []int{rx, tx})
	rx, tx = count("p0")
	require.Equal(t, []int{2, 4}, []int{rx, tx})

	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
	})
	require.NoError(t, err)
	defer program.Close()
	inside(t, ns, func() error {
		l, err := findLink("in0")
		if err != nil {
			return err
		}
		attached, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: l.Attrs().Index})
		if err != nil {
			return err
		}
		defer attached.Close()
		rx, tx, err = Queues("in0")
		return err
	})
	require.Equal(t, []int{4, 2}, []int{rx, tx}, "with a program attached")

	require.NoError(t, ns.Do(func() error {
		_, _, err := Queues("eth9")
		require.ErrorIs(t, err, ErrNoInterface)
		_, _, err = Queues("../../class/net/in0")
		require.ErrorIs(t, err, ErrNoInterface)
		return nil
	}))
}

// TestQueuesLeaveNoTrace finds mounts and descriptors that counting leaves behind.
func TestQueuesLeaveNoTrace(t *testing.T) {
	nettest.RequirePrivilege(t)
	look := func() (mounts string, descriptors int) {
		text, err := os.ReadFile("/proc/thread-self/mountinfo")
		require.NoError(t, err)
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return string(text), len(fds)
	}
	mounts, descriptors := look()
	for range 20 {
		_, _, err := Queues("lo")
		require.NoError(t, err)
	}
	mountsAfter, descriptorsAfter := look()
	require.Equal(t, mounts, mountsAfter)
	require.Equal(t, descriptors, descriptorsAfter)
}

func TestQueuesWithoutOwnSysfs(t *testing.T) {
	ns := newRouter(t)
	refuse := func() (int, error) { return -1, unix.EPERM }
	rx, tx, err := countQueues("lo", refuse)
	require.NoError(t, err, "/sys is of this namespace")
	require.Equal(t, []int{1, 1}, []int{rx, tx})
	require.NoError(t, ns.Do(func() error {
		_, _, err := countQueues("in0", refuse)
		require.ErrorIs(t, err, unix.EPERM)
		require.ErrorContains(t, err, "count queues of in0: /sys shows another network namespace")
		return nil
	}))
}

func TestLinkCounters(t *testing.T) {
	ns := newRouter(t)
	for _, link := range []string{"in0", "p0"} {
		require.NoError(t, ns.Up(link))
	}
	require.NoError(t, ns.Ready("in0"))
	c, err := ns.OpenPacket("p0")
	require.NoError(t, err)
	defer c.Close()
	read := func() (counters Counters) {
		inside(t, ns, func() (err error) {
			link, err := net.InterfaceByName("in0")
			require.NoError(t, err)
			counters, err = LinkCounters(link.Index)
			return err
		})
		return counters
	}
	before := read()
	for range 5 {
		require.NoError(t, c.Send(make([]byte, 60)))
	}
	after := read()
	require.Equal(t, uint64(5), after.RxPackets-before.RxPackets)
	require.Equal(t, uint64(300), after.RxBytes-before.RxBytes)
	_, err = LinkCounters(1 << 20)
	require.ErrorIs(t, err, ErrNoInterface)
}

func TestDriver(t *testing.T) {
	ns := newRouter(t)
	inside(t, ns, func() error {
		driver, err := Driver("in0")
		require.Equal(t, "veth", driver)
		return err
	})
}

func TestNetnsInode(t *testing.T) {
	ns := newRouter(t)
	here, err := NetnsInode()
	require.NoError(t, err)
	var there uint64
	inside(t, ns, func() (err error) {
		there, err = NetnsInode()
		return err
	})
	var s unix.Stat_t
	require.NoError(t, unix.Stat(ns.Path(), &s))
	require.Equal(t, s.Ino, there)
	require.NotEqual(t, here, there)
}
