package engine

import (
	"fmt"
	"time"

	"weir/poller"
	"weir/queues"
	"weir/xdpprog"
)

// Mode says how a port receives. Every mode but ModeAuto is a requirement.
type Mode int

// The modes of a port.
const (
	// ModeAuto takes the best the driver grants: zero-copy, else copy with native XDP, else generic XDP.
	ModeAuto Mode = iota
	// ModeZeroCopy requires native XDP and zero-copy sockets.
	ModeZeroCopy
	// ModeCopy requires native XDP and copies at the socket.
	ModeCopy
	// ModeGeneric attaches behind the driver, at the price of an skb for each packet.
	ModeGeneric
)

var modeNames = [...]string{"auto", "zerocopy", "copy", "generic"}

// String returns the mode as the configuration writes it.
func (m Mode) String() string { return modeNames[m] }

// ParseMode is the inverse of String.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("mode %q: unknown: use auto, zerocopy, copy or generic", s)
}

func (m Mode) attach() xdpprog.AttachMode {
	switch m {
	case ModeAuto:
		return xdpprog.AttachAuto
	case ModeGeneric:
		return xdpprog.AttachGeneric
	}
	return xdpprog.AttachNative
}

// EarlyDiscard says where a packet that cannot be finished is refused.
type EarlyDiscard int

// The places of early discard.
const (
	// DiscardXDP: by the receive program, which lets in no more packets than there are frames for.
	DiscardXDP EarlyDiscard = iota
	// DiscardRing: by the device or the socket, for want of a frame; the door stays open.
	DiscardRing
	// DiscardOff: nowhere. The door stays open and Fill is kept at its full depth whatever the gates say, so that work goes into every
	// packet before it can be dropped: the control experiment.
	DiscardOff
)

// Ownership says by which means a worker may drive the receive work of its ports itself. Every means but OwnershipAuto and OwnershipOff
// is a requirement.
type Ownership int

// The means of ownership.
const (
	// OwnershipAuto takes the first means of those below that the kernel grants, else none.
	OwnershipAuto Ownership = iota
	// OwnershipOff leaves receive work to the kernel.
	OwnershipOff
	// OwnershipSocket drives it by busy polling through a socket that has learned the NAPI's id from a packet.
	OwnershipSocket
	// OwnershipUring drives it by the busy polling of io_uring, told the NAPI's id.
	OwnershipUring
	// OwnershipKthread leaves it to the NAPI's kernel thread, ranked below the worker, which sleeps to let it run.
	OwnershipKthread
)

var ownershipNames = [...]string{"auto", "off", "socket", "io_uring", "kthread"}

// String returns the means as the configuration writes it.
func (o Ownership) String() string { return ownershipNames[o] }

// ParseOwnership is the inverse of String.
func ParseOwnership(s string) (Ownership, error) {
	for i, name := range ownershipNames {
		if s == name {
			return Ownership(i), nil
		}
	}
	return 0, fmt.Errorf("ownership %q: unknown: use auto, off, socket, io_uring or kthread", s)
}

// PortConfig describes one port.
type PortConfig struct {
	// Name is the kernel's interface name.
	Name string
	Mode Mode
	// Quota is the most packets a receive queue of this port may handle in one turn; poller.Common takes that of Poller.
	Quota poller.Quota
	// Feedback is that of this port's egress queues; nil takes that of Config.
	Feedback *Feedback
	// Backlog is how many packets may wait in front of each TX ring of this port; 0 takes that of Rings.
	Backlog int
	// AllowManagement accepts a port that carries the default route or the current login session.
	AllowManagement bool
}

// Feedback says when an egress that falls behind closes the gates of what feeds it; the marks are parts of its capacity.
type Feedback struct {
	Off       bool
	High, Low float64
	Timeout   time.Duration
}

// Rings are ring sizes in descriptors, each a power of two, and the bounds of the depth of Fill.
type Rings struct {
	RX, TX, Fill, Completion int
	// FillDepth is the most frames each receive queue keeps in the kernel's hands; at most Fill.
	FillDepth int
	// FillMin is the fewest it may be lowered to, at most FillDepth; equal, or 0, keeps the depth fixed.
	FillMin int
	// Backlog is how many packets may wait in front of each TX ring.
	Backlog int
}

// feedback is what holds for the egress queues of a port.
func (c Config) feedback(port int) Feedback {
	if own := c.Ports[port].Feedback; own != nil {
		return *own
	}
	return c.Feedback
}

// backlog is how many packets may wait in front of each TX ring of a port.
func (c Config) backlog(port int) int {
	if own := c.Ports[port].Backlog; own != 0 {
		return own
	}
	return c.Rings.Backlog
}

// owns says whether receive work is to be owned at all.
func (c Config) owns() bool { return c.Ownership != OwnershipOff && c.Poller.Mode != poller.Interrupt }

// fillMin is the lower bound of the Fill depth in force.
func (r Rings) fillMin(d EarlyDiscard) int {
	if r.FillMin == 0 || d == DiscardOff {
		return r.FillDepth
	}
	return r.FillMin
}

// UMEMConfig sizes the packet memory of each worker.
type UMEMConfig struct {
	// NumFrames is the number of frames; 0 takes what the rings of all ports can hold at once.
	NumFrames int
	// FrameSize is 2048 or 4096 bytes.
	FrameSize int
}

// Config is all the engine needs to know. It is not changed by the engine.
type Config struct {
	Ports []PortConfig
	// CPUs names the CPU of each worker; empty lets the engine choose how many and where.
	CPUs         []int
	Poller       poller.Config
	Feedback     Feedback
	EarlyDiscard EarlyDiscard
	Ownership    Ownership
	UMEM         UMEMConfig
	Rings        Rings
	// WorkerNice is the nice value of the workers' threads, -20 to 19.
	WorkerNice int
	// RunDir is where the journal of what was changed on the host is kept, so that a crash can be undone at the next start; empty keeps none.
	RunDir string
	// AcceptBypass forwards although kernel rules (nftables, tc, xfrm) that would apply to the traffic are bypassed.
	AcceptBypass bool
}

// maxFrame is the longest Ethernet frame that fits a frame of the UMEM behind the headroom the kernel keeps before each packet.
func (u UMEMConfig) maxFrame() int { return u.FrameSize - queues.RXHeadroom }
