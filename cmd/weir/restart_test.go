package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
	"weir/queues"
)

// TestRestart (C02): weir starts again right after it ended, in whatever way, under traffic, every time.
func TestRestart(t *testing.T) {
	top := nettest.T0(t)
	listen(t, top.Dst, nettest.AddrD0, testPort)
	s := sendStream(t, top.Src, "s0", 1000, always(top.P()))
	traffic := time.Duration(often(100, 1000)) * time.Millisecond
	for _, c := range []struct {
		name   string
		cycles int
		end    func(t *testing.T, w *router)
	}{
		{"SIGTERM", often(5, 50), func(t *testing.T, w *router) { w.stop(t) }},
		{"kill -9", often(4, 20), func(t *testing.T, w *router) { w.kill(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var starts, stops []time.Duration
			for range c.cycles {
				begin := time.Now()
				w := startT0(t, top)
				starts = append(starts, time.Since(begin))
				require.Eventually(t, func() bool { return portOf(t, w.stats(t), "r1").Delivered > 0 }, restTimeout, 5*time.Millisecond,
					"it says that it forwards, and nothing arrives")
				time.Sleep(traffic)
				begin = time.Now()
				c.end(t, w)
				stops = append(stops, time.Since(begin))
				require.Eventually(t, func() bool { return programOn(t, top.Rtr, "r0") == 0 && programOn(t, top.Rtr, "r1") == 0 },
					restTimeout, time.Millisecond, "XDP program left")
			}
			t.Logf("%d cycles: start %s to %s, end %s to %s", c.cycles, slices.Min(starts).Round(time.Millisecond),
				slices.Max(starts).Round(time.Millisecond), slices.Min(stops).Round(time.Millisecond), slices.Max(stops).Round(time.Millisecond))
		})
	}
	require.NoError(t, s.stop())
}

// TestQueueHeld (C02): what holds a queue for good is waited for only so long, and named.
func TestQueueHeld(t *testing.T) {
	top := nettest.T0(t)
	umem, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: 64, FrameSize: 2048})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, umem.Close()) })
	require.NoError(t, top.Rtr.Do(func() error {
		holder, err := umem.Open(queues.SocketConfig{
			Interface: "r1", Mode: queues.Copy, NumRX: 64, NumTX: 64, NumFill: 64, NumCompletion: 64, FillDepth: 32,
		})
		if err == nil {
			t.Cleanup(func() { require.NoError(t, holder.Close()) })
		}
		return err
	}))
	before := stateOf(t, top.Rtr)
	code, p := execute(t, top.Rtr, weir("run", "--port", "r0", "--port", "r1"))
	require.Equal(t, exitFailure, code)
	message := oneLine(t, p.stderr.String())
	t.Logf("after %s: %s", p.took.Round(time.Millisecond), message)
	require.Contains(t, message, "r1 queue 0")
	require.Equal(t, before, stateOf(t, top.Rtr))
}

// TestKilledUnderLoad (C03): a weir that is killed gives its interfaces back to the kernel, whole.
func TestKilledUnderLoad(t *testing.T) {
	top := nettest.T0(t)
	fixNeighbours(t, top)
	listen(t, top.Dst, nettest.AddrD0, testPort)
	pins := pinned(t)
	before := stateOf(t, top.Rtr)
	w := startT0(t, top)
	s := sendStream(t, top.Src, "s0", 0, always(top.P()))
	require.Eventually(t, func() bool { return portOf(t, w.stats(t), "r1").Delivered > 1000 }, restTimeout, 5*time.Millisecond)

	w.kill(t)
	died := time.Now()
	for _, host := range []netip.Addr{nettest.AddrR0, nettest.Addr6R0} {
		for answered := false; !answered; {
			pings, err := top.Src.Ping(t.Context(), host, nettest.PingOptions{Timeout: 50 * time.Millisecond})
			require.NoError(t, err)
			answered = pings.Received > 0
			require.Less(t, time.Since(died), time.Second, "%s is not reachable", host)
		}
	}
	t.Logf("the host answered over both families %s after the kill", time.Since(died).Round(time.Millisecond))
	requireDetached(t, top.Rtr, "r0", "r1")

	w = startT0(t, top)
	for _, p := range w.stats(t).Ports {
		require.Equal(t, p.ProgramID, programOn(t, top.Rtr, p.Name), "the one program on %s", p.Name)
	}
	require.Eventually(t, func() bool { return portOf(t, w.stats(t), "r1").Delivered > 1000 }, restTimeout, 5*time.Millisecond)
	require.NoError(t, s.stop())
	w.atRest(t)
	w.stop(t)
	require.Equal(t, before, stateOf(t, top.Rtr), "as if weir had never been there")
	require.Equal(t, pins, pinned(t), "pinned BPF objects")
}

// TestPortRemoved: a weir whose interface goes away ends, says so, and leaves the others as they were.
func TestPortRemoved(t *testing.T) {
	top := nettest.T0(t)
	w := startT0(t, top)
	require.NoError(t, top.Rtr.Delete("r1"))
	require.Equal(t, exitFailure, w.wait(t, refusalTimeout))
	require.Regexp(t, `(?m)^weir: port r1: .*removed.*$`, w.stderr.String())
	requireDetached(t, top.Rtr, "r0")
}

// pinned lists the pinned BPF objects of this machine.
func pinned(t *testing.T) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir("/sys/fs/bpf", func(path string, _ os.DirEntry, err error) error {
		all = append(all, path)
		return err
	}))
	return all
}
