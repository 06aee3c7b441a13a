package vmtest_test

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// emulatorFault tells whether a panic shows flags that no CPU can have: QEMU 7.2 now and then takes an operand of the last arithmetic
// instruction for the flags and pushes that on the guest's stack. ./test vm tests such a guest once more; any other death of a guest is a
// failure.
func emulatorFault(console string) bool {
	const always0, always1 = 0xffc08028, 0x2 // of EFLAGS
	for _, m := range regexp.MustCompile(`EFLAGS: ([0-9a-f]{8})\b`).FindAllStringSubmatch(console, -1) {
		if flags, err := strconv.ParseUint(m[1], 16, 32); err == nil && (flags&always0 != 0 || flags&always1 == 0) {
			return true
		}
	}
	return false
}

func TestEmulatorFault(t *testing.T) {
	for _, c := range []struct {
		console string
		fault   bool
	}{
		{"RSP: 0018:ffffcfe7c21878d0 EFLAGS: df273a02\r\nRAX: ffff8d24df270000", true}, // seen; RDI was ffff8d24df273800
		{"RSP: 0018:ffffcfe7c21878d0 EFLAGS: 00000100\r\nRAX: ffff8d24df270000", true}, // made up: a small operand
		{"RSP: 0018:ffffcfe7c21878d0 EFLAGS: 00010246\r\nRAX: ffff8d24df270000", false},
		{"RSP: 002b:0000071f47ad6c28 EFLAGS: 00000206 ORIG_RAX: 000000000000002c", false},
		{"Kernel panic - not syncing: Fatal exception in interrupt", false},
	} {
		require.Equal(t, c.fault, emulatorFault(c.console), c.console)
	}
}
