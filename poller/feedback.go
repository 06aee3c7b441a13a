package poller

// queue is one downstream queue. It is open or closed:
//
//	        len ≥ high, allowance spent
//	┌──────┐ ─────────────────────────────────────────▶ ┌────────┐
//	│ open │                                            │ closed │
//	└──────┘ ◀───────────────────────────────────────── └────────┘
//	          len ≤ low: allowance 0
//	          timeout, it has moved: allowance 1
//	          timeout, it has not: allowance 1, 2, 4 … capacity − high
//
// The allowance is what may be let in above the high mark before it closes
// again. One packet is the paper's rule. Letting in more each time that nothing
// moved is ours (docs/adr/0012-stuck-queue.md): a hung stage must not starve
// what else its sources feed, but a stage that only waits for the CPU we use
// must not be answered with a flood.
type queue struct {
	id        QueueID
	name      string
	src       Queue
	high, low int
	spare     int // capacity above the high mark, at least 1
	selective bool
	timeoutNS int64
	feeders   []ReceiverID // nil: every source

	closed    bool
	since     int64 // when it closed
	deadline  int64 // when its timeout passes
	atClose   int   // its length when it closed
	allowance int
	stuck     int // what the next timeout without movement lets in
	c         QueueCounters
}

func (q *queue) set(qc QueueConfig) {
	q.high, q.low, q.timeoutNS = qc.High, qc.Low, int64(qc.Timeout)
	q.spare = max(1, qc.Capacity-qc.High)
	q.stuck = min(q.stuck, q.spare)
}

// room is how many packets a feeder may add now.
func (q *queue) room() int { return max(q.high-q.src.Len(), q.allowance) }

// spend takes from the allowance what a feeder took.
func (q *queue) spend(n int) { q.allowance = max(0, q.allowance-n) }

// reviewQueues brings every queue up to date with its length and the time.
func (s *Scheduler) reviewQueues() {
	s.allowances = false
	for _, q := range s.queues {
		n := q.src.Len()
		s.allowances = s.allowances || q.allowance > 0
		if !q.closed {
			if n >= q.high && q.allowance == 0 {
				s.closeQueue(q, n)
			}
			continue
		}
		switch {
		case n <= q.low:
			q.c.OpenedLow++
			s.openQueue(q, 0)
			q.stuck = 1
		case s.now < q.deadline:
		case n < q.atClose:
			q.c.TimedOutSlow++
			s.openQueue(q, 1)
			q.stuck = 1
		default:
			q.c.TimedOutStuck++
			s.openQueue(q, q.stuck)
			q.stuck = min(2*q.stuck, q.spare)
		}
	}
}

func (s *Scheduler) closeQueue(q *queue, n int) {
	q.closed = true
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
	s.reviewFeeders(q)
}

func (s *Scheduler) openQueue(q *queue, allowance int) {
	q.closed = false
	q.allowance = allowance
	s.allowances = s.allowances || allowance > 0
	q.c.ClosedNS += uint64(s.now - q.since)
	for _, r := range s.receivers {
		if r.feeds(q) {
			if r.gate.congested--; r.gate.congested == 0 {
				s.openGate(r, Feedback)
			}
		}
	}
	s.reviewFeeders(q)
}

func (r *receiver) feeds(q *queue) bool {
	for _, x := range r.queues {
		if x == q {
			return true
		}
	}
	return false
}
