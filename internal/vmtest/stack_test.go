//go:build vm

package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// stacks: the guest has what routers stack on a NIC, for the tests that need it.
func (l *lab) stacks(t *testing.T) {
	out := l.shell(t, `
		ip link add link `+l.guest.cards[0].name+`0 name tagged type vlan id 5
		ip link add red type vrf table 10; ip link set tagged master red up; ip link set red up
		ip -details link show dev tagged
		ip link del tagged; ip link del red`)
	require.Regexp(t, `vlan protocol 802.1Q id 5[\s\S]*vrf_slave table 10`, out)
}
