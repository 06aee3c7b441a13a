package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestReload: a reload takes all of the file or nothing, says which, and costs no packet.
func TestReload(t *testing.T) {
	top := nettest.T0(t)
	fixNeighbours(t, top)
	listen(t, top.Dst, nettest.AddrD0, testPort)
	path := filepath.Join(t.TempDir(), "weir.yaml")
	write := func(t *testing.T, text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	const ports = "ports:\n  - name: r0\n  - name: r1\n    quota: 8\n"
	write(t, ports+"poller: {quota: 64}\n")
	w := startRouter(t, top.Rtr, "-c", path)
	quotas := func(t *testing.T) map[string]int {
		of := map[string]int{}
		for _, wk := range w.stats(t).Workers {
			for _, s := range wk.Sources {
				of[s.Name] = s.Quota
			}
		}
		return of
	}
	require.Equal(t, map[string]int{"r0/0": 64, "r1/0": 8}, quotas(t))

	before := w.atRest(t)
	s := sendStream(t, top.Src, "s0", 1000, always(top.P()))
	time.Sleep(100 * time.Millisecond)
	for _, c := range []struct {
		name, file string   // the file as it is at the reload; none if empty
		says       []string // on stdout when it is taken, on stderr when it is refused
		refused    bool
		quotas     map[string]int
	}{
		{"a quota", ports + "poller: {quota: 32}\n", []string{"poller.quota: 64 -> 32", "ports.r0.quota: 64 -> 32"}, false,
			map[string]int{"r0/0": 32, "r1/0": 8}},
		{"a port's own quota", "ports: [{name: r0, quota: 5}, {name: r1, quota: 8}]\npoller: {quota: 32}\n", []string{"ports.r0.quota: 32 -> 5"}, false,
			map[string]int{"r0/0": 5, "r1/0": 8}},
		{"the same again", "ports: [{name: r1, quota: 8}, {name: r0, quota: 5}]\npoller: {quota: 32}\n", []string{"nothing changed"}, false, nil},
		{"feedback off", "ports: [{name: r0, quota: 5}, {name: r1, quota: 8}]\npoller: {quota: 32, feedback: off}\n",
			[]string{"poller.feedback: "}, false, nil},
		{"a port's own feedback", "ports: [{name: r0, quota: 5, feedback: {low: 10%}}, {name: r1, quota: 8}]\npoller: {quota: 32, feedback: off}\n",
			[]string{"ports.r0.feedback: off -> on"}, false, nil},
		{"a port's backlog", "ports: [{name: r0, quota: 5, backlog: 64}, {name: r1, quota: 8}]\npoller: {quota: 32}\n",
			[]string{"ports.r0.backlog: 1024 -> 64", "restart"}, true, nil},
		{"the workers' weight", ports + "poller: {nice: 5}\n", []string{"poller.nice: 0 -> 5", "restart"}, true, nil},
		{"a key for a restart, among others", ports + "poller: {quota: 16}\nrings: {rx: 512}\n", []string{"rings.rx", "2048", "512", "restart"}, true, nil},
		{"another port", ports + "  - name: r2\n", []string{"weir: reload: ports.r2: absent -> r2", "restart"}, true, nil},
		{"how it receives", ports + "poller: {ownership: off}\n", []string{"poller.ownership: auto -> off", "restart"}, true, nil},
		{"a port less", "ports: [{name: r0}]\n", []string{"weir: reload: ports.r1: r1 -> absent", "restart"}, true, nil},
		{"a syntax error", ports + "poller: {quota: 16\n", []string{"weir.yaml:5:"}, true, nil},
		{"an unknown key", ports + "poller: {quotas: 16}\n", []string{"weir.yaml:5:", "poller.quotas"}, true, nil},
		{"an empty file", "\n", []string{"weir.yaml", "empty"}, true, nil},
		{"no file", "", []string{"weir.yaml", "no such file"}, true, nil},
		{"good again", ports + "poller: {quota: inf}\n", []string{"poller.quota: 32 -> inf"}, false, nil},
		{"and as it was", ports + "poller: {quota: 64}\n", []string{"poller.quota: inf -> 64"}, false, map[string]int{"r0/0": 64, "r1/0": 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := quotas(t)
			if c.file == "" {
				require.NoError(t, os.Remove(path))
			} else {
				write(t, c.file)
			}
			code, p := execute(t, top.Rtr, weir("reload"))
			said := p.stdout.String()
			if c.refused {
				require.Equal(t, exitFailure, code)
				require.Empty(t, said)
				said = oneLine(t, p.stderr.String())
				c.quotas = was
			} else {
				require.Equal(t, exitOK, code, "stderr: %s", &p.stderr)
			}
			t.Logf("exit %d: %s", code, said)
			for _, words := range c.says {
				require.Contains(t, said, words)
			}
			if c.quotas != nil {
				require.Equal(t, c.quotas, quotas(t))
			}
		})
	}
	t.Run("SIGHUP", func(t *testing.T) {
		write(t, ports+"poller: {quota: 16}\n")
		w.signal(t, unix.SIGHUP)
		require.Eventually(t, func() bool { return quotas(t)["r0/0"] == 16 }, restTimeout, 5*time.Millisecond)
		w.waitFor(t, &w.stderr, regexp.MustCompile(`level=INFO msg=reload key=poller\.quota old=64 new=16\n`), restTimeout)

		write(t, ports+"poller: {quota: 8, quotas: 3}\n")
		w.signal(t, unix.SIGHUP)
		w.waitFor(t, &w.stderr, regexp.MustCompile(`level=ERROR .*nothing changed.*weir\.yaml:5:.*poller\.quotas.*\n`), restTimeout)
		require.Equal(t, map[string]int{"r0/0": 16, "r1/0": 8}, quotas(t))
	})

	time.Sleep(100 * time.Millisecond)
	require.NoError(t, s.stop())
	after := w.atRest(t)
	t.Logf("%d packets sent meanwhile", s.sent.Load())
	require.Zero(t, s.refused.Load())
	require.Equal(t, s.sent.Load(), portOf(t, after, "r1").Delivered-portOf(t, before, "r1").Delivered, "packets delivered during the reloads")
	require.Zero(t, sum(after.Totals.Dropped)-sum(before.Totals.Dropped), "dropped: %v", nonZero(after.Totals.Dropped))
	w.stop(t)
}
