//go:build vm

package vmtest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// stacks: the guest has what routers stack on a NIC, for the tests that need it. It tries them in a network namespace of their own: the
// first VRF leaves a rule behind, which weir would refuse as policy routing.
func (l *lab) stacks(t *testing.T) {
	out := l.run(t, "unshare", "-n", "/bin/sh", "-ec", `
		ip link add nic type dummy; ip link set nic up
		ip link add link nic name tagged type vlan id 5
		ip link add red type vrf table 10; ip link set red up
		ip link set tagged master red up
		ip -details link show dev tagged`)
	require.Regexp(t, `vlan protocol 802.1Q id 5[\s\S]*vrf_slave table 10`, out)
}
