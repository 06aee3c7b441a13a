package poller

// Round runs one round: every transmitter, then every receive source in
// rotating order, then a kick for every transmitter. now is the time at its
// start. Callbacks run inside.
func (s *Scheduler) Round(now int64) {
	s.advance(now)
	s.endWait()
	s.rollShare()
	s.c.Rounds++
	s.taken, s.done = 0, 0
	s.more, s.shut, s.ownedWork = false, false, false
	s.transmitMore, s.kickPending = false, false

	for _, t := range s.transmitters {
		s.transmit(t)
	}
	if len(s.queues) > 0 {
		s.reviewQueues() // what has drained opens before its sources' turn
	}
	s.opened = false // whatever is open now has its turn now
	if n := len(s.receivers); n > 0 {
		// Rotating the start keeps the room below a high mark, and the last
		// round of a share, from going to the same source every time.
		if s.start++; s.start >= n {
			s.start = 0
		}
		for _, r := range s.receivers[s.start:] {
			s.turn(r)
		}
		for _, r := range s.receivers[:s.start] {
			s.turn(r)
		}
	}
	for _, t := range s.transmitters {
		s.kick(t)
	}
}

// transmit is one transmitter's turn. It has no quota of its own: its ring
// bounds it, and what is started must be finished.
func (s *Scheduler) transmit(t *transmitter) {
	done, more := t.src.Transmit(maxQuota)
	t.c.Turns++
	t.c.Delivered += uint64(done)
	s.done += done
	if more {
		t.c.TurnsMore++
		s.transmitMore = true
	}
}

func (s *Scheduler) kick(t *transmitter) {
	t.c.Kicks++
	if t.src.Kick() {
		t.c.KicksLeft++
		s.kickPending = true
	}
}

// turn is one receive source's turn.
func (s *Scheduler) turn(r *receiver) {
	r.took = false
	if r.gate.closed != 0 {
		r.c.Turns[EndGate]++
		r.busyNS = s.now
		return
	}
	limit := s.quotaOf(r)
	end := EndQuota
	for _, q := range r.queues {
		room := q.room()
		if room >= limit {
			continue
		}
		limit, end = room, EndDownstream
		if room <= 0 {
			// An earlier turn of this round filled it.
			s.closeQueue(q, q.src.Len())
			r.c.Turns[EndDownstream]++
			return
		}
	}
	selective := len(r.sel.feeds) > 0
	if selective {
		if room := r.sel.room(limit); room < limit {
			limit, end = room, EndDownstream
			if room <= 0 {
				s.closeFed(r)
				r.c.Turns[EndDownstream]++
				return
			}
		}
		r.sel.inTurn = true
	}
	if n := r.window - r.credit; n > 0 {
		r.credit = r.window
		r.c.Granted += uint64(n)
		r.src.Grant(n)
	}

	taken, more := r.src.Receive(limit)

	if selective {
		r.sel.inTurn = false
		if r.sel.changed {
			s.reviewFeeds(r)
		}
	}
	switch {
	case taken > limit:
		r.c.OverLimit++
	case !more:
		end = EndEmpty
	case taken < limit:
		end = EndStopped
	}
	r.c.Turns[end]++
	r.c.Received += uint64(taken)
	r.c.LargestTurn = max(r.c.LargestTurn, uint64(taken))
	r.credit = max(0, r.credit-taken)
	r.took = taken > 0
	r.more = more
	r.noteTurn(more)
	if 4*taken >= s.cfg.Own.Gather {
		r.busyNS = s.now
	}
	if r.state == StateOwned && (taken > 0 || more) {
		s.ownedWork = true
	}
	s.taken += taken
	s.more = s.more || more
	s.auto.noteTurn(r, end)
	if s.allowances {
		for _, q := range r.queues {
			q.spend(taken)
		}
		r.sel.spend(taken)
	}
}

// quotaOf resolves the words a quota may be.
func (s *Scheduler) quotaOf(r *receiver) int {
	switch r.quota {
	case Auto:
		return s.auto.quota
	case Unlimited:
		return maxQuota
	}
	return int(r.quota)
}
