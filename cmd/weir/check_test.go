package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.Equal(t, before, stateOf(t, top.Rtr))

	code, p := execute(t, top.Rtr, weir("check", "-c", path, "--port", "r0"))
	require.Equal(t, exitUsage, code)
	require.Contains(t, oneLine(t, p.stderr.String()), "r0")
}
