package config

import "strconv"

// Quota is the most packets a source may handle in one turn: a positive number, or one of the constants.
type Quota int

const (
	// QuotaInherit, the zero value, stands for the poller's quota. Only a port can have it.
	QuotaInherit Quota = 0
	// QuotaAuto lets the scheduler adapt the quota to the load.
	QuotaAuto Quota = -1
	// QuotaInf sets no bound. It is for experiments.
	QuotaInf Quota = -2
)

// String is the quota as the file writes it.
func (q Quota) String() string {
	switch q {
	case QuotaAuto:
		return "auto"
	case QuotaInf:
		return "inf"
	}
	return strconv.Itoa(int(q))
}

// Percent is a share in hundredths, 0 to 100.
type Percent float64

// Fraction is p as a part of one.
func (p Percent) Fraction() float64 { return float64(p) / 100 }

// PortMode is how packets are exchanged with a port's driver.
type PortMode string

// The modes of a port. Any but auto is a requirement: when it cannot be granted, weir does not start.
const (
	// ModeAuto takes the best the driver grants.
	ModeAuto PortMode = "auto"
	// ModeZeroCopy lets the device read and write the UMEM itself.
	ModeZeroCopy PortMode = "zerocopy"
	// ModeCopy runs the receive program in the driver and copies each packet.
	ModeCopy PortMode = "copy"
	// ModeGeneric runs the receive program above the driver and copies each packet.
	ModeGeneric PortMode = "generic"
)

// EarlyDiscard is where packets that cannot be finished are refused.
type EarlyDiscard string

// The places of early discard.
const (
	// DiscardXDP refuses in the receive program, by credits and gates.
	DiscardXDP EarlyDiscard = "xdp"
	// DiscardRing refuses by the rings alone: what finds no frame is dropped.
	DiscardRing EarlyDiscard = "ring"
)
