package main

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"weir/bench"
	"weir/internal/nettest"
)

// TestCheck: what check prints is a whole configuration, which it takes again as it is; and it changes nothing.
func TestCheck(t *testing.T) {
	top := nettest.T0(t)
	before := stateOf(t, top.Rtr)
	check := func(args ...string) string {
		code, p := execute(t, top.Rtr, weir(append([]string{"check"}, args...)...))
		require.Equal(t, exitOK, code, "stderr: %s", &p.stderr)
		require.Empty(t, p.stderr.String())
		return p.stdout.String()
	}
	effective := check("--port", "r0", "--port", "r1", "--quota", "32", "--cpus", "1", "--set", "ports.r1.mode=copy")
	for _, line := range []string{"name: r0", "name: r1", "mode: copy", "quota: 32", "frame_size: 2048", "listen: 127.0.0.1:9473"} {
		require.Contains(t, effective, line)
	}
	path := filepath.Join(t.TempDir(), "weir.yaml")
	require.NoError(t, os.WriteFile(path, []byte(effective), 0o600))
	require.Equal(t, effective, check("-c", path))
	off := check("-c", path, "--mechanisms", "off", "--set", "rings.fill_min=64")
	for _, line := range []string{"mode: poll", "ownership: off", "quota: inf", "feedback: off", "limit: 100%", "early_discard: off", "fill_min: 64"} {
		require.Contains(t, off, line)
	}
	require.NotContains(t, off, "quota: 32")
	require.NoError(t, os.WriteFile(path, []byte(off), 0o600))
	require.Equal(t, off, check("-c", path))
	require.Equal(t, before, stateOf(t, top.Rtr))

	code, p := execute(t, top.Rtr, weir("check", "-c", path, "--port", "r0"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, oneLine(t, p.stderr.String()), "r0")
}

// check says what stands in the way of a start, as far as it shows without touching a port.
func TestCheckRefusesWhatRunRefuses(t *testing.T) {
	top := nettest.T0(t)
	ports := []string{"check", "--port", "r0", "--port", "r1"}
	t.Run("CPU", func(t *testing.T) {
		refuse(t, top.Rtr, weir(append(ports, "--cpus", "99")...), exitUsage, "workers: CPU 99", "choose one of them")
	})
	t.Run("policy rule", func(t *testing.T) {
		rule := netlink.NewRule()
		rule.Src, rule.Table, rule.Family = &net.IPNet{IP: net.IPv4(10, 9, 9, 9), Mask: net.CIDRMask(32, 32)}, 99, netlink.FAMILY_V4
		require.NoError(t, top.Rtr.Handle().RuleAdd(rule))
		defer func() { require.NoError(t, top.Rtr.Handle().RuleDel(rule)) }()
		refuse(t, top.Rtr, weir(ports...), exitUsage, "policy routing", "table 99", "ip rule")
	})
	t.Run("another program", func(t *testing.T) {
		w, err := bench.StartWeir(t.Context(), top.Rtr, "--port", "r1", "--set", "metrics.listen=off")
		require.NoError(t, err)
		defer func() { require.NoError(t, w.Stop()) }()
		refuse(t, top.Rtr, weir(ports...), exitUsage, "r1", "another XDP program")
	})
}
