package main

import (
	"errors"
	"maps"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/bench"
	"weir/engine"
	"weir/internal/nettest"
	"weir/xdpprog"
)

// TestOverload: after a flood of several times what weir forwards, every packet is accounted for, by weir and by those who count beside
// it, and so is every frame.
func TestOverload(t *testing.T) {
	for _, c := range []struct {
		name       string
		queues     int
		generators []int // CPU of each; a frame goes to the receive queue of its generator's CPU
		threaded   string
		args       []string
		drops      string // the reason that must be among those of the flood
	}{
		{"one queue", 1, []int{0}, "0", nil, "door_no_credit"},
		{"four queues", 4, []int{0, 1}, "0", nil, "door_no_credit"},
		{"four queues, two workers", 4, []int{0, 1}, "0", []string{"--cpus", "0,1"}, "door_no_credit"},
		{"open door", 1, []int{0}, "0", []string{"--set", "poller.early_discard=ring"}, "socket_no_frame"},
		{"receive in a thread", 1, []int{0}, "1", nil, "device_rx"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := newRig(t, c.queues)
			w := startRouter(t, rig.Router, append([]string{"--port", "in0", "--port", "out0"}, c.args...)...)
			setThreaded(t, rig.Router, "in0", c.threaded)
			requirePing(t, rig)
			sink, err := rig.AttachSink()
			require.NoError(t, err)
			defer sink.Close()

			before, sent := readBoth(t, w, rig)
			flood(t, rig, c.generators, time.Duration(often(1000, 5000))*time.Millisecond)
			after, offered := readBoth(t, w, rig)
			offered -= sent
			count, err := sink.Count()
			require.NoError(t, err)

			in, wasIn := portOf(t, after, "in0"), portOf(t, before, "in0")
			out, wasOut := portOf(t, after, "out0"), portOf(t, before, "out0")
			t.Logf("offered %d, delivered %d, dropped %v", offered, count.Packets, nonZero(in.Dropped))
			require.Equal(t, offered, in.Offered-wasIn.Offered, "offered as counted at g0, and by weir")
			require.Equal(t, count.Packets, out.Delivered-wasOut.Delivered, "delivered as counted at s0, and by weir")
			require.NotZero(t, count.Packets)
			require.Greater(t, offered, count.Packets+count.Packets/4, "no overload: the test shows nothing")
			require.NotZero(t, in.Dropped[c.drops], c.drops)
			requirePing(t, rig)
			w.stop(t)
		})
	}
}

// requirePing requires that the rig forwards. The first packet may be lost, for want of a neighbour's MAC.
func requirePing(t *testing.T, rig *bench.Rig) {
	t.Helper()
	pings, err := rig.Gen.Ping(t.Context(), bench.SinkAddr, nettest.PingOptions{Count: 3, Timeout: 300 * time.Millisecond})
	require.NoError(t, err)
	require.GreaterOrEqual(t, pings.Received, 2)
}

func newRig(t *testing.T, queues int) *bench.Rig {
	t.Helper()
	nettest.RequirePrivilege(t)
	rig, err := bench.NewRig(queues)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rig.Close()) })
	return rig
}

// setThreaded moves the receive work of a link into a kernel thread of its own, "1", or back, "0". The ring before it then overflows.
func setThreaded(t *testing.T, ns *nettest.NS, link, value string) {
	t.Helper()
	// A process of the namespace sees its links under /sys.
	cmd := ns.Command(t.Context(), "sh", "-c", "echo "+value+" > /sys/class/net/"+link+"/threaded")
	require.NoError(t, ns.Run(cmd))
}

// nonZero leaves out what did not happen.
func nonZero(by map[string]uint64) map[string]uint64 {
	by = maps.Clone(by)
	maps.DeleteFunc(by, func(_ string, n uint64) bool { return n == 0 })
	return by
}

// flood floods the rig from each of the CPUs at once, as fast as they go.
func flood(t *testing.T, rig *bench.Rig, cpus []int, duration time.Duration) {
	t.Helper()
	done := make(chan error)
	for _, cpu := range cpus {
		go func() {
			done <- bench.OnCPU(cpu, func() error {
				_, err := rig.Flood(t.Context(), 0, xdpprog.Bounds{Duration: duration})
				return err
			})
		}()
	}
	var err error
	for range cpus {
		err = errors.Join(err, <-done)
	}
	require.NoError(t, err)
}

// readBoth reads weir's counters and what g0 has sent, of one moment: the hosts' kernels may send a packet at any time.
func readBoth(t *testing.T, w *router, rig *bench.Rig) (engine.Stats, uint64) {
	t.Helper()
	for {
		sent := sentTo(t, rig)
		st := w.atRest(t)
		if sentTo(t, rig) == sent {
			return st, sent
		}
	}
}

// sentTo is how many packets g0 has offered to in0: those in0 took, the kernel's own among them, and those its full ring refused to the
// generator.
func sentTo(t *testing.T, rig *bench.Rig) uint64 {
	t.Helper()
	l, err := rig.Gen.Link("g0")
	require.NoError(t, err)
	stats, err := rig.Gen.EthtoolStats("g0")
	require.NoError(t, err)
	n := l.Attrs().Statistics.TxPackets
	for name, v := range stats {
		if refusedOnRing.MatchString(name) {
			n += v
		}
	}
	return n
}

var refusedOnRing = regexp.MustCompile(`^tx_queue_\d+_xdp_xmit_errors$`)
