package nettest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"weir/internal/nettest"
)

func newNS(t *testing.T, name string) *nettest.NS {
	t.Helper()
	nettest.RequirePrivilege(t)
	n, err := nettest.NewNS(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func threadNS(t *testing.T) string {
	t.Helper()
	id, err := os.Readlink("/proc/thread-self/ns/net")
	require.NoError(t, err)
	return id
}

func TestNSIsItsOwnNamespace(t *testing.T) {
	n := newNS(t, "own")
	require.Equal(t, fmt.Sprintf("weir-%d-own", os.Getpid()), n.Name())
	home, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)

	var inside string
	require.NoError(t, n.Do(func() error { inside = threadNS(t); return nil }))
	require.NotEqual(t, home, inside)

	lo, err := n.Link("lo")
	require.NoError(t, err)
	require.NotZero(t, lo.Attrs().Flags&1, "lo is up")
}

func TestNewNSRefusesBadNames(t *testing.T) {
	for _, name := range []string{"", "a/b", "..", "a b", "ü"} {
		_, err := nettest.NewNS(name)
		require.ErrorContains(t, err, "[A-Za-z0-9_-]", name)
	}
}

func TestNewNSRefusesTheSameNameTwiceAndKeepsTheFirst(t *testing.T) {
	n := newNS(t, "twice")
	_, err := nettest.NewNS("twice")
	require.ErrorIs(t, err, os.ErrExist)
	require.FileExists(t, n.Path())
	require.NoError(t, n.Do(func() error { return nil }))
}

// No goroutine outside Do may ever find itself inside a namespace, however threads are reused.
func TestDoNeverLeaksAThreadIntoThePool(t *testing.T) {
	n := newNS(t, "pool")
	home := threadNS(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				inside := ""
				err := n.Do(func() (err error) {
					inside, err = os.Readlink("/proc/thread-self/ns/net")
					return err
				})
				if err != nil || inside == home {
					t.Errorf("inside %s, home %s: %v", inside, home, err)
				}
				if now, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || now != home {
					t.Errorf("outside Do in %s, home %s: %v", now, home, err)
				}
			}
		})
	}
	wg.Wait()
	main, err := os.Readlink("/proc/self/ns/net")
	require.NoError(t, err)
	require.Equal(t, home, main)
}

func TestDoNests(t *testing.T) {
	a, b := newNS(t, "a"), newNS(t, "b")
	var inA, inB, inAAgain string
	require.NoError(t, a.Do(func() error {
		inA = threadNS(t)
		err := b.Do(func() error { inB = threadNS(t); return nil })
		inAAgain = threadNS(t)
		return err
	}))
	require.Equal(t, inA, inAAgain)
	require.NotEqual(t, inA, inB)
}

// A failed require inside Do must end the test, not hang it.
func TestDoPassesGoexitOn(t *testing.T) {
	n := newNS(t, "goexit")
	ended := make(chan bool)
	go func() {
		returned := false
		defer func() { ended <- returned }()
		_ = n.Do(func() error { (&fakeT{}).FailNow(); return nil })
		returned = true
	}()
	require.False(t, <-ended)
}

func TestCloseRemovesFileMountAndLinks(t *testing.T) {
	a, b := newNS(t, "a"), newNS(t, "b")
	require.NoError(t, nettest.Veth(a, "v0", b, "v1", nettest.VethOptions{}))
	require.NoError(t, a.Close())
	require.NoFileExists(t, a.Path())
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), a.Name())
	_, err = b.Link("v1")
	require.Error(t, err, "the peer goes with the namespace, at once")
	require.NoError(t, a.Close(), "twice")
}

