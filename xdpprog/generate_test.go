package xdpprog

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The committed objects are what the pinned compiler makes of the sources: nobody edits them by hand.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for _, tool := range []string{"clang-14", "llvm-strip-14"} {
		if _, err := exec.LookPath(tool); err != nil {
			require.NotEqual(t, "1", os.Getenv("REQUIRE_PRIVILEGED"), "%v: install Debian's clang-14 and llvm-14", err)
			t.Skipf("%v: install Debian's clang-14 and llvm-14", err)
		}
	}
	source, err := os.ReadFile("generate.go")
	require.NoError(t, err)
	dir := t.TempDir()
	for line := range strings.Lines(string(source)) {
		args, ok := strings.CutPrefix(strings.TrimSpace(line), "//go:generate go tool bpf2go ")
		if !ok {
			continue
		}
		cmd := exec.Command("go", append([]string{"tool", "bpf2go", "-output-dir", dir}, strings.Fields(args)...)...)
		cmd.Env = append(os.Environ(), "GOPACKAGE=xdpprog")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	committed, err := filepath.Glob("*_bpfel.*")
	require.NoError(t, err)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, len(committed))
	for _, name := range committed {
		want, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, string(want) == string(got), "%s differs from what its source gives: run go generate ./xdpprog", name)
	}
}
