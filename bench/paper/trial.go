package paper

import (
	"math"
	"math/rand/v2"

	"weir/poller"
)

// Setup is the configuration of the router in one curve.
type Setup struct {
	Polling  bool // the modified kernel; otherwise the unmodified one
	Quota    poller.Quota
	Screen   bool // every packet passes the screening process
	Feedback Feedback
	Share    float64 // percent of the CPU for packets; 0 is no limit
	Compute  bool    // a compute-bound process runs
}

// Feedback is how the screening queue acts on input.
type Feedback int

const (
	FeedbackOff          Feedback = iota // it does not
	FeedbackInTurn                       // the scheduler's: seen within a turn
	FeedbackBetweenTurns                 // a control that must fail: seen only after a turn
)

// Outcome is what one trial gave.
type Outcome struct {
	Sent   int     // packets that left
	Output float64 // packets/s, as the paper counts: Sent for every packet offered, times the rate
	User   float64 // percent of the trial that the compute-bound process got
}

// Trial offers one trial's packets at a rate, lets the router drain, and counts.
// The same arguments give the same outcome. It fails if the scheduler refuses
// the setup.
func Trial(bed *Testbed, setup Setup, rate float64, seed uint64) (Outcome, error) {
	m, err := newMachine(bed, setup, rate, seed)
	if err != nil {
		return Outcome{}, err
	}
	begin := m.now
	m.run()
	outcome := Outcome{Sent: m.out.sent, Output: float64(m.out.sent) * rate / float64(bed.Packets)}
	for _, p := range m.users.processes {
		if c, ok := p.(*compute); ok {
			outcome.User = 100 * c.used / (m.now - begin)
		}
	}
	return outcome, nil
}

// newMachine builds the router of one trial.
func newMachine(bed *Testbed, setup Setup, rate float64, seed uint64) (*machine, error) {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := &machine{bed: bed, rng: rand.New(rand.NewPCG(seed, 2))}
	m.in.size = bed.ReceiveRing
	m.out = transmitter{m: m, size: bed.TransmitRing, queueMax: bed.OutputQueue, doneAt: never}
	m.users.m = m

	// The trial begins anywhere in a period of the share, so at any phase of
	// the clock.
	m.now = float64(bed.PeriodTicks) * bed.TickEach * rng.Float64()
	m.tickAt = (math.Floor(m.now/bed.TickEach) + 1) * bed.TickEach
	m.source = newSource(bed, rate, m.now, rng)
	if bed.Daemons > 0 {
		m.users.add(&daemons{m: m, at: m.now + bed.DaemonsEvery*rng.Float64()})
	}
	var scr *screen
	if setup.Screen {
		scr = &screen{m: m, asleep: true, dequeued: func() {}}
		m.users.add(scr)
	}
	if setup.Compute {
		m.users.add(&compute{m: m})
	}
	if setup.Polling {
		k, err := newPolling(m, scr, setup)
		if err != nil {
			return nil, err
		}
		if scr != nil {
			scr.dequeued = k.dequeued
		}
		m.kernel = k
	} else {
		m.kernel = &unmodified{m: m, screen: scr}
	}
	m.schedule()
	return m, nil
}
