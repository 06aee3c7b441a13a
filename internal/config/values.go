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

// PollerMode is how receive work is woken.
type PollerMode string

// The modes of the poller.
const (
	// ModeHybrid waits for interrupts at low load and owns receive work on persistent backlog.
	ModeHybrid PollerMode = "hybrid"
	// ModeInterrupt never owns.
	ModeInterrupt PollerMode = "interrupt"
	// ModePoll owns from the first packet and never waits. It is for experiments.
	ModePoll PollerMode = "poll"
)

// Ownership is the means by which a worker drives the receive work of its ports itself.
type Ownership string

// The means of ownership. Any but auto and off is a requirement: when it cannot be granted, weir does not start.
const (
	// OwnershipAuto takes the first of the means below that the kernel grants, else none.
	OwnershipAuto Ownership = "auto"
	// OwnershipOff leaves receive work to the kernel.
	OwnershipOff Ownership = "off"
	// OwnershipSocket busy-polls through a socket that has learned the queue from a packet.
	OwnershipSocket Ownership = "socket"
	// OwnershipUring busy-polls through io_uring.
	OwnershipUring Ownership = "io_uring"
	// OwnershipKthread ranks the queue's kernel thread below the worker.
	OwnershipKthread Ownership = "kthread"
)

// EarlyDiscard is where packets that cannot be finished are refused.
type EarlyDiscard string

// The places of early discard.
const (
	// DiscardXDP refuses in the receive program, by credits and gates.
	DiscardXDP EarlyDiscard = "xdp"
	// DiscardRing refuses by the rings alone: what finds no frame is dropped.
	DiscardRing EarlyDiscard = "ring"
	// DiscardOff refuses nowhere: the door stays open and Fill is kept full. It is for experiments.
	DiscardOff EarlyDiscard = "off"
)
