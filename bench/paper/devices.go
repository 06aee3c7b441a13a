package paper

// receiver is the receiving device. Packets are alike, so a ring is a number.
type receiver struct {
	waiting, size int
	masked        bool
	signal        bool // it would interrupt
	dropped       int
}

func (r *receiver) arrive() {
	if r.waiting == r.size {
		r.dropped++
		return
	}
	r.waiting++
	r.signal = true
}

// transmitter is the transmitting device with the interface's output queue.
//
// Its policy is what figure 6-5 cannot be explained without, and what
// production must not copy (docs/adr/0011-paper-model-devices.md): only the
// transmit callback frees descriptors. It reclaims those that are finished,
// then refills the ring from the queue, and does not look for finished ones
// again in the same call. So one round of polling sends at most as many packets
// as the ring has descriptors.
type transmitter struct {
	m        *machine
	size     int
	flying   int     // handed to the device and not yet sent
	finished int     // sent, and the descriptor not yet reclaimed
	doneAt   float64 // when the frame on the wire has been sent
	masked   bool
	signal   bool // it would interrupt

	queue, queueMax int
	sent, dropped   int
}

func (t *transmitter) empty() bool { return t.flying == 0 && t.queue == 0 }

func (t *transmitter) free() int { return t.size - t.flying - t.finished }

// finish ends the transmission of one frame and begins that of the next.
func (t *transmitter) finish() {
	t.flying--
	t.finished++
	t.sent++
	t.signal = true
	if t.flying == 0 {
		t.doneAt = never
	} else {
		t.doneAt += t.m.bed.Wire
	}
}

// start hands one packet to the device.
func (t *transmitter) start(l level) {
	t.m.spend(t.m.bed.Start, l)
	t.flying++
	if t.flying == 1 {
		t.doneAt = t.m.now + t.m.bed.Wire
		t.m.schedule()
	}
}

// output is where IP sends a packet.
func (t *transmitter) output(l level) {
	switch {
	case t.queue == 0 && t.free() > 0:
		t.start(l)
	case t.queue < t.queueMax:
		t.queue++
	default:
		t.dropped++
	}
}

// callback reclaims, then refills.
func (t *transmitter) callback(l level) (reclaimed int) {
	reclaimed = t.finished
	t.m.spend(float64(reclaimed)*t.m.bed.Reclaim, l)
	t.finished -= reclaimed
	for t.queue > 0 && t.free() > 0 {
		t.queue--
		t.start(l)
	}
	return reclaimed
}
