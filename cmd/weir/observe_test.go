package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"weir/engine"
	"weir/internal/nettest"
)

// TestObserve: stats, metrics and health say the same, and what there is to see does not depend on the traffic.
func TestObserve(t *testing.T) {
	top := nettest.T0(t)
	w := startT0(t, top)
	first := observe(t, top, w)

	pingBothFamilies(t, top)
	for _, dst := range []netip.Addr{nettest.AddrD0, nettest.Addr6D0} {
		_, err := exchange(t.Context(), top.Src, listen(t, top.Dst, dst, testPort), 1000, 200)
		require.NoError(t, err)
	}
	drops := always(edit(top.P(), func(ip []byte) { ip[8] = 1 }))
	s := sendStream(t, top.Src, "s0", 1000, drops)
	require.Eventually(t, func() bool { return portOf(t, w.stats(t), "r0").Dropped["ttl_expired"] > 10 }, restTimeout, restTimeout/100)
	require.NoError(t, s.stop())
	earlier := w.atRest(t)
	second := observe(t, top, w)
	later := w.stats(t) // a packet of the hosts' kernels may have come meanwhile
	require.Equal(t, first.series, second.series, "series of /metrics")
	require.Equal(t, first.paths, second.paths, "keys of the JSON")
	procs, err := strconv.Atoi(second.values["go_sched_gomaxprocs_threads"])
	require.NoError(t, err)
	require.Greater(t, procs, runtime.GOMAXPROCS(0)+4, "processors to spare for the workers")
	t.Logf("%d series, %d values in the JSON", len(second.series), len(second.paths))
	for i, p := range earlier.Ports {
		q := later.Ports[i]
		for name, bounds := range map[string][2]uint64{
			"offered": {p.Offered, q.Offered}, "delivered": {p.Delivered, q.Delivered}, "received": {p.Received, q.Received},
			"forwarded": {p.Forwarded, q.Forwarded}, "sent": {p.Sent, q.Sent}, "completed": {p.Completed, q.Completed},
		} {
			value, err := strconv.ParseFloat(second.values[fmt.Sprintf("weir_port_%s_packets_total{port=%q}", name, p.Name)], 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, value, float64(bounds[0]), "%s of %s", name, p.Name)
			require.LessOrEqual(t, value, float64(bounds[1]), "%s of %s", name, p.Name)
		}
		require.NotZero(t, p.Offered)
	}
	w.stop(t)

	code, p := execute(t, top.Rtr, weir("stats"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, oneLine(t, p.stderr.String()), "no weir is running in this network namespace")
}

// view is what one look at a weir shows.
type view struct {
	series []string          // of /metrics, sorted
	values map[string]string // of these series
	paths  []string          // of the values in the JSON, sorted
}

func observe(t *testing.T, top *nettest.Topology, w *router) view {
	t.Helper()
	v := view{values: map[string]string{}}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return top.Rtr.Dial(ctx, network, addr)
		},
	}}
	get := func(path string) string {
		resp, err := client.Get("http://" + w.metrics + path)
		require.NoError(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", path, body)
		return string(body)
	}
	require.Equal(t, "ok\n", get("/healthz"))
	metrics := get("/metrics")
	problems, err := promlint.New(strings.NewReader(metrics)).Lint()
	require.NoError(t, err)
	require.Empty(t, slices.DeleteFunc(problems, func(p promlint.Problem) bool { return !strings.HasPrefix(p.Metric, "weir_") }))
	for line := range strings.Lines(metrics) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " ")
		v.series = append(v.series, line[:at])
		v.values[line[:at]] = strings.TrimSpace(line[at:])
	}
	slices.Sort(v.series)

	code, p := execute(t, top.Rtr, weir("stats", "--json"))
	require.Zero(t, code, "stderr: %s", &p.stderr)
	var st engine.Stats
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &st))
	require.Len(t, st.Ports, 2)
	var tree any
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &tree))
	v.paths = paths("", tree)
	slices.Sort(v.paths)

	code, p = execute(t, top.Rtr, weir("stats"))
	require.Zero(t, code, "stderr: %s", &p.stderr)
	require.Regexp(t, regexp.MustCompile(`(?s)port r0 .*port r1 .*worker on CPU \d.*offered +\d+\ndelivered +\d+\n.*unaccounted +0\n`), p.stdout.String())
	return v
}

// paths names every value in decoded JSON.
func paths(at string, node any) []string {
	var all []string
	switch node := node.(type) {
	case map[string]any:
		for key := range maps.Keys(node) {
			all = append(all, paths(at+"."+key, node[key])...)
		}
	case []any:
		for i, child := range node {
			all = append(all, paths(fmt.Sprintf("%s[%d]", at, i), child)...)
		}
	default:
		all = append(all, at)
	}
	return all
}
