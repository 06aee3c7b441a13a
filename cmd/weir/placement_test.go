package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/bench"
	"weir/engine"
	"weir/internal/napi"
	"weir/internal/nettest"
	"weir/xdpprog"
)

// The tests of ownership have their generator, and all of this process, on one CPU, and weir's worker on the other.
const (
	generatorCPU = 0
	workerCPU    = 1
)

// Where in0's receive work runs: in softirq on the generator's CPU, or in a kernel thread on the worker's, as an equal or above it. The
// equals are generator, worker and kernel thread; whatever else runs on this machine is not to decide how a test ends.
var (
	equal = napi.Rank{Policy: unix.SCHED_NORMAL, Nice: -20}
	fifo  = napi.Rank{Policy: unix.SCHED_FIFO, Priority: 50}
)

// ownershipRig is a rig with one queue whose neighbours are known, and this process out of the worker's way until the test ends.
func ownershipRig(t *testing.T) *bench.Rig {
	t.Helper()
	if runtime.NumCPU() < 2 {
		require.NotEqual(t, "1", os.Getenv("REQUIRE_PRIVILEGED"), "needs two CPUs")
		t.Skip("needs two CPUs, one for the generator and one for the worker")
	}
	rig := newRig(t, 1)
	require.NoError(t, rig.FixNeighbours())
	pinProcess(t)
	raiseSession(t)
	return rig
}

// raiseSession makes the nice values of this session's processes, weir's among them, count beside those of others until the test ends.
// Without it the kernel shares each CPU among sessions first (autogroups, where it has them).
func raiseSession(t *testing.T) {
	t.Helper()
	const path = "/proc/self/autogroup"
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	require.NoError(t, err)
	before := string(b[bytes.LastIndexByte(b, ' ')+1:])
	err = os.WriteFile(path, []byte(strconv.Itoa(equal.Nice)), 0)
	if errors.Is(err, unix.EINVAL) {
		return // the kernel's own, root group, where processes share by their nice values alone
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.WriteFile(path, []byte(strings.TrimSpace(before)), 0)) })
}

// pinProcess keeps every thread of this process on the generator's CPU, all equals there, until the test ends: a kernel thread that outranks
// all on the worker's can be demoted at any time. Processes that nettest starts are not concerned.
func pinProcess(t *testing.T) {
	t.Helper()
	var home, pinned unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &home))
	rank := rankOf(t, unix.Getpid())
	pinned.Set(generatorCPU)
	setProcessCPUs(t, &pinned)
	setProcessRank(t, equal)
	t.Cleanup(func() {
		setProcessRank(t, rank)
		setProcessCPUs(t, &home)
	})
}

func setProcessRank(t *testing.T, rank napi.Rank) {
	t.Helper()
	eachThread(t, "self", func(tid int) error { return napi.SetThreadRank(tid, rank) })
}

func setProcessCPUs(t *testing.T, set *unix.CPUSet) {
	t.Helper()
	eachThread(t, "self", func(tid int) error { return unix.SchedSetaffinity(tid, set) })
}

// eachThread calls f for the threads of a process.
func eachThread(t *testing.T, pid string, f func(tid int) error) {
	t.Helper()
	// Twice: a thread that is made meanwhile inherits from its maker, which may not have had its turn.
	for range 2 {
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		require.NoError(t, err)
		for _, thread := range threads {
			tid, err := strconv.Atoi(thread.Name())
			require.NoError(t, err)
			if err := f(tid); !errors.Is(err, unix.ESRCH) {
				require.NoError(t, err)
			}
		}
	}
}

// startOwner starts `weir run` on a rig, its worker on the worker's CPU.
func startOwner(t *testing.T, rig *bench.Rig, args ...string) *router {
	t.Helper()
	return startOwnerAs(t, rig, weir(ownerArgs(args)...))
}

func ownerArgs(args []string) []string {
	return append([]string{"run", "--port", "in0", "--port", "out0", "--cpus", strconv.Itoa(workerCPU), "--set", fmt.Sprintf("poller.nice=%d", equal.Nice)}, args...)
}

func startOwnerAs(t *testing.T, rig *bench.Rig, cmd *exec.Cmd) *router {
	t.Helper()
	w := startRouterAs(t, rig.Router, cmd)
	eachThread(t, strconv.Itoa(w.cmd.Process.Pid), func(tid int) error { return napi.SetThreadRank(tid, equal) })
	return w
}

