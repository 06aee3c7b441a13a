package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"weir/engine"
	"weir/internal/config"
	"weir/poller"
)

// TestMechanisms: what --mechanisms and --without leave out, over a file that has all of it, and what wins over them.
func TestMechanisms(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`ports: [{name: a}, {name: b, quota: 8}]
poller:
  mode: interrupt
  ownership: socket
  quota: 32
  feedback: {high: 80%}
  cpu_share: {limit: 50%, strict: false}
  early_discard: ring
`), 0o600))
	file, err := config.Load(path)
	require.NoError(t, err)
	const (
		mode, feedback, share = "poller.mode=poll", "poller.feedback=off", "poller.cpu_share.limit=100%"
		quota, quotaA, quotaB = "poller.quota=inf", "ports.a.quota=inf", "ports.b.quota=inf"
		discard, ownership    = "poller.early_discard=off", "poller.ownership=off"
	)
	all := []string{quotaA, quotaB, mode, ownership, quota, feedback, share, discard}
	for _, c := range []struct {
		name string
		args []string
		want []string // what differs from the file
	}{
		{"none", nil, nil},
		{"on", []string{"--mechanisms", "on"}, nil},
		{"off", []string{"--mechanisms", "off"}, all},
		{"feedback", []string{"--without", "feedback"}, []string{feedback}},
		{"share", []string{"--without", "share"}, []string{share}},
		{"quota", []string{"--without", "quota"}, []string{quotaA, quotaB, quota}},
		{"discard", []string{"--without", "discard"}, []string{discard}},
		{"ownership", []string{"--without", "ownership"}, []string{ownership}},
		{"two", []string{"--without", "ownership,share"}, []string{ownership, share}},
		{"two flags, one word twice", []string{"--without", "share", "--without", "ownership,share"}, []string{ownership, share}},
		{"on and one", []string{"--mechanisms", "on", "--without", "share"}, []string{share}},
		{"off and one", []string{"--mechanisms", "off", "--without", "share"}, all},
		{"set wins", []string{"--set", "poller.cpu_share.limit=20%", "--without", "share,ownership"},
			[]string{ownership, "poller.cpu_share.limit=20%"}},
		{"set wins over off", []string{"--set", "poller.mode=hybrid", "--set", "poller.feedback.low=10%", "--set", "ports.b.quota=3", "--mechanisms", "off"},
			[]string{quotaA, "ports.b.quota=3", "poller.mode=hybrid", ownership, quota, "poller.feedback.low=10%", share, discard}},
		{"quota wins", []string{"--quota", "5", "--without", "quota"}, []string{"ports.a.quota=5", "ports.b.quota=5", "poller.quota=5"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, command := range []string{"run", "check"} {
				cfg, err := settingsOf(t, append([]string{command, "-c", path}, c.args...)...).load()
				require.NoError(t, err)
				var got []string
				for _, change := range config.Diff(file, cfg) {
					got = append(got, change.Key+"="+change.New)
				}
				require.Equal(t, c.want, got, command)
			}
		})
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
	require.Equal(t, 128, engineConfig(config.Default()).Rings.FillMin)
	_, err := engine.ParseOwnership("on")
	require.EqualError(t, err, `ownership "on": unknown: use auto, off, socket, io_uring or kthread`)
}
