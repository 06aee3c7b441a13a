package paper

// unmodified is the kernel before the paper's change: the receive interrupt does
// the driver's work, batched for as long as the ring is not empty, and queues
// for a thread that forwards.
type unmodified struct {
	m       *machine
	screen  *screen // or nil
	input   int     // IP input queue
	dropped int
}

func (k *unmodified) receiveInterrupt() {
	k.m.spend(k.m.bed.Interrupt, atDevice)
	for k.m.in.waiting > 0 {
		k.m.in.waiting--
		k.m.spend(k.m.bed.Receive, atDevice)
		if k.input == k.m.bed.InputQueue {
			k.dropped++
			continue
		}
		k.m.spend(k.m.bed.Queue, atDevice)
		k.input++
	}
	k.m.in.signal = false
}

func (k *unmodified) transmitInterrupt() {
	k.m.spend(k.m.bed.Interrupt, atDevice)
	k.m.out.callback(atDevice)
}

func (k *unmodified) tick() {}
func (k *unmodified) idle() {}

func (k *unmodified) runnable() bool { return k.input > 0 }

func (k *unmodified) run() {
	k.m.spend(k.m.bed.Dispatch, atThread)
	for k.input > 0 {
		k.input--
		k.m.input(k.screen)
	}
}

func (k *unmodified) empty() bool { return k.input == 0 && (k.screen == nil || k.screen.empty()) }

// input is IP: to the output queue, or to the screening queue if there is one.
func (m *machine) input(s *screen) {
	if s != nil {
		s.enqueue()
		return
	}
	m.spend(m.bed.Forward, atThread)
	m.out.output(atThread)
}
