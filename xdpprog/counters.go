package xdpprog

// NumReasons is the number of gate reasons the program counts apart. Reason r is bit r of [Door.SetGate]'s argument; a higher bit
// closes the gate too and is counted under the last reason.
const NumReasons = 5

// Counters is what the receive program did with the frames of one queue, or of a whole port. All fields count frames and only grow.
//
// Every frame ends under exactly one of them:
//
//	Seen = Redirected + Σ Passed + Σ Limited + Σ DroppedGate + DroppedEgress + DroppedTooLong + DroppedNoCredit + Lessons
//
// which [Counters.Sum] computes. A snapshot taken while frames arrive is not one instant: there Seen may exceed Sum by the frames that
// arrived meanwhile, and is never below it.
type Counters struct {
	// Seen is every frame the program was run for.
	Seen uint64
	// SeenHere is how many of Seen were handled on the worker's CPU ([Door.SetCPU]), SeenDriven how many of these while the worker
	// was inside a receive poll of its own ([Door.SetDriving]). They say where the receive work is done, not how a frame ended.
	SeenHere, SeenDriven uint64
	// Redirected went to the queue's AF_XDP socket. What the socket could not take (ring full, no Fill frame) is counted by the
	// kernel in the socket's XDP_STATISTICS.
	Redirected uint64
	// Lessons went to the worker's UDP socket instead ([Door.Teach]), whole. What becomes of them is the worker's to count.
	Lessons uint64
	// DroppedTooLong were longer than PortConfig.MaxLen.
	DroppedTooLong uint64
	// DroppedEgress were refused because their destination is one whose egress is shut ([Door.SetShut]).
	DroppedEgress uint64
	// DroppedNoCredit were refused because the queue's credits were spent.
	DroppedNoCredit uint64
	// DroppedGate were refused by a closed gate, under the lowest reason bit that was set.
	DroppedGate [NumReasons]uint64
	// Passed went to the kernel, by class.
	Passed [NumClasses]uint64
	// Limited belonged to the kernel but were dropped by their class's rate limit.
	Limited [NumClasses]uint64
}

// Sum returns how many frames are accounted for: Seen, once traffic has stopped.
func (c *Counters) Sum() uint64 {
	sum := c.Redirected + c.Lessons + c.DroppedEgress + c.DroppedTooLong + c.DroppedNoCredit
	for _, n := range c.DroppedGate {
		sum += n
	}
	for i := range NumClasses {
		sum += c.Passed[i] + c.Limited[i]
	}
	return sum
}

// Add adds o to c, field by field.
func (c *Counters) Add(o *Counters) {
	c.Seen += o.Seen
	c.SeenHere += o.SeenHere
	c.SeenDriven += o.SeenDriven
	c.Redirected += o.Redirected
	c.Lessons += o.Lessons
	c.DroppedEgress += o.DroppedEgress
	c.DroppedTooLong += o.DroppedTooLong
	c.DroppedNoCredit += o.DroppedNoCredit
	for i := range c.DroppedGate {
		c.DroppedGate[i] += o.DroppedGate[i]
	}
	for i := range NumClasses {
		c.Passed[i] += o.Passed[i]
		c.Limited[i] += o.Limited[i]
	}
}
