package model

import (
	"math"

	"weir/poller"
)

// Mechanism is one of the three ways to run, see doc.go.
type Mechanism string

const (
	Off   Mechanism = "off"   // mechanisms off; receive work outranks the worker
	Door  Mechanism = "door"  // it still does, and drops what has no credit
	Owned Mechanism = "owned" // it runs only when the worker drives it
)

const (
	deviceRing  = 1024 // descriptors of each receive queue
	receiveRing = 2048 // entries of each socket's receive ring
	quota       = 64
	horizonNS   = 10e6 // how long a core is played
	warmNS      = 2e6  // and how much of it is not counted
	calmNS      = 1e5  // the overload begins after so long …
	calmGap     = 2000 // … of packets so far apart
)

// core is one CPU with its worker, its receive queues and one way out. Time is
// in nanoseconds.
type core struct {
	cost   Costs
	how    Mechanism
	now    float64
	queues []*queue

	unsent    int // in the transmit ring
	delivered int
}

// queue is one receive queue: the device's ring, the door, the socket's ring.
// It is the receive source.
type queue struct {
	c      *core
	gap    float64 // ns between arrivals
	at     float64 // next arrival
	device int
	ring   int
	credit int // Door
	masked bool
}

// play runs one core that is offered pps packets a second over its queues, and
// returns what it delivers.
func play(cost Costs, how Mechanism, pps float64, queues int) (float64, error) {
	c := &core{cost: cost, how: how}
	cfg := poller.Default()
	cfg.Share.Limit = 100
	// An owner takes receive while it still can: see calmNS. Without one it is
	// all the same whether the worker blocks or spins while nothing is there,
	// because receive work outranks it.
	cfg.Mode = poller.Interrupt
	if how == Owned {
		cfg.Mode = poller.Poll
	}
	rc := poller.ReceiverConfig{Quota: quota, Window: receiveRing}
	if how == Off {
		rc = poller.ReceiverConfig{Quota: poller.Unlimited}
	}
	s, err := poller.New(cfg)
	if err != nil {
		return 0, err
	}
	for i := range queues {
		q := &queue{c: c, gap: 1e9 * float64(queues) / pps}
		q.at = max(q.gap, calmGap) * float64(i+1) / float64(queues)
		if how == Owned {
			rc.Owner = q
		}
		if _, err := s.AddReceiver("queue", q, rc); err != nil {
			return 0, err
		}
		c.queues = append(c.queues, q)
	}
	if _, err := s.AddTransmitter("out", c); err != nil {
		return 0, err
	}

	counted := -1
	for c.now < horizonNS {
		if counted < 0 && c.now >= warmNS {
			counted = c.delivered
		}
		begin := int64(c.now)
		s.Round(begin)
		end := int64(c.now)
		next := s.Settle(end, end-begin)
		if next.Do == poller.Again {
			c.spend(1) // a round is never quite free
			continue
		}
		c.idle(next)
		s.Woke(int64(c.now))
	}
	return float64(c.delivered-max(counted, 0)) / (horizonNS - warmNS) * 1e9, nil
}

// spend lets the worker compute for so long. Receive work that is not owned
// comes first.
func (c *core) spend(ns float64) {
	for c.now < horizonNS {
		c.outrank()
		next := c.nextArrival()
		if c.now+ns <= next {
			c.now += ns
			c.arrive()
			return
		}
		ns -= max(0, next-c.now)
		c.now = max(c.now, next)
		c.arrive()
	}
}

// outrank is receive work at its own rank: everything that waits in a device.
func (c *core) outrank() {
	for busy := true; busy && c.now < horizonNS; {
		busy = false
		for _, q := range c.queues {
			if !q.masked && q.device > 0 {
				busy = true
				q.receive()
				c.arrive()
			}
		}
	}
}

func (c *core) nextArrival() float64 {
	next := math.MaxFloat64
	for _, q := range c.queues {
		next = min(next, q.at)
	}
	return next
}

// arrive brings to the devices what has arrived by now. A full ring drops, and
// that costs nothing.
func (c *core) arrive() {
	for _, q := range c.queues {
		if q.at > c.now {
			continue
		}
		gap := q.gap
		if c.now < calmNS {
			gap = max(gap, calmGap)
		}
		n := math.Floor((c.now-q.at)/gap) + 1
		q.at += n * gap
		q.device = min(deviceRing, q.device+int(n))
	}
}

// idle waits for a packet of an open source, or for the end of the wait.
func (c *core) idle(next poller.Next) {
	until := min(float64(next.UntilNS), horizonNS)
	for next.Do == poller.Block && c.now < until {
		c.outrank()
		for _, q := range c.queues {
			if q.ring > 0 {
				return
			}
		}
		c.now = min(until, max(c.now, c.nextArrival()))
		c.arrive()
	}
	c.now = max(c.now, until)
	c.arrive()
}

// receive is the receive work for one packet.
func (q *queue) receive() {
	q.device--
	if q.c.how == Door && q.credit == 0 {
		q.c.now += q.c.cost.Door
		return
	}
	q.c.now += q.c.cost.Receive
	q.credit--
	q.ring = min(receiveRing, q.ring+1) // a full ring drops, after all that work
}

// Receive implements poller.Receiver.
func (q *queue) Receive(max int) (taken int, more bool) {
	c := q.c
	if q.masked {
		c.now += c.cost.Kick
		c.arrive()
		for n := 0; n < max && q.device > 0; n++ {
			q.receive()
			c.arrive()
		}
	}
	// What comes in during the turn waits for the next, or a turn without a
	// quota would not end and nothing would be sent.
	for n := min(max, q.ring); taken < n && c.now < horizonNS; taken++ {
		q.ring--
		c.spend(c.cost.Forward)
		c.unsent++
	}
	return taken, q.ring > 0 || q.masked && q.device > 0
}

// SetGate implements poller.Receiver; nothing closes a gate here.
func (q *queue) SetGate(poller.Reason) {}

// Grant implements poller.Receiver.
func (q *queue) Grant(n int) { q.credit += n }

// Learn implements poller.Owner; the handle is known.
func (q *queue) Learn() {}

// Learned implements poller.Owner.
func (q *queue) Learned() bool { return true }

// Own implements poller.Owner.
func (q *queue) Own() error { q.masked = true; return nil }

// Losing implements poller.Owner: backlog shows soon enough here, where everybody gets its share of the CPU.
func (q *queue) Losing() bool { return false }

// Competes implements poller.Owner: there is one CPU.
func (q *queue) Competes() bool { return true }

// Drive implements poller.Owner.
func (q *queue) Drive() bool {
	worked := q.device > 0
	for n := 0; n < quota && q.device > 0; n++ {
		q.receive()
	}
	return worked
}

// Release implements poller.Owner.
func (q *queue) Release() error { q.masked = false; return nil }

// Transmit implements poller.Transmitter: the wire is always free.
func (c *core) Transmit(int) (done int, more bool) {
	done = c.unsent
	c.unsent = 0
	c.spend(float64(done) * c.cost.Transmit)
	if c.now < horizonNS {
		c.delivered += done
	}
	return done, false
}

// Kick implements poller.Transmitter.
func (c *core) Kick() (pending bool) {
	if c.unsent > 0 {
		c.spend(c.cost.Kick)
	}
	return c.unsent > 0
}
