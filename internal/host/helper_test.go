package host

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

func TestMain(m *testing.M) { os.Exit(nettest.Main(m)) }

// newRouter is a namespace with two ports, in0 and out0, whose other ends are p0 and p1 in the same namespace.
func newRouter(t *testing.T) *nettest.NS {
	t.Helper()
	nettest.RequirePrivilege(t)
	ns, err := nettest.NewNS("host")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	require.NoError(t, nettest.Veth(ns, "in0", ns, "p0", nettest.VethOptions{
		A: nettest.VethEnd{NumRX: 4, NumTX: 2}, B: nettest.VethEnd{NumRX: 2, NumTX: 4},
	}))
	require.NoError(t, nettest.Veth(ns, "out0", ns, "p1", nettest.VethOptions{}))
	return ns
}

// run runs a command in the namespace, given as one line.
func run(t *testing.T, ns *nettest.NS, line string) {
	t.Helper()
	f := strings.Fields(line)
	execute(t, ns, "", f[0], f[1:]...)
}

// execute runs a command in the namespace with input.
func execute(t *testing.T, ns *nettest.NS, input, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("REQUIRE_PRIVILEGED") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := ns.Command(ctx, name, args...)
	var out strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	require.NoError(t, ns.Run(cmd), out.String())
}

// inside runs f in the namespace and requires that it succeeds.
func inside(t *testing.T, ns *nettest.NS, f func() error) {
	t.Helper()
	require.NoError(t, ns.Do(f))
}
