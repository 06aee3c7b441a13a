package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"weir/engine"
	"weir/internal/config"
	"weir/internal/nettest"
	"weir/poller"
)

// TestMechanisms: what --mechanisms and --without leave out, over a file that has all of it, and what wins over them.
func TestMechanisms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`ports: [{name: a}, {name: b, quota: 8, feedback: {high: 60%}}, {name: c, quota: 9, feedback: off}]
poller:
  mode: interrupt
  ownership: auto
  quota: 32
  feedback: {high: 80%}
  cpu_share: {limit: 50%, strict: false}
  early_discard: ring
`), 0o600))
	file, err := config.Load(path)
	require.NoError(t, err)
	const (
		mode, share                    = "poller.mode=poll", "poller.cpu_share.limit=100%"
		feedback, feedbackA, feedbackB = "poller.feedback=off", "ports.a.feedback=off", "ports.b.feedback=off"
		quota, quotaA, quotaB, quotaC  = "poller.quota=inf", "ports.a.quota=inf", "ports.b.quota=inf", "ports.c.quota=inf"
		discard, ownership             = "poller.early_discard=off", "poller.ownership=off"
	)
	all := []string{quotaA, feedbackA, quotaB, feedbackB, quotaC, mode, ownership, quota, feedback, share, discard}
	const allWords = "feedback,share,quota,discard,ownership"
	for _, c := range []struct {
		name string
		args []string
		want []string // what differs from the file
		out  string   // what a start warns of
	}{
		{"none", nil, nil, ""},
		{"on", []string{"--mechanisms", "on"}, nil, ""},
		{"off", []string{"--mechanisms", "off"}, all, allWords},
		{"feedback", []string{"--without", "feedback"}, []string{feedbackA, feedbackB, feedback}, "feedback"},
		{"share", []string{"--without", "share"}, []string{share}, "share"},
		{"quota", []string{"--without", "quota"}, []string{quotaA, quotaB, quotaC, quota}, "quota"},
		{"discard", []string{"--without", "discard"}, []string{discard}, "discard"},
		{"ownership", []string{"--without", "ownership"}, []string{ownership}, "ownership"},
		{"two", []string{"--without", "ownership,share"}, []string{ownership, share}, "share,ownership"},
		{"two flags, one word twice", []string{"--without", "share", "--without", "ownership,share"}, []string{ownership, share}, "share,ownership"},
		{"on and one", []string{"--mechanisms", "on", "--without", "share"}, []string{share}, "share"},
		{"off and one", []string{"--mechanisms", "off", "--without", "share"}, all, allWords},
		{"set wins", []string{"--set", "poller.cpu_share.limit=20%", "--without", "share,ownership"},
			[]string{ownership, "poller.cpu_share.limit=20%"}, "ownership"},
		{"set itself is no mechanism left out", []string{"--set", "poller.cpu_share.limit=100%"}, []string{share}, ""},
		{"set wins over feedback", []string{"--without", "feedback", "--set", "poller.feedback=on"}, nil, ""},
		{"set wins of one port", []string{"--without", "feedback", "--set", "ports.b.feedback.low=9%"},
			[]string{feedbackA, "ports.b.feedback.low=9%", feedback}, "feedback"},
		{"set wins over off", []string{"--set", "poller.mode=hybrid", "--set", "poller.feedback.low=10%", "--set", "ports.b.quota=3", "--mechanisms", "off"},
			[]string{quotaA, "ports.a.feedback.low=10%", "ports.b.quota=3", "ports.b.feedback.low=10%", quotaC, "poller.mode=hybrid", ownership, quota,
				"poller.feedback.low=10%", share, discard}, "share,quota,discard,ownership"},
		{"quota wins", []string{"--quota", "5", "--without", "quota"},
			[]string{"ports.a.quota=5", "ports.b.quota=5", "ports.c.quota=5", "poller.quota=5"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, command := range []string{"run", "check"} {
				s := settingsOf(t, append([]string{command, "-c", path}, c.args...)...)
				cfg, err := s.load()
				require.NoError(t, err)
				require.Equal(t, c.out, strings.Join(s.leftOut(cfg), ","), command)
				var got []string
				for _, change := range config.Diff(file, cfg) {
					got = append(got, change.Key+"="+change.New)
				}
				require.Equal(t, c.want, got, command)
			}
		})
	}
}

