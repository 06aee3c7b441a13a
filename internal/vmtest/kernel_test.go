package vmtest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/internal/vmtest"
)

func TestFindKernel(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("WEIR_KERNELS", dir)
	_, err := vmtest.FindKernel("6.12")
	require.ErrorContains(t, err, vmtest.Install, "how to get it")

	image := filepath.Join(dir, "6.12", "boot", "vmlinuz-6.12.0-test")
	require.NoError(t, os.MkdirAll(filepath.Dir(image), 0o755))
	require.NoError(t, os.WriteFile(image, nil, 0o644))
	k, err := vmtest.FindKernel("6.12")
	require.NoError(t, err)
	require.Equal(t, "6.12.0-test", k.Release)
	require.Equal(t, image, k.Image())
}
