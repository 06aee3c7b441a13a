package napi

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

func TestOutranks(t *testing.T) {
	// Each runs before all later ones, those on one line before each other never.
	order := [][]Rank{
		{{Policy: unix.SCHED_DEADLINE}},
		{{Policy: unix.SCHED_FIFO, Priority: 51}, {Policy: unix.SCHED_RR, Priority: 51}},
		{{Policy: unix.SCHED_FIFO, Priority: 50}},
		{{Policy: unix.SCHED_RR, Priority: 1}},
		{{Nice: -20}, {Nice: 19}, {Policy: unix.SCHED_BATCH}, {Policy: unix.SCHED_EXT}},
		{{Policy: unix.SCHED_IDLE}},
	}
	for i, above := range order {
		for k, below := range order {
			for _, a := range above {
				for _, b := range below {
					require.Equal(t, i < k, a.Outranks(b), "%v over %v", a, b)
				}
			}
		}
	}
}

func TestRankString(t *testing.T) {
	require.Equal(t, "FIFO 50", Rank{Policy: unix.SCHED_FIFO, Priority: 50}.String())
	require.Equal(t, "RR 1", Rank{Policy: unix.SCHED_RR, Priority: 1}.String())
	require.Equal(t, "OTHER nice -5", Rank{Nice: -5}.String())
	require.Equal(t, "BATCH nice 0", Rank{Policy: unix.SCHED_BATCH}.String())
	require.Equal(t, "IDLE", Rank{Policy: unix.SCHED_IDLE}.String())
	require.Equal(t, "DEADLINE", Rank{Policy: unix.SCHED_DEADLINE}.String())
	require.Equal(t, "policy 42 nice 0", Rank{Policy: 42}.String())
}

func TestRankRefuses(t *testing.T) {
	pid := unix.Gettid()
	for want, ranks := range map[error][]Rank{
		ErrUnsupported: {{Policy: 42}, {Policy: unix.SCHED_DEADLINE}},
		unix.EINVAL: {{Policy: unix.SCHED_FIFO}, {Policy: unix.SCHED_RR, Priority: 100}, {Priority: 1}, {Nice: 20}, {Nice: -21},
			{Policy: unix.SCHED_IDLE, Priority: 1}},
	} {
		for _, r := range ranks {
			require.ErrorIs(t, SetThreadRank(pid, r), want, "%v", r)
		}
	}
	require.ErrorIs(t, SetThreadCPUs(pid, nil), unix.EINVAL)
	require.ErrorIs(t, SetThreadCPUs(pid, []int{0, -1}), unix.EINVAL)
	require.ErrorIs(t, SetThreadCPUs(pid, []int{maxCPUs}), unix.EINVAL)
	// The kernel takes 0 for the caller, and a NAPI without a thread has it.
	_, _, err := ThreadRank(0)
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, SetThreadRank(0, Rank{}), ErrGone)
	require.ErrorIs(t, SetThreadCPUs(0, []int{0}), ErrGone)
}

// sleeper starts a process that does nothing, and ends it with the test.
func sleeper(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestRankOfAProcess needs no privilege: a process may lower itself and its children.
func TestRankOfAProcess(t *testing.T) {
	pid := sleeper(t)
	r, cpus, err := ThreadRank(pid)
	require.NoError(t, err)
	require.Equal(t, unix.SCHED_NORMAL, r.Policy)
	require.NotEmpty(t, cpus)
	require.True(t, slices.IsSorted(cpus))

	require.NoError(t, SetThreadCPUs(pid, cpus[len(cpus)-1:]))
	lower := Rank{Nice: 19}
	require.NoError(t, SetThreadRank(pid, lower))
	r, got, err := ThreadRank(pid)
	require.NoError(t, err)
	require.Equal(t, lower, r)
	require.Equal(t, cpus[len(cpus)-1:], got)

	idle := Rank{Policy: unix.SCHED_IDLE, Nice: 19}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if err := SetThreadRank(pid, idle); err != nil {
			t.Fatal(err)
		}
	}))
	r, _, err = ThreadRank(pid)
	require.NoError(t, err)
	require.Equal(t, idle, r)

	require.ErrorIs(t, SetThreadCPUs(pid, []int{maxCPUs - 1}), unix.EINVAL, "a CPU that is not there")
}

func TestRankOfNobody(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "true")
	require.NoError(t, cmd.Run())
	pid := cmd.Process.Pid
	_, _, err := ThreadRank(pid)
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, SetThreadRank(pid, Rank{}), ErrGone)
	require.ErrorIs(t, SetThreadCPUs(pid, []int{0}), ErrGone)
}

func TestRankOfAKernelThread(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 17)
	id := r.list(t)[0].ID
	require.NoError(t, r.client.SetThreaded(id, true))
	pid := r.list(t)[0].PID
	comm, err := os.ReadFile("/proc/" + itoa(pid) + "/comm")
	require.NoError(t, err)
	require.Contains(t, string(comm), "napi/in0-")

	rank, cpus, err := ThreadRank(pid)
	require.NoError(t, err)
	require.Equal(t, Rank{}, rank)
	want := Rank{Policy: unix.SCHED_FIFO, Priority: 50}
	require.NoError(t, SetThreadRank(pid, want))
	require.NoError(t, SetThreadCPUs(pid, cpus[len(cpus)-1:]))
	rank, got, err := ThreadRank(pid)
	require.NoError(t, err)
	require.Equal(t, want, rank)
	require.Equal(t, cpus[len(cpus)-1:], got)
}

// TestRealTimeRefused runs where a cpu cgroup may grant none.
func TestRealTimeRefused(t *testing.T) {
	nettest.RequirePrivilege(t)
	const root = "/sys/fs/cgroup/cpu"
	if _, err := os.Stat(root + "/cpu.rt_runtime_us"); err != nil {
		t.Skip("the kernel has no real-time budgets of cpu cgroups (v1, CONFIG_RT_GROUP_SCHED): ", err)
	}
	dir := root + "/weir-" + itoa(os.Getpid())
	require.NoError(t, os.Mkdir(dir, 0o755))
	pid := sleeper(t)
	require.NoError(t, os.WriteFile(dir+"/tasks", []byte(itoa(pid)), 0))
	defer func() {
		require.NoError(t, os.WriteFile(root+"/tasks", []byte(itoa(pid)), 0))
		require.NoError(t, os.Remove(dir))
	}()
	err := SetThreadRank(pid, Rank{Policy: unix.SCHED_FIFO, Priority: 50})
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "rt_runtime_us")
	require.ErrorContains(t, err, "FIFO 50")
}
