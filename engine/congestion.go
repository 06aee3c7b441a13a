package engine

import (
	"weir/poller"
	"weir/queues"
)

// A source tells the scheduler which egresses its packets are for, and its door which destinations lead to one that is congested while
// others are not:
//
//	packets for B, B congested ─► Learn(destination, B)      the door refuses what is for B, and lets in the rest
//	all that it feeds congested ─► the gate closes           the device drops, for nothing
//
// Ports from maxSelective on take no part: they stop nobody, and what they cannot hold is dropped late.
const maxSelective = 64

// feedTurns is how many turns with packets in a row must bring none for an egress before the source counts as not feeding it.
const feedTurns = 256

// feeding is what a source knows of where its packets go; bit p is port p.
type feeding struct {
	feeds uint64 // told to the scheduler
	fed   uint64 // in this count of turns
	turns int
	shut  uint64 // congested, told to the door
}

// noteFeeds tells the scheduler when the source begins or ends to feed an egress; at the end of a turn with packets.
func (s *source) noteFeeds() {
	if fresh := s.fed &^ s.feeds; fresh != 0 {
		s.setFeeds(fresh, true)
	}
	if s.turns++; s.turns < feedTurns {
		return
	}
	if stale := s.feeds &^ s.fed; stale != 0 {
		s.setFeeds(stale, false)
	}
	s.fed, s.turns = 0, 0
}

func (s *source) setFeeds(ports uint64, on bool) {
	for p, e := range s.worker.egresses {
		if ports>>p&1 == 0 || !e.gates {
			continue
		}
		if s.worker.sched.SetFeeds(s.id, e.queue, on) == nil { // it knows both
			s.feeds ^= 1 << p
		}
	}
}

// refeed takes back what was told, after queues were added or removed; what is still so will be told again.
func (s *source) refeed() {
	s.setFeeds(s.feeds, false)
	s.feeds, s.fed = 0, 0
}

// SetShut tells the door that an egress which this source feeds is congested, or not any more.
func (s *source) SetShut(q poller.QueueID, shut bool) {
	for p, e := range s.worker.egresses {
		if p >= maxSelective || e.queue != q {
			continue
		}
		s.shut &^= 1 << p
		if shut {
			s.shut |= 1 << p
		}
	}
	if s.discard {
		s.door.SetShut(s.shut)
	}
}

// learn tells the door where packets lead that met a congested egress. They were forwarded, so their headers are whole.
func (s *source) learn(packets []queues.Desc, port int) {
	for _, d := range packets {
		switch ip := s.umem.Data(d)[ethHeaderLen:]; ip[0] >> 4 {
		case 4:
			s.door.Learn4([4]byte(ip[16:20]), port)
		case 6:
			s.door.Learn6((*[16]byte)(ip[24:40]), port)
		}
	}
}

var _ poller.Shutter = (*source)(nil)
