package bench

import (
	"cmp"
	"net/netip"

	"weir/xdpprog"
)

// traffic is what the generator of a rig sends. The zero value is the flood of Rig.Flood.
type traffic struct {
	// size is of a frame without FCS, in bytes; 0 is the least of the family.
	size int
	v6   bool
	// first and number are the destinations, one after the other by rising address; an invalid first is the sink.
	first  netip.Addr
	number int
}

// leastSize6 is an IPv6 frame with the generator's stamp and nothing else.
const leastSize6 = 78

func (t traffic) apply(c *xdpprog.GeneratorConfig) {
	if t.v6 {
		c.Src, c.Dst, c.Size = GenAddr6, SinkAddr6, leastSize6
	}
	if t.first.IsValid() {
		c.Dst, c.NumDestinations = t.first, t.number
	}
	c.Size = cmp.Or(t.size, c.Size)
}
