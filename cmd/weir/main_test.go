package main

import (
	"os"
	"strings"
	"testing"

	"weir/internal/nettest"
)

// TestMain lets this test binary be weir: started with weir's arguments it is nothing else. The tests here, `weir demo` and bench start
// it so, in processes of their own, with the signals, exit codes and privileges that users meet.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-test.") {
		main()
	}
	os.Exit(nettest.Main(m))
}

// often is how many times a test repeats what must succeed every time: a few, or as often as it takes to believe it with WEIR_LONG=1 in
// the environment.
func often(few, many int) int {
	if os.Getenv("WEIR_LONG") == "1" {
		return many
	}
	return few
}
