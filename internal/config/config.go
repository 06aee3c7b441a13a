package config

import (
	"maps"
	"slices"
	"time"
)

// Config is a complete configuration. [Default] fills in every key; a zero Config is not valid.
// It is plain data: [Config.Clone] copies it, and one that another goroutine reads must not be changed.
type Config struct {
	// Ports are the interfaces to forward between, in the order of the file. Their order has no meaning.
	Ports []Port
	// Workers are the CPUs that workers are pinned to, one worker each. Empty means auto: as many workers as queues and CPUs allow.
	Workers []int
	// Poller is how work is scheduled on each worker.
	Poller Poller
	// UMEM sizes the packet memory of each worker.
	UMEM UMEM
	// Rings sizes the rings of each AF_XDP socket.
	Rings Rings
	// AcceptBypass lets weir run although kernel rules exist that forwarded packets will no longer meet.
	AcceptBypass bool
	// Metrics is the read-only HTTP listener.
	Metrics Metrics
	// Control is the control socket.
	Control Control

	// file and places remember where the file set a key, so that Validate can point there. A key left at its default or set by
	// Set has no place.
	file   string
	places map[string]place
}

// place is a position in the file, both counted from one.
type place struct{ line, column int }

// Port is one network interface weir forwards on.
type Port struct {
	// Name is the kernel's name of the interface. It identifies the port in key paths.
	Name string
	// Mode is how packets are exchanged with the driver.
	Mode PortMode
	// Quota is this port's own quota, or QuotaInherit for the poller's; [Config.PortQuota] resolves it.
	Quota Quota
	// Feedback is what this port's transmit queues have of their own; [Config.PortFeedback] resolves it.
	Feedback OwnFeedback
	// Backlog is how many packets may wait in front of each TX ring of this port, or 0 for Rings.Backlog; [Config.PortBacklog]
	// resolves it.
	Backlog int
	// AllowManagement lets weir take an interface that carries the default route or the current login session.
	AllowManagement bool
}

// Poller is how work is scheduled on each worker.
type Poller struct {
	// Mode is how receive work is woken.
	Mode PollerMode
	// Ownership is how a worker may drive receive work itself.
	Ownership Ownership
	// Quota is the most packets a source may handle in one turn.
	Quota Quota
	// Nice is the nice value of the workers' threads, -20 to 19.
	Nice int
	// Feedback closes input while a downstream queue is full.
	Feedback Feedback
	// CPUShare bounds the part of a CPU that packet work may use.
	CPUShare CPUShare
	// EarlyDiscard is where packets that cannot be finished are refused.
	EarlyDiscard EarlyDiscard
}

// Feedback holds the marks of downstream queues.
type Feedback struct {
	// Off switches feedback off; the other fields then have no effect.
	Off bool
	// High is the fill level at which input closes.
	High Percent
	// Low is the fill level at which input opens again, below High.
	Low Percent
	// Timeout opens input again although the queue is still full.
	Timeout time.Duration
}

// OwnFeedback is a port's own part of Feedback. Each field is nil for the poller's; what a field points at is not changed.
type OwnFeedback struct {
	// Off switches feedback off for this port's queues, or on though the poller's is off.
	Off *bool
	// High and Low are the port's marks.
	High, Low *Percent
	// Timeout is the port's.
	Timeout *time.Duration
}

// CPUShare is the part of a CPU that packet work may use.
type CPUShare struct {
	// Limit is the share of each period, above 0 and at most 100 %. 100 % is no limit.
	Limit Percent
	// Period is the time over which the share is accounted.
	Period time.Duration
	// Strict holds to the limit although the CPU has nothing else to run.
	Strict bool
}

// UMEM sizes the packet memory of one worker.
type UMEM struct {
	// Frames is the number of frames, a multiple of 64; 0 is auto, what all rings can hold at once.
	Frames int
	// FrameSize is the size of one frame in bytes, 2048 or 4096.
	FrameSize int
}

