package vmtest_test

import (
	"os"
	"testing"

	"weir/internal/nettest"
)

func TestMain(m *testing.M) { os.Exit(nettest.Main(m)) }
