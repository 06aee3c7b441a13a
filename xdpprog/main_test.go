package xdpprog

import (
	"os"
	"testing"

	"weir/internal/nettest"
)

func TestMain(m *testing.M) {
	if index := os.Getenv(childEnv); index != "" {
		os.Exit(attachChild(index))
	}
	os.Exit(nettest.Main(m))
}
