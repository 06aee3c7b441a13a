package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/bench"
	"weir/internal/napi"
	"weir/internal/nettest"
)

// placements are where in0's receive work may run: nil is in softirq on the generator's CPU.
var placements = []struct {
	name string
	rank *napi.Rank
}{{"pipeline", nil}, {"same core", &equal}, {"outranking", &fifo}}

// TestScraped (E03): four scrapers at 1 Hz beside an overload each get their answer within a second, at next to no cost, and in the end
// every packet is accounted for.
func TestScraped(t *testing.T) {
	rig := ownershipRig(t)
	sink := attachSink(t, rig)
	w := startOwner(t, rig)
	place(t, rig, equal)
	before, sent := readBoth(t, w, rig)
	stop := startFlood(t, rig, 0)
	w.waitOwned(t)
	window := time.Duration(often(5, 15)) * time.Second
	alone, idle := rate(t, sink, window), otherCPUTime(t, w)
	quiet := rate(t, sink, window)
	idle = otherCPUTime(t, w) - idle

	var longest atomic.Int64
	var scrapes sync.WaitGroup
	used := otherCPUTime(t, w)
	for range 4 {
		scrapes.Go(func() {
			for begin, n := time.Now(), 0; time.Since(begin) < window; n++ {
				time.Sleep(time.Until(begin.Add(time.Duration(n) * time.Second)))
				took, err := scrape(t.Context(), rig.Router, w.metrics)
				if err != nil {
					t.Error(err)
				}
				for was := longest.Load(); int64(took) > was && !longest.CompareAndSwap(was, int64(took)); was = longest.Load() {
				}
			}
		})
	}
	scraped := rate(t, sink, window)
	scrapes.Wait()
	used = otherCPUTime(t, w) - used - idle
	stop()
	after, offered := readBoth(t, w, rig)
	in, wasIn := portOf(t, after, "in0"), portOf(t, before, "in0")
	t.Logf("delivered %.0f, %.0f packets/s alone, %.0f with scrapers; longest scrape %s; %.2f %% of a CPU more by threads other than the worker's",
		alone, quiet, scraped, time.Duration(longest.Load()).Round(time.Millisecond), 100*used.Seconds()/window.Seconds())
	require.Less(t, time.Duration(longest.Load()), time.Second)
	require.Equal(t, offered-sent, in.Offered-wasIn.Offered, "offered as counted at g0, and by weir")
	require.Greater(t, offered-sent, 2*(portOf(t, after, "out0").Delivered-portOf(t, before, "out0").Delivered), "no overload: the test shows nothing")
	require.Greater(t, scraped, 0.7*min(alone, quiet))
	require.Less(t, used, window/20, "four scrapes a second; a hundredth is what they should cost")
	w.stop(t)
}

// scrape reads /metrics once and returns how long it took.
func scrape(ctx context.Context, ns *nettest.NS, addr string) (time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, network, addr string) (net.Conn, error) { return ns.Dial(ctx, network, addr) },
	}}
	begin := time.Now()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("%s, %d bytes", resp.Status, n)
	}
	return time.Since(begin), err
}

// otherCPUTime is the CPU time of weir's threads but the worker's, which alone are pinned.
func otherCPUTime(t *testing.T, w *router) time.Duration {
	t.Helper()
	var sum time.Duration
	pid := strconv.Itoa(w.cmd.Process.Pid)
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	require.NoError(t, err)
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		var cpus unix.CPUSet
		if err := unix.SchedGetaffinity(tid, &cpus); err != nil || cpus.Count() == 1 && cpus.IsSet(workerCPU) {
			continue
		}
		b, err := os.ReadFile("/proc/" + pid + "/task/" + thread.Name() + "/schedstat")
		if err != nil {
			continue // it has ended
		}
		var ns int64
		_, err = fmt.Sscan(string(b), &ns)
		require.NoError(t, err)
		sum += time.Duration(ns)
	}
	return sum
}

// TestAgainstTheFlood: traffic against a flood of many times what weir forwards gets its turn, wherever receive work runs.
func TestAgainstTheFlood(t *testing.T) {
	for _, p := range placements {
		t.Run(p.name, func(t *testing.T) {
			rig := ownershipRig(t)
			sink := attachSink(t, rig)
			w := startOwner(t, rig)
			if p.rank != nil {
				place(t, rig, *p.rank)
			}
			stop := startFlood(t, rig, 0)
			if p.rank != nil {
				w.waitOwned(t)
			} else {
				time.Sleep(300 * time.Millisecond)
			}
			num := uint64(often(200, 500))
			to := listen(t, rig.Gen, bench.GenAddr, testPort)
			before := arrived(t, sink)
			got := slowly(t, rig.Sink, to, num, 10*time.Millisecond)
			require.NotZero(t, arrived(t, sink)-before)
			stop()
			st := w.atRest(t)
			t.Logf("%d sent: %s; lost at s0 %d, at out0 and in0: %v %v", num, got, droppedBy(t, rig.Sink, "s0"),
				nonZero(portOf(t, st, "out0").Dropped), nonZero(portOf(t, st, "in0").Dropped))
			require.Zero(t, got.corrupt+got.duplicate)
			// The CPU share closes every door for the rest of a period, whoever has used it up.
			shut := portOf(t, st, "out0").Dropped["door_gate_cpu_share"]
			require.Less(t, shut*10, num)
			require.GreaterOrEqual(t, (got.unique+shut)*100, num*99)
			w.stop(t)
		})
	}
}

