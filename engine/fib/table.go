package fib

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
)

// PortRef names one port.
type PortRef struct {
	Index   int    // 0..len(Ports)-1, each once
	Ifindex int    // 0 = found by Name
	Name    string // when the link is deleted and made again under this name, the port follows it
}

// Config is what Watch needs to know.
type Config struct {
	Ports []PortRef

	// ReceiveBuffer is the size in bytes of the socket buffer for updates; 0 = 32 MiB. Stats tells what was granted.
	ReceiveBuffer int
}

// Request asks for the hardware address of Addr on a port.
type Request struct {
	Port int
	Addr netip.Addr
}

// Stats counts what happened since Watch.
type Stats struct {
	Routes     int // prefixes in the lookup table
	Neighbours int // neighbours on ports that the kernel knows
	Updates    uint64
	Overruns   uint64
	Resyncs    uint64
}

// Table follows the kernel's tables of one network namespace.
type Table struct {
	snapshot atomic.Pointer[Snapshot]
	changes  chan struct{}
}

// Watch reads the tables of the calling thread's network namespace and follows them until Close or the end of ctx.
func Watch(ctx context.Context, c Config) (*Table, error) { return nil, errors.ErrUnsupported }

// Snapshot returns the current state. One atomic load; any goroutine.
func (t *Table) Snapshot() *Snapshot { return t.snapshot.Load() }

// Changes returns a channel that has a value after ports, local addresses or policy rules changed. Several changes may share one.
func (t *Table) Changes() <-chan struct{} { return t.changes }

// Resolve asks the kernel to find or to verify neighbours. It never blocks.
func (t *Table) Resolve(reqs []Request) {}

// Stats returns the counters.
func (t *Table) Stats() Stats { return Stats{} }

// Close ends following.
func (t *Table) Close() error { return nil }
