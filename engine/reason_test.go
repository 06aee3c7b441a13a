package engine

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/xdpprog"
)

// Every reason has a name of its own and a line in docs/counters.md.
func TestReasonsAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/counters.md")
	require.NoError(t, err)
	seen := map[string]bool{}
	for r := forwarded + 1; r < numReasons; r++ {
		name := r.String()
		require.NotEmpty(t, name, "reason %d", r)
		require.False(t, seen[name], "%s is used twice", name)
		seen[name] = true
		require.Contains(t, string(page), "`"+name+"`")
	}
	for class := range xdpprog.Class(xdpprog.NumClasses) {
		require.Contains(t, string(page), "`"+class.String()+"`")
	}
	require.Equal(t, "invalid", numReasons.String())
}