// napis lists the NAPIs of a link.
func napis(t *testing.T, ns *nettest.NS, link string) []napi.NAPI {
	t.Helper()
	var list []napi.NAPI
	onNAPIs(t, ns, link, func(_ *napi.Client, l []napi.NAPI) { list = l })
	return list
}

// onNAPIs runs f with the NAPIs of a link and a client of its namespace.
func onNAPIs(t *testing.T, ns *nettest.NS, link string, f func(*napi.Client, []napi.NAPI)) {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	require.NoError(t, ns.Do(func() error {
		client, err := napi.Dial()
		if err != nil {
			return err
		}
		defer client.Close()
		list, err := client.List(l.Attrs().Index)
		if err != nil {
			return err
		}
		f(client, list)
		return nil
	}))
}

// place gives in0's NAPI a kernel thread of that rank on the worker's CPU. It is demoted when the test ends, and after half a minute
// whatever becomes of the test.
func place(t *testing.T, rig *bench.Rig, rank napi.Rank) (pid int) {
	t.Helper()
	require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "1"))
	list := napis(t, rig.Router, "in0")
	require.Len(t, list, 1)
	pid = list[0].PID
	require.NotZero(t, pid)
	demote := func() { _ = napi.SetThreadRank(pid, napi.Rank{}) } // gone with its NAPI
	timer := time.AfterFunc(30*time.Second, demote)
	t.Cleanup(func() {
		timer.Stop()
		demote()
	})
	require.NoError(t, napi.SetThreadCPUs(pid, []int{workerCPU}))
	require.NoError(t, napi.SetThreadRank(pid, rank))
	return pid
}

// rankOf is the rank of a thread.
func rankOf(t *testing.T, pid int) napi.Rank {
	t.Helper()
	rank, _, err := napi.ThreadRank(pid)
	require.NoError(t, err)
	return rank
}

// startFlood floods the rig from the generator's CPU at a rate, or as fast as it goes when 0, until the function returned is called or
// the test ends.
func startFlood(t *testing.T, rig *bench.Rig, rate uint64) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- bench.OnCPU(generatorCPU, func() error {
			_, err := rig.Flood(ctx, rate, xdpprog.Bounds{Duration: time.Minute})
			return err
		})
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

// attachSink counts and drops the flood where it arrives.
func attachSink(t *testing.T, rig *bench.Rig) *xdpprog.Sink {
	t.Helper()
	sink, err := rig.AttachSink()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sink.Close()) })
	return sink
}

func arrived(t *testing.T, sink *xdpprog.Sink) uint64 {
	t.Helper()
	c, err := sink.Count()
	require.NoError(t, err)
	return c.Packets
}

// rate is how many packets a second arrive during a window.
func rate(t *testing.T, sink *xdpprog.Sink, window time.Duration) float64 {
	t.Helper()
	before, begin := arrived(t, sink), time.Now()
	time.Sleep(window)
	return float64(arrived(t, sink)-before) / time.Since(begin).Seconds()
}

// ownership is what weir says of the receive work of a port's first queue.
func (r *router) ownership(t *testing.T, port string) engine.OwnershipStats {
	t.Helper()
	st := r.stats(t)
	i := slices.IndexFunc(st.Ownership, func(o engine.OwnershipStats) bool { return o.Port == port && o.Queue == 0 })
	require.GreaterOrEqual(t, i, 0, "no queue 0 of %s in %+v", port, st.Ownership)
	return st.Ownership[i]
}

// waitOwned waits until weir owns the receive work of in0.
func (r *router) waitOwned(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return r.ownership(t, "in0").Owned }, ownTimeout, 10*time.Millisecond, "it does not own; stderr: %s", &r.stderr)
}

// ownTimeout is how long it may take until backlog is owned, on a machine that has other work.
const ownTimeout = 3 * time.Second

// drivenShare is the part of the frames at in0 that weir's own calls received during a window.
func (r *router) drivenShare(t *testing.T, window time.Duration) float64 {
	t.Helper()
	a := r.ownership(t, "in0")
	time.Sleep(window)
	b := r.ownership(t, "in0")
	require.Greater(t, b.Seen, a.Seen, "nothing came")
	return float64(b.SeenDriven-a.SeenDriven) / float64(b.Seen-a.Seen)
}

// logged counts the lines of weir's log that match.
func (r *router) logged(re string) int {
	return len(regexp.MustCompile("(?m)"+re).FindAllString(r.stderr.String(), -1))
}
