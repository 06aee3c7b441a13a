package config

// Config is a complete configuration. [Default] fills in every key; a zero Config is not valid.
// It is plain data: copy it with [Config.Clone], and do not change one that another goroutine reads.
type Config struct {
	// Ports are the interfaces to forward between, in the order of the file.
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

	// from remembers where a key was set, so that Validate can point at it. Keys left at their default are absent.
	from map[string]position
}

// Port is one network interface weir forwards on.
type Port struct {
	// Name is the kernel's name of the interface; it identifies the port in key paths.
	Name string
	// Mode is how packets are exchanged with the driver.
	Mode PortMode
	// Quota is this port's own quota per turn, or QuotaInherit for that of the poller; see [Config.PortQuota].
	Quota Quota
	// AllowManagement lets weir take an interface that carries the default route or the current login session.
	AllowManagement bool
}

// Poller is the configuration of the scheduler on each worker.
type Poller struct {
	// Mode is when receive is polled and when interrupts drive it.
	Mode PollerMode
	// Quota is the most packets a source may handle in one turn.
	Quota Quota
	// Feedback closes the door when a downstream queue fills.
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
	// Low is the fill level at which input opens again; below High.
	Low Percent
	// Timeout opens input again when the queue stays full.
	Timeout Duration
}

// CPUShare is the part of a CPU that packet work may use.
type CPUShare struct {
	// Limit is the share of each period, above 0 and at most 100 %; 100 % is no limit.
	Limit Percent
	// Period is the time over which the share is accounted.
	Period Duration
	// Strict keeps input closed for the rest of a period even while the CPU is idle.
	Strict bool
}

// UMEM sizes the packet memory of one worker.
type UMEM struct {
	// Frames is the number of frames, a multiple of 64.
	Frames int
	// FrameSize is the size of a frame in bytes, 2048 or 4096.
	FrameSize int
}

// Rings are the sizes of one AF_XDP socket's rings in descriptors, each a power of two.
type Rings struct {
	// RX is the receive ring.
	RX int
	// TX is the transmit ring.
	TX int
	// Fill is the ring of frames given to the kernel to receive into.
	Fill int
	// Completion is the ring of frames the kernel has sent.
	Completion int
}

// Metrics is the read-only HTTP listener for metrics and health.
type Metrics struct {
	// Listen is an address with port, or empty for none.
	Listen string
}

// Control is the control socket.
type Control struct {
	// Socket is an absolute path, or empty for /run/weir/<network namespace inode>.sock.
	Socket string
}

// PortQuota is the quota in force for p: its own, or the poller's.
func (c *Config) PortQuota(p Port) Quota {
	if p.Quota == QuotaInherit {
		return c.Poller.Quota
	}
	return p.Quota
}