// Rings are the sizes of one AF_XDP socket's rings in descriptors, each a power of two.
type Rings struct {
	// RX holds received packets until the worker takes them.
	RX int
	// TX holds packets to send until the kernel takes them.
	TX int
	// Fill holds empty frames for the kernel to receive into.
	Fill int
	// Completion holds sent frames until the worker takes them back.
	Completion int
	// FillDepth is the most frames each receive queue keeps lent to the kernel; at most Fill.
	FillDepth int
	// FillMin is the fewest, at most FillDepth; equal keeps the depth fixed. 0 stands for its default; [Config.FillMin] resolves it.
	FillMin int
	// Backlog is how many packets may wait in front of each TX ring.
	Backlog int
}

// Metrics is the read-only HTTP listener.
type Metrics struct {
	// Listen is host:port, or empty for no listener.
	Listen string
}

// Control is the control socket.
type Control struct {
	// Socket is an absolute path, or empty for the one that belongs to the network namespace.
	Socket string
}

// AddPort appends a port with default settings. The error is an [Error] for a name no interface can have or that is already a port.
func (c *Config) AddPort(name string) error {
	if err := checkName(name); err != nil {
		return &Error{Key: "ports", Value: show(name), Cause: err.Error()}
	}
	if c.port(name) != nil {
		return &Error{Key: portPath(name), Value: show(name), Cause: "is a port already", Remedy: "name it once"}
	}
	c.Ports = append(c.Ports, Port{Name: name, Mode: ModeAuto})
	return nil
}

// PortQuota is the quota in force for p: its own, or the poller's.
func (c *Config) PortQuota(p Port) Quota {
	if p.Quota == QuotaInherit {
		return c.Poller.Quota
	}
	return p.Quota
}

// PortFeedback is the feedback in force for p: its own, or else the poller's, field by field.
func (c *Config) PortFeedback(p Port) Feedback {
	f, own := c.Poller.Feedback, p.Feedback
	return Feedback{Off: or(own.Off, f.Off), High: or(own.High, f.High), Low: or(own.Low, f.Low), Timeout: or(own.Timeout, f.Timeout)}
}

// PortBacklog is the backlog in force for p: its own, or that of the rings.
func (c *Config) PortBacklog(p Port) int {
	if p.Backlog == 0 {
		return c.Rings.Backlog
	}
	return p.Backlog
}

// maxFillMin bounds the default of Rings.FillMin.
const maxFillMin = 512

// FillMin is the rings' in force: what is set, or the smaller of 512 and FillDepth.
func (c *Config) FillMin() int {
	if c.Rings.FillMin == 0 {
		return min(maxFillMin, c.Rings.FillDepth)
	}
	return c.Rings.FillMin
}

// or is what p points at, or inherited if it points nowhere.
func or[T any](p *T, inherited T) T {
	if p == nil {
		return inherited
	}
	return *p
}

// Clone is a copy that shares with c nothing that is ever changed.
func (c *Config) Clone() *Config {
	d := *c
	d.Ports = slices.Clone(c.Ports)
	d.Workers = slices.Clone(c.Workers)
	d.places = maps.Clone(c.places)
	return &d
}

// resolved is a copy in which every value that stands for another key's is replaced by it.
func (c *Config) resolved() *Config {
	d := c.Clone()
	for i := range d.Ports {
		p := &d.Ports[i]
		f := c.PortFeedback(*p)
		p.Quota, p.Backlog = c.PortQuota(*p), c.PortBacklog(*p)
		p.Feedback = OwnFeedback{Off: &f.Off, High: &f.High, Low: &f.Low, Timeout: &f.Timeout}
	}
	d.Rings.FillMin = c.FillMin()
	return d
}

// port finds a port by name; nil when there is none.
func (c *Config) port(name string) *Port {
	for i := range c.Ports {
		if c.Ports[i].Name == name {
			return &c.Ports[i]
		}
	}
	return nil
}
