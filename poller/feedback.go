package poller

// A downstream queue is in one of three states:
//
//	        len ≥ high                        timeout, it has not moved
//	┌──────┐ ─────────────────────▶ ┌────────┐ ─────────────────────▶ ┌──────────┐
//	│ open │                        │ closed │                        │ bypassed │
//	└──────┘ ◀───────────────────── └────────┘ ◀───────────────────── └──────────┘
//	    ▲    len ≤ low; or timeout,            another timeout has passed  │
//	    │    it has moved: one packet more                                 │
//	    └──────────────────────────────────────────────────────────────────┘
//	                                 len ≤ low
//
// Bypassing half of the time, and not for good, keeps the paper's promise both
// ways: a hung stage does not stop the rest for longer than its timeout, and a
// stage that only waits for the CPU we are using gets at least every other
// timeout of it.
type queue struct {
	id        QueueID
	name      string
	src       Queue
	high, low int
	timeoutNS int64
	feeders   []ReceiverID // nil: everyone

	state     queueState
	since     int64 // when it last closed
	deadline  int64 // closed, bypassed: when the timeout passes
	atClose   int   // its length then
	allowance int   // packets let in above the high mark after a timeout
	c         QueueCounters
}

type queueState int

const (
	queueOpen queueState = iota
	queueClosed
	queueBypassed
)

// room is how many packets a feeder may add now.
func (q *queue) room() int {
	if q.state == queueBypassed {
		return maxQuota
	}
	return max(q.high-q.src.Len(), q.allowance)
}

// spend takes from the allowance what a feeder took.
func (q *queue) spend(n int) { q.allowance = max(0, q.allowance-n) }

// reviewQueues brings every queue's state up to date with its length and with
// the time.
func (s *Scheduler) reviewQueues() {
	for _, q := range s.queues {
		n := q.src.Len()
		switch q.state {
		case queueOpen:
			if n >= q.high && q.allowance == 0 {
				s.closeQueue(q, n)
			}
		case queueClosed:
			switch {
			case n <= q.low:
				q.c.OpenedLow++
				s.openQueue(q)
			case s.now < q.deadline:
			case n < q.atClose:
				q.c.TimedOutSlow++
				s.openQueue(q)
				q.allowance = 1
			default:
				q.c.TimedOutStuck++
				s.openQueue(q)
				q.state = queueBypassed
				q.deadline = s.now + q.timeoutNS
			}
		case queueBypassed:
			if n <= q.low {
				q.c.BypassOver++
				q.state = queueOpen
			} else if s.now >= q.deadline {
				q.c.BypassOver++
				q.state = queueOpen
				if n >= q.high {
					s.closeQueue(q, n)
				}
			}
		}
	}
}

func (s *Scheduler) closeQueue(q *queue, n int) {
	q.state = queueClosed
	q.allowance = 0
	q.since = s.now
	q.deadline = s.now + q.timeoutNS
	q.atClose = n
	q.c.Closed++
	for _, r := range s.receivers {
		if r.feeds(q) {
			r.gate.congested++
			s.closeGate(r, Feedback)
		}
	}
}

func (s *Scheduler) openQueue(q *queue) {
	q.state = queueOpen
	q.c.ClosedNS += uint64(s.now - q.since)
	for _, r := range s.receivers {
		if r.feeds(q) {
			if r.gate.congested--; r.gate.congested == 0 {
				s.openGate(r, Feedback)
			}
		}
	}
}

func (r *receiver) feeds(q *queue) bool {
	for _, x := range r.queues {
		if x == q {
			return true
		}
	}
	return false
}
