package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// TestStream: what is sent on each flow is counted where it arrives, through a router that forwards; echoes come back and take a while.
func TestStream(t *testing.T) {
	nettest.RequirePrivilege(t)
	rig, err := NewRig(4)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rig.Close()) })
	kernel, err := DUTKernel("kernel").start(t.Context(), rig)
	require.NoError(t, err)
	defer func() { require.NoError(t, kernel.stop()) }()

	s, err := newStream(rig.Gen, rig.Sink, SinkAddr, 3)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.close()) }()
	require.NoError(t, s.sendOne(0))
	require.NoError(t, s.sendOne(0))
	require.NoError(t, s.sendOne(2))
	require.Eventually(t, func() bool { return s.counts[0].received.Load() == 2 && s.counts[2].received.Load() == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, []Count{{2, 2}, {0, 0}, {1, 1}}, s.take())
	s.keep([]int{2, 0})
	require.NoError(t, s.sendOne(0))
	require.Eventually(t, func() bool { return s.counts[0].received.Load() == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, []Count{{1, 1}, {0, 0}}, s.take())
	s.start(1000)
	require.Eventually(t, func() bool { return s.counts[1].received.Load() > 10 }, 5*time.Second, time.Millisecond)
	require.NoError(t, s.stop())

	e, err := newEchoes(rig.Gen, SinkAddr)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.close()) }()
	took, ok, err := e.one(1)
	require.NoError(t, err)
	require.True(t, ok)
	require.Positive(t, took)
	require.Less(t, took, echoTimeout)
	require.NoError(t, rig.Router.Sysctl("net.ipv4.ip_forward", "0"))
	_, ok, err = e.one(2)
	require.NoError(t, err)
	require.False(t, ok)
}

func TestQueuesTable(t *testing.T) {
	r := QueuesResult{Trials: []QueuesTrial{
		{Trial: Trial{Placement: SameCore, DUT: "weir", Offered: 4e6}, Alone: []Count{{100, 100}, {100, 100}}, Flooded: []Count{{100, 99}, {100, 100}}},
		{Trial: Trial{Placement: SameCore, DUT: "weir", Offered: 2e6}, Alone: []Count{{100, 100}, {100, 100}}, Flooded: []Count{{100, 99}, {100, 100}}},
		{Trial: Trial{Placement: SameCore, DUT: "weir", Invalid: "others"}, Alone: []Count{{100, 0}, {100, 0}}, Flooded: []Count{{100, 0}, {100, 0}}},
		{Trial: Trial{Placement: Outranking, DUT: "weir", Invalid: "others"}},
	}}
	var b bytes.Buffer
	r.WriteTable(&b)
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, "same-core weir 3.000 1 0.000 % of 200 1.000 % of 200", strings.Join(strings.Fields(lines[1]), " "))
	require.Equal(t, "same-core weir 3.000 2 0.000 % of 200 0.000 % of 200", strings.Join(strings.Fields(lines[2]), " "))
	require.Contains(t, lines[3], "void")
}
