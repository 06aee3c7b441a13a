package xdpprog

import (
	"os"
	"testing"

	"weir/internal/nettest"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		child(what)
		return
	}
	os.Exit(nettest.Main(m))
}
