package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"golang.org/x/sys/unix"

	"weir/bench"
	"weir/internal/control"
	"weir/internal/napi"
	"weir/xdpprog"
)

// TestOutranked: receive work that outranks the worker, on its CPU, from after its start on, is owned, and weir delivers about what it does
// where receive work is its equal. What it delivers without its mechanisms is logged and not judged: on a machine where refusing a packet
// costs little, what the generator offers does not fill the receive thread's CPU.
func TestOutranked(t *testing.T) {
	rig := ownershipRig(t)
	sink := attachSink(t, rig)
	peak := deliveredBy(t, rig, sink, equal)
	with := deliveredBy(t, rig, sink, fifo)
	without := deliveredBy(t, rig, sink, fifo, "--mechanisms", "off")
	t.Logf("delivered, packets/s: %.0f as an equal, %.0f outranked, %.0f outranked without mechanisms", peak, with, without)
	require.Greater(t, with, 0.5*peak)
}

// deliveredBy is the median rate that arrives in three floods, with receive work of that rank on the worker's CPU. A weir that may own it
// must.
func deliveredBy(t *testing.T, rig *bench.Rig, sink *xdpprog.Sink, rank napi.Rank, args ...string) float64 {
	t.Helper()
	w := startOwner(t, rig, args...)
	place(t, rig, rank)
	var rates []float64
	for range 3 {
		stop := startFlood(t, rig, 0)
		time.Sleep(200 * time.Millisecond)
		rates = append(rates, rate(t, sink, 500*time.Millisecond))
		if len(args) == 0 {
			require.Greater(t, w.drivenShare(t, 200*time.Millisecond), 0.5, "of the packets came by weir's own calls: %+v", w.ownership(t, "in0"))
		}
		stop()
		w.atRest(t)
	}
	w.stop(t)
	slices.Sort(rates)
	return rates[1]
}

// recovered is how long after now packets arrive again at a rate that is no trickle.
func recovered(t *testing.T, sink *xdpprog.Sink, w *router) time.Duration {
	t.Helper()
	const slice, least = 20 * time.Millisecond, 200
	for begin := time.Now(); ; {
		before := arrived(t, sink)
		time.Sleep(slice)
		if arrived(t, sink)-before >= least {
			return time.Since(begin)
		}
		require.Less(t, time.Since(begin), 5*time.Second, "nothing arrives: %+v; stderr: %s", w.ownership(t, "in0"), &w.stderr)
	}
}

// keepNAPI makes in0's NAPI outlive weir's program, and returns what it is before weir.
func keepNAPI(t *testing.T, rig *bench.Rig) napi.NAPI {
	t.Helper()
	require.NoError(t, rig.Router.Offload("in0", "rx-gro", true))
	list := napis(t, rig.Router, "in0")
	require.Len(t, list, 1)
	return list[0]
}

// setMasking does what an administrator or another program might.
func setMasking(t *testing.T, rig *bench.Rig, deferHardIRQs uint32, groFlush time.Duration) {
	t.Helper()
	onNAPIs(t, rig.Router, "in0", func(c *napi.Client, list []napi.NAPI) {
		for _, n := range list {
			require.NoError(t, c.SetMasking(n.ID, deferHardIRQs, groFlush))
		}
	})
}

func settingsOf0(t *testing.T, rig *bench.Rig) napi.Settings {
	t.Helper()
	list := napis(t, rig.Router, "in0")
	require.Len(t, list, 1)
	return list[0].Settings
}

