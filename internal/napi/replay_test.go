package napi

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// journal opens the journal of the rig's namespace.
func (r *rig) journal(t testing.TB, dir string) *Journal {
	t.Helper()
	var j *Journal
	require.NoError(t, r.ns.Do(func() (err error) {
		j, err = OpenJournal(dir)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// replay replays a journal from inside the rig's namespace.
func (r *rig) replay(t testing.TB, j *Journal) []string {
	t.Helper()
	var words []string
	require.NoError(t, r.ns.Do(func() (err error) {
		words, err = j.Replay(r.client)
		return err
	}))
	return words
}

// state is all that a crash may leave changed of in0.
type state struct {
	napis []NAPI
	ranks []Rank
	cpus  [][]int
}

func (r *rig) state(t testing.TB) state {
	t.Helper()
	s := state{napis: r.list(t)}
	for _, n := range s.napis {
		var rank Rank
		var cpus []int
		if n.PID != 0 {
			var err error
			rank, cpus, err = ThreadRank(n.PID)
			require.NoError(t, err)
		}
		s.ranks, s.cpus = append(s.ranks, rank), append(s.cpus, cpus)
	}
	return s
}

// TestCrashIsUndone is a device as its operator has set it, a weir that takes it and is killed, and the next one's start.
func TestCrashIsUndone(t *testing.T) {
	r := newRig(t, 2)
	r.settable(t, 6, 17)
	napis := r.list(t)
	// Queue 0: a kernel thread at FIFO 50 on one CPU, and masking of its own. Queue 1: as it comes.
	require.NoError(t, r.client.SetThreaded(napis[0].ID, true))
	require.NoError(t, r.client.SetMasking(napis[0].ID, 2, 50*time.Microsecond))
	pid := r.list(t)[0].PID
	_, all, err := ThreadRank(pid)
	require.NoError(t, err)
	last := all[len(all)-1:]
	require.NoError(t, SetThreadRank(pid, Rank{Policy: unix.SCHED_FIFO, Priority: 50}))
	require.NoError(t, SetThreadCPUs(pid, last))
	before := r.state(t)

	// Taken: the thread demoted and moved, both queues masked; and once more, as after a restart that found the journal.
	dir := journalDir(t)
	j := r.journal(t, dir)
	for range 2 {
		for _, n := range r.list(t) {
			require.NoError(t, j.Took("in0", n.Queue, n.Settings))
			require.NoError(t, r.client.SetMasking(n.ID, 100, 20*time.Millisecond))
		}
		rank, cpus, err := ThreadRank(pid)
		require.NoError(t, err)
		require.NoError(t, j.TookRank("in0", 0, pid, rank, cpus))
		require.NoError(t, SetThreadRank(pid, Rank{Policy: unix.SCHED_IDLE}))
		require.NoError(t, SetThreadCPUs(pid, all[:1]))
	}
	taken := r.state(t)
	require.NotEqual(t, before, taken)
	j.crash()
	require.Equal(t, taken, r.state(t), "nothing but Replay puts it back")

	k := r.journal(t, dir)
	words := r.replay(t, k)
	require.Equal(t, before, r.state(t))
	require.Contains(t, words, "in0 queue 0: put back defer-hard-irqs 2, gro-flush-timeout 50µs, irq-suspend-timeout 0s, threaded 1 "+
		"(found defer-hard-irqs 100, gro-flush-timeout 20ms, irq-suspend-timeout 0s, threaded 1)")
	require.Contains(t, words, "in0 queue 1: put back defer-hard-irqs 0, gro-flush-timeout 0s, irq-suspend-timeout 0s, threaded 0 "+
		"(found defer-hard-irqs 100, gro-flush-timeout 20ms, irq-suspend-timeout 0s, threaded 0)")
	require.Contains(t, words, "in0 queue 0: put back the rank of kernel thread "+itoa(pid)+", FIFO 50 (found IDLE)")
	if len(all) > 1 {
		require.Len(t, words, 4)
	}

	require.Empty(t, r.replay(t, k))
	require.NoError(t, k.Close())
	require.Empty(t, files(t, dir))
}

// TestReplayMakesTheThreadAgain undoes a weir that took the kernel thread away, and its rank with it.
func TestReplayMakesTheThreadAgain(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 17)
	id := r.list(t)[0].ID
	require.NoError(t, r.client.SetThreaded(id, true))
	n := r.list(t)[0]
	_, all, err := ThreadRank(n.PID)
	require.NoError(t, err)
	fifo := Rank{Policy: unix.SCHED_FIFO, Priority: 50}
	require.NoError(t, SetThreadRank(n.PID, fifo))
	require.NoError(t, SetThreadCPUs(n.PID, all[len(all)-1:]))

	j := r.journal(t, journalDir(t))
	require.NoError(t, j.Took("in0", 0, n.Settings))
	require.NoError(t, j.TookRank("in0", 0, n.PID, fifo, all[len(all)-1:]))
	require.NoError(t, r.client.SetThreaded(id, false))
	require.Zero(t, r.list(t)[0].PID)

	r.replay(t, j)
	s := r.state(t)
	require.True(t, s.napis[0].Threaded)
	require.NotEqual(t, n.PID, s.napis[0].PID)
	require.Equal(t, fifo, s.ranks[0])
	require.Equal(t, all[len(all)-1:], s.cpus[0])
}

// TestReplayLeavesAnotherThreadAlone has the operator make the thread anew after the crash.
func TestReplayLeavesAnotherThreadAlone(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 17)
	id := r.list(t)[0].ID
	require.NoError(t, r.client.SetThreaded(id, true))
	n := r.list(t)[0]
	j := r.journal(t, journalDir(t))
	require.NoError(t, j.TookRank("in0", 0, n.PID, Rank{Policy: unix.SCHED_FIFO, Priority: 50}, []int{0}))
	require.NoError(t, r.client.SetThreaded(id, false))
	require.NoError(t, r.client.SetThreaded(id, true))
	before := r.state(t)
	require.NotEqual(t, n.PID, before.napis[0].PID)
	words := r.replay(t, j)
	require.Len(t, words, 1)
	require.Contains(t, words[0], "is not the one it was")
	require.Equal(t, before, r.state(t))
	require.Empty(t, j.c.Entries)

	require.NoError(t, j.TookRank("in0", 0, before.napis[0].PID, Rank{}, []int{0}))
	require.NoError(t, r.client.SetThreaded(id, false))
	words = r.replay(t, j)
	require.Len(t, words, 1)
	require.Contains(t, words[0], "has ended")
}

// TestReplayOfAWholeDevice is what older kernels leave.
func TestReplayOfAWholeDevice(t *testing.T) {
	r := newRig(t, 2)
	d := r.device(t, "in0")
	require.NoError(t, d.SetMasking(1, 30*time.Microsecond))
	require.NoError(t, d.SetThreaded(true))
	before, err := d.Settings()
	require.NoError(t, err)
	n := r.list(t)[1]
	fifo := Rank{Policy: unix.SCHED_FIFO, Priority: 10}
	require.NoError(t, SetThreadRank(n.PID, fifo))
	_, cpus, err := ThreadRank(n.PID)
	require.NoError(t, err)

	dir := journalDir(t)
	j := r.journal(t, dir)
	require.NoError(t, j.TookRank("in0", 1, n.PID, fifo, cpus))
	require.NoError(t, j.Took("in0", DeviceWide, before))
	require.NoError(t, d.Set(Settings{DeferHardIRQs: 100, GROFlush: 20 * time.Millisecond}))
	j.crash()

	// A thread that is outside has another in0, or none.
	k := r.journal(t, dir)
	words, err := k.Replay(r.client)
	require.ErrorContains(t, err, "another network namespace")
	require.Len(t, k.c.Entries, 1, "the thread's entry has no thread any more, the device's stays")
	require.Len(t, words, 1)
	require.NoError(t, k.TookRank("in0", 1, n.PID, fifo, cpus))

	words = r.replay(t, k)
	got, err := d.Settings()
	require.NoError(t, err)
	require.Equal(t, before, got)
	s := r.state(t)
	require.Equal(t, before, s.napis[0].Settings)
	require.Equal(t, before, s.napis[1].Settings)
	require.Equal(t, fifo, s.ranks[1], "its new thread has the rank of the old one")
	require.Len(t, words, 2)
	require.True(t, strings.HasPrefix(words[0], "in0: put back"), "the device first: %q", words)
	require.Empty(t, k.c.Entries)
}

func TestReplayOfDevicesThatChanged(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	j := r.journal(t, journalDir(t))
	number := itoa(r.index(t, "in0"))
	before := Settings{DeferHardIRQs: 5}
	took := func() { require.NoError(t, j.Took("in0", 0, before)) }

	took()
	require.NoError(t, r.ns.Down("in0"))
	require.Equal(t, []string{"in0 queue 0: kept: the interface is down, and its driver may have kept the settings"}, r.replay(t, j))
	require.NoError(t, r.ns.Up("in0"))
	words := r.replay(t, j)
	require.Len(t, words, 1)
	require.Equal(t, before, r.list(t)[0].Settings)

	took()
	require.NoError(t, j.Took("in0", 7, before))
	require.Equal(t, []string{"in0 queue 7: dropped: the queue has no NAPI any more"}, r.replay(t, j), "queue 0 is as it was")

	took()
	require.NoError(t, r.ns.Offload("in0", "rx-gro", false))
	require.Equal(t, []string{"in0 queue 0: dropped: the queue has no NAPI any more"}, r.replay(t, j))

	took()
	require.NoError(t, r.ns.Delete("in0"))
	require.NoError(t, nettest.Veth(r.ns, "in0", r.ns, "p0", nettest.VethOptions{}))
	again := itoa(r.index(t, "in0"))
	require.Equal(t, []string{"in0 queue 0: dropped: it is another interface by now (number " + again + ", it was " + number + ")"}, r.replay(t, j))

	took()
	require.NoError(t, r.ns.Delete("in0"))
	require.Equal(t, []string{"in0 queue 0: dropped: there is no such interface any more"}, r.replay(t, j))
	require.Empty(t, j.c.Entries)
}

// TestReplayWantsTheRightClient refuses one of another namespace, where the same number is another device.
func TestReplayWantsTheRightClient(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	j := r.journal(t, journalDir(t))
	require.NoError(t, j.Took("in0", 0, Settings{DeferHardIRQs: 5}))
	other := newOtherRig(t)
	_, err := j.Replay(other.client)
	require.ErrorContains(t, err, "another network namespace")
	require.Len(t, j.c.Entries, 1)
	_, err = j.Replay(nil)
	require.ErrorIs(t, err, ErrUnsupported)
	require.Len(t, j.c.Entries, 1, "what could not be put back stays")
	require.Equal(t, Settings{}, other.list(t)[0].Settings)
}
