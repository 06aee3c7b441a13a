package xdpprog

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

var errStub = errors.New("xdpprog: not built yet")

type AttachMode int

const (
	AttachAuto AttachMode = iota
	AttachNative
	AttachGeneric
)

func (m AttachMode) String() string                { return [...]string{"auto", "native", "generic"}[m] }
func ParseAttachMode(s string) (AttachMode, error) { return 0, errStub }

type PortConfig struct {
	Interface string
	Ifindex   int
	Mode      AttachMode
	MAC       [6]byte
	MaxQueues int
}

// OtherProgramError: another XDP program is attached; errors.Is(err, unix.EBUSY).
type OtherProgramError struct {
	Interface string
	ProgramID uint32
	Name      string
	Mode      AttachMode
}

func (e *OtherProgramError) Error() string { return e.Interface }

// Limit is a class's rate limit in frames per second and frames of burst.
type Limit struct{ Rate, Burst uint64 }

type Port struct{}

func Attach(PortConfig) (*Port, error)                 { return nil, errStub }
func (*Port) Mode() AttachMode                         { return 0 }
func (*Port) NativeRefused() error                     { return nil } // why Auto fell back to generic, nil otherwise
func (*Port) ProgramID() uint32                        { return 0 }
func (*Port) NumQueues() int                           { return 0 }
func (*Port) SetSocket(queue, fd int) error            { return errStub }
func (*Port) ClearSocket(queue int) error              { return errStub }
func (*Port) SetLocal(prefixes []netip.Prefix) error   { return errStub }
func (*Port) SetMAC(mac [6]byte) error                 { return errStub }
func (*Port) SetLimit(c Class, l Limit) (Limit, error) { return l, errStub } // returns what was granted
func (*Port) Door(queue int) *Door                     { return nil }
func (*Port) Counters() Counters                       { return Counters{} }
func (*Port) QueueCounters(queue int) Counters         { return Counters{} }
func (*Port) Close() error                             { return nil }

type Door struct{}

func (*Door) SetGate(reasons uint32) {}
func (*Door) Grant(total uint64)     {}
func (*Door) Spent() uint64          { return 0 }
func (*Door) SetUnlimited(on bool)   {}
func (*Door) Counters(c *Counters)   {}

type GeneratorConfig struct {
	Ifindex          int
	SrcMAC, DstMAC   [6]byte
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	Size             int    // bytes on the wire without FCS, 60 to 1514
	RatePPS          uint64 // 0 = as fast as it goes
	NumFlows         int    // source ports SrcPort … SrcPort+NumFlows-1
	NumDestinations  int    // addresses Dst … Dst+NumDestinations-1
	Batch            int    // frames per batch of BPF_PROG_RUN; 0 = 64
}
type Generator struct{}

// Run has two bounds, of which 0 means none.
type Bounds struct {
	Duration time.Duration
	Count    uint64
}
type GeneratorResult struct {
	Sent    uint64 // frames redirected to the device
	Skipped uint64 // frames given up because the generator itself was late (debt cap)
	Elapsed time.Duration
}

func NewGenerator(GeneratorConfig) (*Generator, error) { return nil, errStub }
func (*Generator) Run(ctx context.Context, b Bounds) (GeneratorResult, error) {
	return GeneratorResult{}, errStub
}
func (*Generator) Sent() uint64 { return 0 } // live
func (*Generator) Close() error { return nil }

type SinkKind int

const (
	SinkTCX SinkKind = iota
	SinkXDP
)

type Sink struct{}
type SinkCount struct{ Packets, Bytes uint64 }

func AttachSink(ifindex int, kind SinkKind) (*Sink, error) { return nil, errStub }
func (*Sink) Count() (SinkCount, error)                    { return SinkCount{}, nil }
func (*Sink) Close() error                                 { return nil }