// TestRunWarnsOfMechanisms: who left a mechanism out is told so once, and nobody else is.
func TestRunWarnsOfMechanisms(t *testing.T) {
	top := nettest.T0(t)
	warning := regexp.MustCompile(`(?m)^.*mechanisms left out.*\n`)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--without", "share,feedback"}, "level=WARN msg=\"mechanisms left out: this is for measuring\" without=feedback,share mode=hybrid"},
		{[]string{"--set", "poller.feedback=off"}, ""},
	} {
		w := startRouter(t, top.Rtr, append([]string{"--port", "r0", "--port", "r1"}, c.args...)...)
		w.stop(t)
		got := warning.FindAllString(w.stderr.String(), -1)
		if c.want == "" {
			require.Empty(t, got, "%v", c.args)
			continue
		}
		require.Len(t, got, 1, "%v", c.args)
		require.Contains(t, got[0], c.want)
	}
}

// settingsOf is what a command line of run or check sets.
func settingsOf(t *testing.T, args ...string) settings {
	t.Helper()
	var c commands
	parser, err := kong.New(&c)
	require.NoError(t, err)
	_, err = parser.Parse(args)
	require.NoError(t, err)
	if args[0] == "check" {
		return c.Check.settings
	}
	return c.Run.settings
}

// TestEngineConfig: every word of the file has its counterpart in the engine.
func TestEngineConfig(t *testing.T) {
	translate := func(assignment string) engine.Config {
		c := config.Default()
		require.NoError(t, c.Set(assignment))
		return engineConfig(c)
	}
	for word, want := range map[string]poller.Mode{"hybrid": poller.Hybrid, "interrupt": poller.Interrupt, "poll": poller.Poll} {
		require.Equal(t, want, translate("poller.mode="+word).Poller.Mode, word)
	}
	for _, word := range []string{"auto", "off", "socket", "io_uring", "kthread"} {
		want, err := engine.ParseOwnership(word)
		require.NoError(t, err)
		require.Equal(t, want, translate("poller.ownership="+word).Ownership)
		require.Equal(t, word, want.String())
	}
	for word, want := range map[string]engine.EarlyDiscard{"xdp": engine.DiscardXDP, "ring": engine.DiscardRing, "off": engine.DiscardOff} {
		require.Equal(t, want, translate("poller.early_discard="+word).EarlyDiscard, word)
	}
	require.True(t, translate("poller.cpu_share.strict=true").Poller.Share.Strict)
	require.False(t, translate("poller.cpu_share.strict=false").Poller.Share.Strict)
	require.Equal(t, 7, translate("rings.fill_min=7").Rings.FillMin)
	require.Equal(t, 512, engineConfig(config.Default()).Rings.FillMin)
	require.Equal(t, 9, translate("rings.fill_depth=9").Rings.FillMin)
	require.Equal(t, -3, translate("poller.nice=-3").WorkerNice)
	require.Equal(t, poller.Share{Limit: 90, Period: 10 * time.Millisecond}, engineConfig(config.Default()).Poller.Share)
	require.Equal(t, engine.Feedback{High: 0.75, Low: 0.5, Timeout: time.Millisecond}, translate("poller.feedback.low=50%").Feedback)

	c := config.Default()
	for _, name := range []string{"a", "b", "c"} {
		require.NoError(t, c.AddPort(name))
	}
	for _, a := range []string{"poller.feedback.timeout=2ms", "ports.b.feedback.high=50%", "ports.b.backlog=64", "ports.c.feedback=off"} {
		require.NoError(t, c.Set(a))
	}
	ports := engineConfig(c).Ports
	require.Nil(t, ports[0].Feedback)
	require.Zero(t, ports[0].Backlog)
	require.Equal(t, &engine.Feedback{High: 0.5, Low: 0.25, Timeout: 2 * time.Millisecond}, ports[1].Feedback)
	require.Equal(t, 64, ports[1].Backlog)
	require.True(t, ports[2].Feedback.Off)
	_, err := engine.ParseOwnership("on")
	require.EqualError(t, err, `ownership "on": unknown: use auto, off, socket, io_uring or kthread`)
}
