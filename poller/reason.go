package poller

import (
	"math/bits"
	"strings"
)

// Reason says why a gate is closed: one bit per reason, 0 for an open gate.
// The bits are shared with the receive program, which counts its drops by them.
type Reason uint32

const (
	Feedback   Reason = 1 << iota // a downstream queue stands at its high mark
	CPUShare                      // input has used its share of this period
	Screen                        // the screening stage asked for quiet
	EgressDown                    // an egress this source feeds is down
	Admin                         // an operator closed it

	// NumReasons is how many reasons there are; counters are indexed by Index.
	NumReasons = 5

	allReasons = 1<<NumReasons - 1

	// lasting are the reasons with no bound of their own in time. A source
	// closed by one of them gives its receive work back, because the same
	// device carries the host's own packets (ARP, routing, logins).
	lasting = Screen | EgressDown | Admin
)

var reasonNames = [NumReasons]string{"feedback", "cpu_share", "screen", "egress_down", "admin"}

// Index returns the position of the lowest reason in r, from 0; r must not be 0.
func (r Reason) Index() int { return bits.TrailingZeros32(uint32(r)) }

// String returns the reasons in bit order joined by "+", or "open" for none.
func (r Reason) String() string {
	if r == 0 {
		return "open"
	}
	var names []string
	for i, name := range reasonNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if r&^allReasons != 0 {
		names = append(names, "unknown")
	}
	return strings.Join(names, "+")
}
