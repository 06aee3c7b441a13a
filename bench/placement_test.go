package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/napi"
	"weir/internal/nettest"
)

// TestPlacement: the kernel threads are where and what the placement says, every change of it is noticed, and lifting leaves none of it.
func TestPlacement(t *testing.T) {
	nettest.RequirePrivilege(t)
	rig, err := NewRig(2)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rig.Close()) })
	_, err = SameCore.impose(rig)
	require.Error(t, err, "a device without NAPI")
	require.NoError(t, rig.Router.Offload(inPort, "rx-gro", true))
	for p, rank := range map[Placement]napi.Rank{SameCore: {}, Outranking: {Policy: unix.SCHED_FIFO, Priority: 50}} {
		i, err := p.impose(rig)
		require.NoError(t, err)
		require.Len(t, i.threads, 2)
		for _, pid := range i.threads {
			got, cpus, err := napi.ThreadRank(pid)
			require.NoError(t, err)
			require.Equal(t, rank, got)
			require.Equal(t, []int{forwarderCPU}, cpus)
		}
		requireChanges(t, i)

		require.NoError(t, napi.SetThreadRank(i.threads[0], napi.Rank{Nice: 19}))
		requireChanges(t, i, "a kernel thread of in0 is OTHER nice 19, not "+rank.String())
		require.NoError(t, napi.SetThreadRank(i.threads[0], rank))
		require.NoError(t, napi.SetThreadCPUs(i.threads[1], []int{0, 1}))
		requireChanges(t, i, "a kernel thread of in0 may run on CPUs [0 1]")

		require.NoError(t, i.lift())
		require.NoError(t, i.lift())
		threads, err := rig.receiveThreads()
		require.NoError(t, err)
		require.Empty(t, threads)
	}
	i, err := Pipeline.impose(rig)
	require.NoError(t, err)
	requireChanges(t, i)
	require.NoError(t, rig.Router.SetLinkAttr(inPort, attrThreaded, "1"))
	requireChanges(t, i, "threaded of in0 is 1", "in0 has 2 kernel threads, not 0")
	require.NoError(t, i.lift())
}

func requireChanges(t *testing.T, i *imposed, want ...string) {
	t.Helper()
	changes, err := i.changes()
	require.NoError(t, err)
	require.Equal(t, want, changes)
}
