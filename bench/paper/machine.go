package paper

import (
	"math"
	"math/rand/v2"
)

// level is a priority of the CPU. Work is interrupted by what stands above it,
// and by nothing of its own level.
type level int

const (
	atUser   level = iota // user mode
	atThread              // kernel threads, and system calls
	atDevice              // device interrupts
	atClock               // the clock interrupt
)

// never is the time of what does not happen.
const never = math.MaxFloat64

// machine is the router. Time is in microseconds; it passes in spend, spendUser
// and idle and nowhere else, so whatever the kernel does is plain Go between
// two calls of spend, and is interrupted inside them.
type machine struct {
	bed  *Testbed
	rng  *rand.Rand // of the noise
	now  float64
	next float64 // earliest event of the hardware

	tickAt  float64
	tickDue bool
	source  source
	in      receiver
	out     transmitter
	kernel  kernel
	users   userland
}

// kernel is what the operating system makes of interrupts and threads.
type kernel interface {
	receiveInterrupt()  // called for an interrupt of the receiving device
	transmitInterrupt() // called for one of the transmitting device
	tick()              // called after each clock interrupt
	idle()              // called when nothing wants the CPU
	runnable() bool     // a kernel thread wants the CPU
	run()               // run that thread until it sleeps
	empty() bool        // no packet is on its queues
}

// spend lets work of one level use the CPU for so many microseconds. What stands
// above it happens meanwhile and takes its own time.
func (m *machine) spend(us float64, l level) {
	us *= 1 + m.bed.Noise*(2*m.rng.Float64()-1)
	for {
		m.interrupts(l)
		if end := m.now + us; end < m.next {
			m.now = end
			return
		}
		us -= m.next - m.now
		m.now = m.next
		m.deliver()
	}
}

// spendUser is spend for user mode. It ends early when a thread or a process of
// better priority wants the CPU, and returns what is left to do.
func (m *machine) spendUser(us float64) (left float64) {
	for {
		m.interrupts(atUser)
		if m.kernel.runnable() || m.users.reschedule {
			return us
		}
		if end := m.now + us; end < m.next {
			m.now = end
			return 0
		}
		us -= m.next - m.now
		m.now = m.next
		m.deliver()
	}
}

// interrupts serves what may interrupt work of level l: the clock first, then
// receive, then transmit.
func (m *machine) interrupts(l level) {
	for {
		switch {
		case m.tickDue && l < atClock:
			m.tickDue = false
			m.spend(m.bed.Tick, atClock)
			m.kernel.tick()
			m.users.tick()
		case m.in.signal && !m.in.masked && l < atDevice:
			m.in.signal = false
			m.kernel.receiveInterrupt()
		case m.out.signal && !m.out.masked && l < atDevice:
			m.out.signal = false
			m.kernel.transmitInterrupt()
		default:
			return
		}
	}
}

// deliver lets the hardware do what is due.
func (m *machine) deliver() {
	if m.now >= m.tickAt {
		m.tickDue = true
		m.tickAt += m.bed.TickEach
	}
	if m.now >= m.source.at {
		m.in.arrive()
		m.source.advance()
	}
	if m.now >= m.out.doneAt {
		m.out.finish()
	}
	m.schedule()
}

// schedule finds the hardware's next event.
func (m *machine) schedule() { m.next = min(m.tickAt, m.source.at, m.out.doneAt) }

// run lets the machine live until the last packet of the trial has gone.
func (m *machine) run() {
	for !m.over() {
		m.interrupts(atUser)
		switch {
		case m.kernel.runnable():
			m.users.preempt()
			m.kernel.run()
		case m.users.run():
		default:
			m.kernel.idle()
			m.now = m.next
			m.deliver()
		}
	}
}

func (m *machine) over() bool {
	return m.source.left == 0 && m.in.waiting == 0 && m.out.empty() && m.kernel.empty()
}
