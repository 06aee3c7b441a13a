package poller

// Receiver is a receive source: one receive ring and what is behind it. Each
// method is called at most once per turn, never per packet.
type Receiver interface {
	// Receive takes at most max packets (max ≥ 1), runs each to its end
	// (transmit ring, backlog, screen, answer, drop), and reports how many it
	// took and whether more were waiting when it stopped. While the source's
	// receive work is owned it first drives the device.
	Receive(max int) (taken int, more bool)

	// SetGate publishes the reasons that close this source's door; 0 opens
	// it. Called only when the set of reasons changes.
	SetGate(Reason)

	// Grant lets n more packets in at the door (n ≥ 1), on top of what was
	// granted before. What is then granted and not yet taken never exceeds
	// the window in force (ReceiverConfig.Window, SetWindow). Credits the
	// door spent on packets that never reached Receive are the
	// implementation's to make up for.
	Grant(n int)
}

// Owner is what a receive source offers whose receive work can be owned. The
// scheduler drives the state machine drawn in doc.go through it; no method may
// block.
type Owner interface {
	Learn()             // begin to learn the handle (the NAPI's id); repeated if it does not come
	Learned() bool      // whether the handle is known
	Own() error         // mask interrupts; from now on Receive drives the device
	Drive() (work bool) // poll the device once; whether that brought anything
	Release() error     // unmask; on an error the source stays owned and is driven on

	// Losing tells whether packets of this source were lost before they
	// reached Receive since the last call: refused for want of credit or of
	// frames. A worker that gets little of the CPU may find its ring empty
	// every time it looks, and still lose nearly everything; so in mode
	// hybrid a loss before a turn in interrupt that took something counts as
	// much as backlog. Cheap: asked after every round in interrupt, and when
	// a source comes back to it, so that old losses are forgotten.
	Losing() bool

	// Competes tells whether this source's receive work, while nobody owns
	// it, takes the CPU from this worker: it runs on the worker's CPU, as
	// last seen, or would if it were given back now. Hybrid owns only what
	// competes and gives back what does not any more; the other modes do not
	// ask. Cheap: asked at most once per round, in interrupt only while there
	// is backlog or loss. The answer should be steady, because each change of it
	// under load costs an Own or a Release; nothing else damps it.
	Competes() bool
}

// Transmitter is a transmit source: one egress of this worker, that is its
// transmit ring, the completions of that ring, and the backlog before it.
type Transmitter interface {
	// Transmit reaps completions, then moves backlog into the ring, at most
	// max packets. done counts the packets that left since the last call
	// (completions reaped): it is what the watchdog and the automatic quota
	// take for delivery. more tells that something is left to do now.
	Transmit(max int) (done int, more bool)

	// Kick tells the kernel what is in the ring, also when nothing new was
	// queued. pending tells that something is left that no event will
	// announce: descriptors not sent, completions still to come. The
	// scheduler then looks again by itself, soon at first, then less often.
	Kick() (pending bool)
}

// Queue is a bounded queue downstream of receive: an egress (transmit ring and
// backlog) or a screening queue.
type Queue interface {
	// Len returns how many packets are in it now. Called once per turn of
	// each source that feeds it and twice per round.
	Len() int
}

// ReceiverID, TransmitterID and QueueID name what was added; they are never
// used again after a removal.
type (
	ReceiverID    int
	TransmitterID int
	QueueID       int
)
