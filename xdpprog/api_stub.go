package xdpprog

import (
	"context"
	"errors"
	"net/netip"
	"time"
)

var errStub = errors.New("xdpprog: not built yet")

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