// slowly sends numbered datagrams, one each interval, and returns what arrived.
func slowly(t *testing.T, from *nettest.NS, to net.PacketConn, num uint64, interval time.Duration) arrivals {
	t.Helper()
	conn, err := from.Dial(t.Context(), "udp", to.LocalAddr().String())
	require.NoError(t, err)
	defer conn.Close()
	counted := make(chan arrivals, 1)
	var sending atomic.Bool
	sending.Store(true)
	go func() { counted <- count(to, num, &sending) }()
	var buf [maxDatagram]byte
	for due, n := time.Now(), uint64(0); n < num; due, n = due.Add(interval), n+1 {
		time.Sleep(time.Until(due))
		_, err := conn.Write(numbered(buf[:], n))
		require.NoError(t, err)
	}
	sending.Store(false)
	return <-counted
}

// TestPingsAreNotDelayed: that weir may own receive work costs a packet no time at rest or at a low load.
func TestPingsAreNotDelayed(t *testing.T) {
	rig := ownershipRig(t)
	keepNAPI(t, rig)
	attachSink(t, rig)
	medians := map[string]time.Duration{}
	for _, mode := range []string{"hybrid", "interrupt"} {
		w := startOwner(t, rig, "--set", "poller.mode="+mode)
		place(t, rig, equal)
		if mode == "hybrid" { // so that it knows its NAPI, and has owned it
			stop := startFlood(t, rig, 0)
			w.waitOwned(t)
			stop()
			w.atRest(t)
		}
		for _, load := range []uint64{0, 1000} {
			stop := func() {}
			if load > 0 {
				stop = startFlood(t, rig, load)
			}
			medians[fmt.Sprint(mode, load)] = medianPing(t, rig.Gen, bench.SinkAddr)
			stop()
		}
		w.atRest(t)
		w.stop(t)
		require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "0"))
	}
	t.Log(medians)
	for _, load := range []string{"0", "1000"} {
		require.Less(t, medians["hybrid"+load], 2*medians["interrupt"+load]+time.Millisecond, "%s packets/s", load)
	}
}

// medianPing is the median time until an echo comes back.
func medianPing(t *testing.T, from *nettest.NS, to netip.Addr) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 100 {
		pings, err := from.Ping(t.Context(), to, nettest.PingOptions{Timeout: time.Second})
		require.NoError(t, err)
		require.Len(t, pings.RTT, 1)
		took = append(took, pings.RTT[0])
		time.Sleep(3 * time.Millisecond) // longer than a drained NAPI stays owned
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// TestLessonsLoseNothing: below the rate where packets get lost, every payload arrives once, although receive work is learned, owned,
// released and moved between threads all the time.
func TestLessonsLoseNothing(t *testing.T) {
	rig := ownershipRig(t)
	keepNAPI(t, rig)
	to := listen(t, rig.Sink, bench.SinkAddr, testPort)
	const rounds, num = 4, 500
	for range rounds {
		refused := droppedBy(t, rig.Gen, "g0")
		w := startOwner(t, rig, "--set", "poller.mode=poll") // owns from the first packet on
		place(t, rig, equal)
		toggled := make(chan error)
		quit := make(chan struct{})
		go func() {
			for value := 0; ; value = 1 - value {
				select {
				case <-quit:
					toggled <- nil
					return
				case <-time.After(50 * time.Millisecond):
				}
				if err := rig.Router.SetLinkAttr("in0", "threaded", strconv.Itoa(value)); err != nil {
					<-quit
					toggled <- err
					return
				}
			}
		}()
		got := slowly(t, rig.Gen, to, num, time.Millisecond)
		close(quit)
		require.NoError(t, <-toggled)
		o := w.ownership(t, "in0")
		st := w.atRest(t)
		t.Logf("%s; %d lessons, %d polls", got, o.Lessons, o.Polls)
		require.Zero(t, droppedBy(t, rig.Gen, "g0")-refused, "lost before weir: too fast for this machine")
		require.Equal(t, arrivals{unique: num}, got, "dropped: %v", nonZero(st.Totals.Dropped))
		require.NotZero(t, o.Lessons)
		require.NotZero(t, o.Polls)
		w.stop(t)
		require.NoError(t, rig.Router.SetLinkAttr("in0", "threaded", "0"))
	}
}
