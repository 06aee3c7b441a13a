package config

import "time"

// Quota is the most packets a source may handle in one turn: a positive number, or one of the constants.
type Quota int

const (
	// QuotaInherit, the zero value, is the poller's quota; only a port may have it.
	QuotaInherit Quota = 0
	// QuotaAuto lets the scheduler adapt the quota to the load.
	QuotaAuto Quota = -1
	// QuotaInf sets no bound; for experiments.
	QuotaInf Quota = -2
)

// Percent is a share of a whole, 0 to 100.
type Percent float64

// Fraction is p as a share of one.
func (p Percent) Fraction() float64 { return float64(p) / 100 }

// Duration is a time.Duration that the file writes with its unit, such as 1ms.
type Duration = time.Duration

// PortMode is how packets are exchanged with a port's driver.
type PortMode string

// The modes of a port. Any but auto is a requirement: what cannot be granted is an error.
const (
	ModeAuto     PortMode = "auto"
	ModeZeroCopy PortMode = "zerocopy"
	ModeCopy     PortMode = "copy"
	ModeGeneric  PortMode = "generic"
)

// PollerMode is when receive is polled and when interrupts drive it.
type PollerMode string

// The modes of the poller.
const (
	PollerHybrid    PollerMode = "hybrid"
	PollerInterrupt PollerMode = "interrupt"
	PollerPoll      PollerMode = "poll"
)

// EarlyDiscard is where packets that cannot be finished are refused.
type EarlyDiscard string

// The places of early discard.
const (
	DiscardXDP  EarlyDiscard = "xdp"
	DiscardRing EarlyDiscard = "ring"
	DiscardOff  EarlyDiscard = "off"
)
