package vmtest_test

import (
	"fmt"
	"os"
	"testing"

	"weir/internal/nettest"
)

// scratch is a directory for what all tests share.
var scratch string

func TestMain(m *testing.M) {
	code := func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "weir-vmtest-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(scratch)
		return nettest.Main(m)
	}()
	os.Exit(code)
}
