package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestOwnFeedback: what a port leaves out is the poller's, key by key, whatever their order.
func TestOwnFeedback(t *testing.T) {
	c, err := Parse("f", []byte(`ports:
  - name: lan
    feedback: {high: 60%}
  - name: lan.feedback
  - name: wan
    feedback: {}
poller:
  feedback: {high: 80%, low: 10%, timeout: 3ms}
`))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	of := func(i int) Feedback { return c.PortFeedback(c.Ports[i]) }
	common := Feedback{High: 80, Low: 10, Timeout: 3 * time.Millisecond}
	require.Equal(t, Feedback{High: 60, Low: 10, Timeout: 3 * time.Millisecond}, of(0))
	require.Equal(t, common, of(1))
	require.Equal(t, common, of(2))

	require.NoError(t, c.Set("poller.feedback=off"))
	require.False(t, of(0).Off, "the port asked for it")
	require.True(t, of(1).Off)
	require.False(t, of(2).Off, "a mapping asks for feedback, if an empty one")
	reread(t, c)

	// A name may end in what looks like a key.
	require.NoError(t, c.Set("ports.lan.feedback=off"))
	require.True(t, of(0).Off)
	require.NoError(t, c.Set("ports.lan.feedback.low=5%"))
	require.Equal(t, Feedback{High: 60, Low: 5, Timeout: 3 * time.Millisecond}, of(0), "a mark asks for feedback")
	require.NoError(t, c.Set("ports.lan.feedback.feedback.timeout=1s"))
	require.Equal(t, Feedback{High: 80, Low: 10, Timeout: time.Second}, of(1))
	require.ErrorContains(t, c.Set("ports.lan.feedback.speed=1"), "ports.lan.feedback.speed: unknown key: known here are mode, quota, feedback,")
	reread(t, c)
}

func TestPortBacklog(t *testing.T) {
	c := Default()
	require.NoError(t, c.AddPort("a"))
	require.NoError(t, c.AddPort("b"))
	require.NoError(t, c.Set("ports.b.backlog=128"))
	require.NoError(t, c.Set("rings.backlog=64"))
	require.Equal(t, 64, c.PortBacklog(c.Ports[0]))
	require.Equal(t, 128, c.PortBacklog(c.Ports[1]))
	reread(t, c)
}

// TestFillMinDefault: left out, it never stands in the way of a low fill_depth.
func TestFillMinDefault(t *testing.T) {
	c, err := Parse("f", []byte("ports: [{name: a}]\nrings: {fill_depth: 100}"))
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, 100, c.FillMin())
	require.Contains(t, string(c.Effective()), "  fill_depth: 100\n  fill_min: 100\n")
	reread(t, c)
	require.NoError(t, c.Set("rings.fill_depth=513"))
	require.Equal(t, 512, c.FillMin())
	require.NoError(t, c.Set("rings.fill_min=513"))
	require.Equal(t, 513, c.FillMin())
	require.NoError(t, c.Validate())
}