// TestDisturbed: whatever others do to a NAPI that weir owns, under a flood, packets flow again within a second, the counters tell, the
// balance closes, and in the end the NAPI is as they left it.
func TestDisturbed(t *testing.T) {
	for _, c := range []struct {
		name    string
		disturb func(t *testing.T, rig *bench.Rig, pid int)
		voided  bool
		want    napi.Settings // in the end
	}{
		{"link flap", func(t *testing.T, rig *bench.Rig, _ int) {
			require.NoError(t, rig.Router.Down("in0"))
			require.NoError(t, rig.Router.Up("in0"))
			place(t, rig, equal) // its thread is another one, and would have to share the generator's CPU
		}, true, napi.Settings{Threaded: true}},
		{"threads off", func(t *testing.T, rig *bench.Rig, _ int) {
			require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "0"))
		}, false, napi.Settings{}},
		{"threads off and on", func(t *testing.T, rig *bench.Rig, _ int) {
			require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "0"))
			require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "1"))
		}, false, napi.Settings{Threaded: true}},
		{"outranked", func(t *testing.T, _ *bench.Rig, pid int) {
			require.NoError(t, napi.SetThreadRank(pid, fifo))
		}, false, napi.Settings{Threaded: true}},
		{"outranked for a moment", func(t *testing.T, _ *bench.Rig, pid int) {
			require.NoError(t, napi.SetThreadRank(pid, fifo))
			time.Sleep(100 * time.Millisecond)
			require.NoError(t, napi.SetThreadRank(pid, equal))
		}, false, napi.Settings{Threaded: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := ownershipRig(t)
			require.Equal(t, napi.Settings{}, keepNAPI(t, rig).Settings)
			sink := attachSink(t, rig)
			w := startOwner(t, rig)
			for range 2 {
				pid := place(t, rig, equal)
				stop := startFlood(t, rig, 0)
				w.waitOwned(t)
				voided := w.ownership(t, "in0").Voided
				c.disturb(t, rig, pid)
				gap := recovered(t, sink, w)
				t.Logf("packets flow again after %s", gap.Round(time.Millisecond))
				require.Less(t, gap, time.Second)
				stop()
				if c.voided {
					require.Eventually(t, func() bool { return w.ownership(t, "in0").Voided > voided }, ownTimeout, 10*time.Millisecond)
				}
			}
			w.atRest(t)
			w.stop(t)
			require.Equal(t, c.want, settingsOf0(t, rig))
		})
	}
}

// TestOverwritten: settings of a NAPI that weir owns, written over by somebody else, are taken back within a second and counted, and what
// weir puts back in the end is what was there before it.
func TestOverwritten(t *testing.T) {
	rig := ownershipRig(t)
	keepNAPI(t, rig)
	setMasking(t, rig, 3, 50*time.Microsecond)
	attachSink(t, rig)
	w := startOwner(t, rig)
	place(t, rig, equal)
	before := settingsOf0(t, rig)
	stop := startFlood(t, rig, 0)
	w.waitOwned(t)
	owned := settingsOf0(t, rig)
	require.NotEqual(t, before, owned)
	// Between two bursts weir may have released it, and what it finds then is not its own to take back.
	for retaken := uint64(0); retaken < 3; retaken = w.ownership(t, "in0").Retaken {
		setMasking(t, rig, before.DeferHardIRQs, before.GROFlush)
		wrote := time.Now()
		require.Eventually(t, func() bool { return settingsOf0(t, rig) == owned }, time.Second, 5*time.Millisecond)
		t.Logf("owned again after %s, %d taken back before", time.Since(wrote).Round(time.Millisecond), retaken)
	}
	require.Greater(t, w.drivenShare(t, 200*time.Millisecond), 0.5)
	stop()
	w.atRest(t)
	require.Equal(t, 3, w.logged("somebody set NAPI .* taken back"), "stderr: %s", &w.stderr)
	w.stop(t)
	require.Equal(t, before, settingsOf0(t, rig))
}

// TestKilledWhileOwning: what a weir that was killed has left on a NAPI, the next one puts back, and says so.
func TestKilledWhileOwning(t *testing.T) {
	for _, gro := range []bool{true, false} {
		t.Run(fmt.Sprintf("gro %v", gro), func(t *testing.T) {
			rig := ownershipRig(t)
			if gro {
				keepNAPI(t, rig)
				setMasking(t, rig, 3, 50*time.Microsecond)
			}
			w := startOwner(t, rig)
			place(t, rig, equal)
			before := settingsOf0(t, rig)
			// The thread came after weir, whose journal has to know. Under a flood its disk may have to wait.
			require.Eventually(t, func() bool { return strings.Contains(journalOf(t, rig), `"threaded": true`) }, ownTimeout, 10*time.Millisecond)
			stop := startFlood(t, rig, 0)
			w.waitOwned(t)
			w.kill(t)
			stop()
			requireDetached(t, rig.Router, "in0", "out0")
			if gro {
				left := settingsOf0(t, rig)
				require.NotEqual(t, before, left, "nothing is left to be put back: the test shows nothing")
				require.NotZero(t, left.DeferHardIRQs)
			} else {
				require.Empty(t, napis(t, rig.Router, "in0"))
			}
			w = startOwner(t, rig)
			if gro {
				w.waitFor(t, &w.stderr, regexp.MustCompile("left by a weir that was killed: in0 queue 0: put back"), restTimeout)
				require.Equal(t, before, settingsOf0(t, rig))
			} else {
				require.Equal(t, napi.Settings{Threaded: true}, settingsOf0(t, rig))
			}
			w.stop(t)
			if gro {
				require.Equal(t, before, settingsOf0(t, rig))
			} else {
				require.Empty(t, napis(t, rig.Router, "in0"))
			}
			w = startOwner(t, rig)
			w.stop(t)
			require.Zero(t, w.logged("left by a weir that was killed"))
		})
	}
}

