package arch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestArchitecture holds the whole module against the rules.
func TestArchitecture(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	faults, files, err := check(root)
	require.NoError(t, err)
	require.Greater(t, files, 50, "the module was not found")
	for _, f := range faults {
		t.Error(f)
	}
}

// TestRulesBite builds a module that breaks every rule and expects each fault.
func TestRulesBite(t *testing.T) {
	long := "package queues\n"
	for range maxTestLines {
		long += "\n"
	}
	faults := checkTree(t, map[string]string{
		"poller/doc.go":      "// Package poller is documented.\npackage poller\n",
		"poller/a.go":        "package poller\n\nimport (\n\t_ \"os/signal\"\n\tclock \"time\"\n\t_ \"weir/queues\"\n\t_ \"golang.org/x/sys/unix\"\n)\n\nfunc f() {\n\tgo f()\n\t_ = clock.Now()\n}\n",
		"queues/doc.go":      "// Package queues is documented.\npackage queues\n",
		"queues/a.go":        "package queues\n\nimport (\n\t_ \"unsafe\"\n\t_ \"weir/engine\"\n\t_ \"github.com/gopacket/gopacket\"\n)\n",
		"queues/a_test.go":   "package queues\n\nimport (\n\t_ \"unsafe\"\n\t_ \"weir/engine/fib\"\n\t_ \"weir/internal/nettest\"\n)\n",
		"queues/c_unsafe.go": "package queues\n\nimport \"C\"\n",
		"queues/long.go":     long[:len(long)-maxTestLines+maxLines],
		"queues/l_test.go":   long,
		"engine/a.go":        "package engine\n\nimport (\n\t_ \"net/http\"\n\t_ \"github.com/prometheus/client_golang/prometheus\"\n\t_ \"weir/internal/config\"\n\t_ \"weir/bench\"\n)\n",
		"bench/doc.go":       "// Package bench is documented.\npackage bench\n",
		"bench/a.go":         "package bench\n\nimport _ \"weir/cmd/weir\"\n",
		"attic/a.go":         "// Package attic is in no room.\npackage attic\n",
		"internal/host/doc.go": `// Package host is documented.
package host

// T is documented.
type T struct {
	A int
	// B is documented.
	B int
	C, D int // are documented
	e int
	T2
}

type T2 int

// I is documented.
type I interface {
	M()
	// N is documented.
	N()
}

func (T) M() {}
func (t *T2) N() {}
func (u u) O() {}

type u int

func F() {}

const K = 1

// Documented together.
const (
	L = 1
	M = 2
)

var (
	V = 1
	// W is documented.
	W = 2
	x = 3
)
`,
	})
	require.Equal(t, []string{
		"attic: in no room: add it to the table of rooms with what it may import",
		"bench/a.go:3: room bench imports weir/cmd/weir: not among what it may import",
		"engine/a.go:1: package engine has no doc.go",
		"engine/a.go:4: room engine imports net/http: never here",
		"engine/a.go:5: room engine imports github.com/prometheus/client_golang/prometheus: never here",
		"engine/a.go:6: room engine imports weir/internal/config: not among what it may import",
		"engine/a.go:7: room engine imports weir/bench: not among what it may import",
		"internal/host/doc.go:14: exported T2 has no doc comment",
		"internal/host/doc.go:18: exported I.M has no doc comment",
		"internal/host/doc.go:23: exported T.M has no doc comment",
		"internal/host/doc.go:24: exported T2.N has no doc comment",
		"internal/host/doc.go:29: exported F has no doc comment",
		"internal/host/doc.go:31: exported K has no doc comment",
		"internal/host/doc.go:40: exported V has no doc comment",
		"internal/host/doc.go:6: exported T.A has no doc comment",
		"poller/a.go:11: room poller has a go statement: it starts nothing",
		"poller/a.go:12: room poller calls time.Now: it is told the time",
		"poller/a.go:4: room poller imports os/signal: never here",
		"poller/a.go:6: room poller imports weir/queues: not among what it may import",
		"poller/a.go:7: room poller imports golang.org/x/sys/unix: only the standard library here",
		"queues/a.go:4: imports unsafe: only files named *_unsafe.go may",
		"queues/a.go:5: room queues imports weir/engine: not among what it may import",
		"queues/a.go:6: room queues imports github.com/gopacket/gopacket: only in tests",
		"queues/a_test.go:4: imports unsafe: only files named *_unsafe.go may",
		"queues/a_test.go:5: room queues imports weir/engine/fib: not among what it may import",
		"queues/c_unsafe.go:3: imports C: weir is built without cgo",
		"queues/l_test.go: 801 lines, more than 800: one concept in a file",
		"queues/long.go: 501 lines, more than 500: one concept in a file",
	}, faults)
}

// TestRulesAllow builds a module that keeps to every rule.
func TestRulesAllow(t *testing.T) {
	require.Empty(t, checkTree(t, map[string]string{
		"poller/doc.go":             "// Package poller is documented.\npackage poller\n\nimport \"time\"\n\n// D is documented.\nconst D = time.Second\n",
		"queues/doc.go":             "// Package queues is documented.\npackage queues\n",
		"queues/ring_unsafe.go":     "package queues\n\nimport (\n\t_ \"unsafe\"\n\t_ \"golang.org/x/sys/unix\"\n)\n",
		"queues/x_unsafe_test.go":   "package queues\n\nimport _ \"unsafe\"\n",
		"queues/x_test.go":          "package queues_test\n\nimport (\n\t_ \"testing\"\n\t_ \"weir/queues\"\n\t_ \"weir/internal/nettest\"\n\t_ \"github.com/gopacket/gopacket\"\n)\n\ntype Undocumented int\n",
		"queues/ringtest/doc.go":    "// Package ringtest is documented.\npackage ringtest\n\nimport _ \"weir/queues\"\n",
		"queues/generated_bpfel.go": "// Code generated by a tool; DO NOT EDIT.\n\npackage queues\n\ntype Undocumented int\n",
		"engine/doc.go":             "// Package engine is documented.\npackage engine\n\nimport (\n\t_ \"weir/engine/fib\"\n\t_ \"weir/internal/host\"\n\t_ \"weir/queues\"\n)\n",
		"engine/a_test.go":          "package engine\n\nimport _ \"weir/queues/ringtest\"\n",
		"cmd/weir/main.go":          "// Command weir is documented.\npackage main\n\nimport (\n\t_ \"weir/bench\"\n\t_ \"weir/internal/config\"\n)\n\ntype Flags struct{ Port string }\n",
		"queues/testdata/x.go":      "package nonsense\n\nimport _ \"unsafe\"\n",
	}))
}

// checkTree writes a module and checks it.
func checkTree(t *testing.T, files map[string]string) []string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	faults, n, err := check(root)
	require.NoError(t, err)
	require.Positive(t, n)
	return faults
}
