package nettest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// TB is the part of testing.TB that this package needs. Every *testing.T, *testing.B and *testing.F is one.
type TB interface {
	Helper()
	Cleanup(func())
	Skip(args ...any)
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

// RequirePrivilege skips the test, naming what is missing, when this process cannot make network namespaces and load BPF programs.
// With REQUIRE_PRIVILEGED=1 in the environment the test fails instead.
func RequirePrivilege(t TB) {
	t.Helper()
	err := privileged()
	switch {
	case err == nil:
	case os.Getenv("REQUIRE_PRIVILEGED") == "1":
		t.Fatal("REQUIRE_PRIVILEGED=1: ", err)
	default:
		t.Skip(err)
	}
}

// privileged finds out once whether this process can do what the privileged tests do.
var privileged = sync.OnceValue(func() error {
	missing, err := missingCapabilities()
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing %s: run as root", strings.Join(missing, ", "))
	}
	// Having the capabilities is not enough inside a container that filters system calls: so do it.
	fd, err := newNamespace()
	if err != nil {
		return err
	}
	return unix.Close(fd)
})

// missingCapabilities names those capabilities that tests need and this process does not have.
func missingCapabilities() ([]string, error) {
	effective, err := effectiveCapabilities()
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, c := range [...]struct {
		bit  uint
		name string
	}{
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"},
		{unix.CAP_NET_RAW, "CAP_NET_RAW"},
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"},
		{unix.CAP_BPF, "CAP_BPF"},
	} {
		if effective&(1<<c.bit) == 0 {
			missing = append(missing, c.name)
		}
	}
	return missing, nil
}

// effectiveCapabilities reads the capability set of this process, bit n for capability n.
func effectiveCapabilities() (uint64, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if hex, ok := strings.CutPrefix(s.Text(), "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return 0, errors.New("read /proc/self/status: no CapEff line")
}