// journalOf is the file where weir notes what it has to put back.
func journalOf(t *testing.T, rig *bench.Rig) string {
	t.Helper()
	var namespace unix.Stat_t
	require.NoError(t, unix.Fstat(rig.Router.FD(), &namespace))
	b, err := os.ReadFile(fmt.Sprintf("%s/%d.journal", control.RunDir, namespace.Ino))
	require.NoError(t, err)
	return string(b)
}

// TestMeans: each means of ownership, required, delivers, and says what it is. What a kernel thread was is put back.
func TestMeans(t *testing.T) {
	rig := ownershipRig(t)
	keepNAPI(t, rig)
	sink := attachSink(t, rig)
	delivered := map[string]float64{}
	for _, means := range []string{"auto", "socket", "io_uring", "kthread"} {
		pid := 0
		if means == "kthread" {
			pid = place(t, rig, equal) // before weir, which would make a thread where there is none
		}
		w := startOwner(t, rig, "--set", "poller.ownership="+means)
		if means != "kthread" {
			pid = place(t, rig, equal)
		}
		before := settingsOf0(t, rig)
		if means == "kthread" {
			require.Eventually(t, func() bool { return rankOf(t, pid).Nice > equal.Nice }, ownTimeout, 10*time.Millisecond,
				"it is not demoted; stderr: %s", &w.stderr)
		}
		stop := startFlood(t, rig, 0)
		if means == "kthread" {
			time.Sleep(200 * time.Millisecond)
		} else {
			w.waitOwned(t)
		}
		delivered[means] = rate(t, sink, 500*time.Millisecond)
		o := w.ownership(t, "in0")
		stop()
		w.atRest(t)
		w.stop(t)
		want := means
		if means == "auto" {
			want = "socket"
		}
		require.Equal(t, [2]string{means, want}, [2]string{o.Asked, o.Means})
		require.Equal(t, before, settingsOf0(t, rig), means)
		require.Equal(t, equal, rankOf(t, pid), means)
		require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "0"))
	}
	t.Log("delivered, packets/s:", delivered)
	for means, pps := range delivered {
		require.Greater(t, pps, 0.1*delivered["auto"], means)
	}
}

// TestRefusedOption (D04): where the kernel refuses what busy polling takes, weir owns by the next means, says so once, shows it, and does
// not stall, at a low rate or a high one.
func TestRefusedOption(t *testing.T) {
	for _, c := range []struct {
		name   string
		option int
	}{{"SO_BUSY_POLL", unix.SO_BUSY_POLL}, {"SO_PREFER_BUSY_POLL", unix.SO_PREFER_BUSY_POLL}} {
		t.Run(c.name, func(t *testing.T) {
			rig := ownershipRig(t)
			sink := attachSink(t, rig)
			w := startOwnerAs(t, rig, without(weir(ownerArgs(nil)...), c.option))
			place(t, rig, equal)
			stop := startFlood(t, rig, 0) // so that it is owned at all
			w.waitOwned(t)
			require.Equal(t, "io_uring", w.ownership(t, "in0").Means)
			stop()
			w.atRest(t)
			for _, pps := range []uint64{1000, 200_000} {
				stop := startFlood(t, rig, pps)
				recovering := time.Now()
				for time.Since(recovering) < time.Second {
					before := arrived(t, sink)
					time.Sleep(250 * time.Millisecond)
					require.Greater(t, arrived(t, sink), before, "a stall at %d packets/s", pps)
				}
				stop()
				w.atRest(t)
			}
			require.Equal(t, 1, w.logged("port in0 queue 0: receive work is owned by means io_uring from now on, not by socket: .*"+c.name), "stderr: %s", &w.stderr)
			w.stop(t)
		})
	}
}
