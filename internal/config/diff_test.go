package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDiffEveryKey changes each key by itself: the difference names exactly that key and whether it is live.
func TestDiffEveryKey(t *testing.T) {
	changes := []struct {
		key, value string
		live       bool
	}{
		{"ports.a.mode", "copy", false},
		{"ports.a.quota", "7", true},
		{"ports.a.feedback", "off", true},
		{"ports.a.feedback.high", "80%", true},
		{"ports.a.feedback.low", "20%", true},
		{"ports.a.feedback.timeout", "2ms", true},
		{"ports.a.backlog", "64", false},
		{"ports.a.allow_management", "true", false},
		{"workers", "[1]", false},
		{"poller.mode", "poll", false},
		{"poller.ownership", "io_uring", false},
		{"poller.quota", "auto", true},
		{"poller.nice", "-5", false},
		{"poller.feedback", "off", true},
		{"poller.feedback.high", "80%", true},
		{"poller.feedback.low", "20%", true},
		{"poller.feedback.timeout", "2ms", true},
		{"poller.cpu_share.limit", "50%", false},
		{"poller.cpu_share.period", "20ms", false},
		{"poller.cpu_share.strict", "true", false},
		{"poller.early_discard", "ring", false},
		{"umem.frames", "64", false},
		{"umem.frame_size", "4096", false},
		{"rings.rx", "64", false},
		{"rings.tx", "64", false},
		{"rings.fill", "1024", false},
		{"rings.completion", "64", false},
		{"rings.fill_depth", "512", false},
		{"rings.fill_min", "64", false},
		{"rings.backlog", "64", false},
		{"accept_bypass", "true", false},
		{"metrics.listen", "off", false},
		{"control.socket", "/run/s", false},
	}
	base := Default()
	require.NoError(t, base.AddPort("a"))
	for _, a := range []string{"quota=5", "feedback.high=75%", "feedback.low=25%", "feedback.timeout=1ms", "backlog=1024"} {
		require.NoError(t, base.Set("ports.a."+a), "or it would follow what it inherits")
	}

	var keys, listed []string
	for _, f := range base.Ports[0].fields() {
		keys = append(keys, "ports.a."+f.path)
	}
	for _, f := range base.fields() {
		keys = append(keys, f.path)
	}
	for _, ch := range changes {
		listed = append(listed, ch.key)
		c := base.Clone()
		require.NoError(t, c.Set(ch.key+"="+ch.value))
		require.NoError(t, c.Validate())
		got := Diff(base, c)
		require.Len(t, got, 1, ch.key)
		require.Equal(t, ch.key, got[0].Key)
		require.Equal(t, ch.value, got[0].New)
		require.NotEmpty(t, got[0].Old)
		require.Equal(t, ch.live, got[0].Live, ch.key)
		require.Empty(t, Diff(c, c))
	}
	require.Equal(t, keys, listed, "the list above covers every key")
}

func TestDiffPorts(t *testing.T) {
	a, b := Default(), Default()
	for _, name := range []string{"p", "q"} {
		require.NoError(t, a.AddPort(name))
	}
	for _, name := range []string{"r", "p"} {
		require.NoError(t, b.AddPort(name))
	}
	require.Equal(t, []Change{
		{Key: "ports.r", New: "r"},
		{Key: "ports.q", Old: "q"},
	}, Diff(a, b))
}

func TestDiffInheritedQuota(t *testing.T) {
	a := Default()
	require.NoError(t, a.AddPort("p"))
	b := a.Clone()
	require.NoError(t, b.Set("poller.quota=32"))
	require.Equal(t, []Change{
		{Key: "ports.p.quota", Old: "256", New: "32", Live: true},
		{Key: "poller.quota", Old: "256", New: "32", Live: true},
	}, Diff(a, b))
	require.NoError(t, b.Set("ports.p.quota=256"))
	require.Equal(t, []Change{{Key: "poller.quota", Old: "256", New: "32", Live: true}}, Diff(a, b))
}

func TestDiffInheritedFeedback(t *testing.T) {
	a := Default()
	require.NoError(t, a.AddPort("p"))
	require.NoError(t, a.AddPort("q"))
	require.NoError(t, a.Set("ports.q.feedback.high=90%"))
	b := a.Clone()
	require.NoError(t, b.Set("poller.feedback.high=80%"))
	require.Equal(t, []Change{
		{Key: "ports.p.feedback.high", Old: "75%", New: "80%", Live: true},
		{Key: "poller.feedback.high", Old: "75%", New: "80%", Live: true},
	}, Diff(a, b))
	require.NoError(t, b.Set("poller.feedback=off"))
	require.Equal(t, []Change{
		{Key: "ports.p.feedback", Old: "on", New: "off", Live: true},
		{Key: "poller.feedback", Old: "on", New: "off", Live: true},
	}, Diff(a, b), "q asked for feedback; marks that are off are no change")
	require.NoError(t, b.Set("rings.backlog=64"))
	require.NoError(t, b.Set("poller.feedback=on"))
	require.NoError(t, b.Set("poller.feedback.high=75%"))
	require.Equal(t, []Change{
		{Key: "ports.p.backlog", Old: "1024", New: "64"},
		{Key: "ports.q.backlog", Old: "1024", New: "64"},
		{Key: "rings.backlog", Old: "1024", New: "64"},
	}, Diff(a, b))
}