func TestCleanDead(t *testing.T) {
	nettest.RequirePrivilege(t)
	alive := newNS(t, "alive")

	// A namespace of a process that is dead: the mount and the file of ours under its name.
	dead := exec.Command("true")
	require.NoError(t, dead.Run())
	left := filepath.Join(filepath.Dir(alive.Path()), fmt.Sprintf("weir-%d-left", dead.Process.Pid))
	require.NoError(t, os.WriteFile(left, nil, 0))
	require.NoError(t, exec.Command("mount", "--bind", alive.Path(), left).Run())

	// And of a zombie.
	zombie := exec.Command("true")
	require.NoError(t, zombie.Start())
	defer zombie.Wait()
	ofZombie := filepath.Join(filepath.Dir(alive.Path()), fmt.Sprintf("weir-%d-left", zombie.Process.Pid))
	require.NoError(t, os.WriteFile(ofZombie, nil, 0))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", zombie.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	}, 10*time.Second, time.Millisecond)

	foreign := filepath.Join(filepath.Dir(alive.Path()), fmt.Sprintf("weir-0%d-x", dead.Process.Pid))
	require.NoError(t, os.WriteFile(foreign, nil, 0))
	defer os.Remove(foreign)

	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := nettest.CleanDead(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.NoFileExists(t, left)
	require.NoFileExists(t, ofZombie)
	require.FileExists(t, foreign, "not a name of ours")
	require.FileExists(t, alive.Path())
	require.NoError(t, alive.Up("lo"))
}

func TestSysctlBelongsToTheNamespace(t *testing.T) {
	a, b := newNS(t, "a"), newNS(t, "b")
	require.NoError(t, a.Sysctl("net.ipv4.ip_forward", "1"))
	for n, want := range map[*nettest.NS]string{a: "1", b: "0"} {
		got, err := n.GetSysctl("net.ipv4.ip_forward")
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.ErrorContains(t, a.Sysctl("net.ipv4.no_such_key", "1"), "net.ipv4.no_such_key")
}

func TestVeth(t *testing.T) {
	a, b := newNS(t, "a"), newNS(t, "b")
	require.NoError(t, nettest.Veth(a, "same", b, "same", nettest.VethOptions{
		MTU: 1400,
		A:   nettest.VethEnd{NumRX: 4, NumTX: 2, MAC: nettest.MACr0},
		B:   nettest.VethEnd{NumRX: 3, NumTX: 1},
	}))
	la, err := a.Link("same")
	require.NoError(t, err)
	lb, err := b.Link("same")
	require.NoError(t, err)
	require.Equal(t, [3]int{4, 2, 1400}, [3]int{la.Attrs().NumRxQueues, la.Attrs().NumTxQueues, la.Attrs().MTU})
	require.Equal(t, [3]int{3, 1, 1400}, [3]int{lb.Attrs().NumRxQueues, lb.Attrs().NumTxQueues, lb.Attrs().MTU})
	require.Equal(t, nettest.MACr0, la.Attrs().HardwareAddr)

	require.NoError(t, a.Up("same"))
	require.NoError(t, b.Up("same"))
	require.NoError(t, a.SetMTU("same", 1300))
	la, err = a.Link("same")
	require.NoError(t, err)
	require.Equal(t, 1300, la.Attrs().MTU)
	stats, err := a.EthtoolStats("same")
	require.NoError(t, err)
	require.Contains(t, stats, "peer_ifindex")
	require.NoError(t, a.Offload("same", "tx-tcp-segmentation", false))
	require.NoError(t, a.Down("same"))
	require.ErrorContains(t, a.Up("nix"), "nix")
	require.NoError(t, a.Delete("same"))
}

func TestRoutesAndNeighbours(t *testing.T) {
	top := nettest.T0(t)
	require.NoError(t, top.Rtr.Route("192.0.2.0/24", "10.0.2.2", ""))
	require.NoError(t, top.Rtr.Route("2001:db8:9::/48", "2001:db8:2::2", "r1"))
	require.NoError(t, top.Rtr.Route("198.51.100.0/24", "fe80::2", "r1"))
	require.NoError(t, top.Rtr.Route("203.0.113.0/24", "", "r0"))
	require.NoError(t, top.Rtr.DelRoute("203.0.113.0/24", "", "r0"))
	require.ErrorContains(t, top.Rtr.DelRoute("203.0.113.0/24", "", "r0"), "203.0.113.0/24")
	require.NoError(t, top.Rtr.Neigh("r1", "10.0.2.9", nettest.MACd0))
	require.NoError(t, top.Rtr.NeighState("r1", "10.0.2.10", nettest.MACd0, netlink.NUD_STALE))
	require.NoError(t, top.Rtr.DelNeigh("r1", "10.0.2.9"))
	require.NoError(t, top.Rtr.DelAddr("r1", "10.0.2.1/24"))
}

func TestProcessRunsInside(t *testing.T) {
	a, b := newNS(t, "a"), newNS(t, "b")
	require.NoError(t, nettest.Veth(a, "v0", b, "v1", nettest.VethOptions{A: nettest.VethEnd{NumRX: 3, NumTX: 2}}))
	ctx := context.Background()
	cmd := a.Command(ctx, "sh", "-c", "readlink /proc/self/ns/net; ls /sys/class/net; ls -d /sys/class/net/v0/queues/*")
	var out strings.Builder
	cmd.Stdout = &out
	require.NoError(t, a.Run(cmd))
	var inside string
	require.NoError(t, a.Do(func() error { inside = threadNS(t); return nil }))
	lines := strings.Fields(out.String())
	require.Equal(t, inside, lines[0])
	require.Contains(t, lines, "v0")
	require.Contains(t, lines, "/sys/class/net/v0/queues/rx-2")
	require.Contains(t, lines, "/sys/class/net/v0/queues/tx-1")
	require.NotContains(t, lines, "/sys/class/net/v0/queues/tx-2")

	require.ErrorContains(t, a.Start(a.Command(ctx, "/no/such/program")), "/no/such/program")
	require.NoError(t, a.Close())
	require.ErrorContains(t, a.Start(a.Command(ctx, "true")), "closed")
}

func TestCloseEndsProcessesThatAskForIt(t *testing.T) {
	n := newNS(t, "deathsig")
	cmd := n.Command(context.Background(), "sleep", "1000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, n.Start(cmd))
	require.NoError(t, n.Close())
	require.ErrorContains(t, cmd.Wait(), "killed")
}

// iproute2 is not needed, but it must work on our namespaces.
func TestIPNetnsExec(t *testing.T) {
	n := newNS(t, "ip")
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip(err)
	}
	out, err := exec.Command("ip", "netns", "exec", n.Name(), "readlink", "/proc/self/ns/net").CombinedOutput()
	require.NoError(t, err, string(out))
	var inside string
	require.NoError(t, n.Do(func() error { inside = threadNS(t); return nil }))
	require.Equal(t, inside, strings.TrimSpace(string(out)))
}
