package engine

import (
	"weir/poller"
	"weir/queues"
)

// Counters of an egress.
const (
	egressSent      = iota // frames handed to the TX ring
	egressCompleted        // frames the kernel gave back through Completion
	egressDropDown         // frames dropped from the backlog because the port was down
	numEgressCounters
)

// egress is one worker's way out of one port: the TX ring of its socket and a backlog in front of it. Both together are one downstream
// queue for the scheduler. A frame enters the backlog and is the egress's until its completion returns it to the UMEM.
//
// It belongs to its worker's thread.
type egress struct {
	name    string // of the port
	sock    *queues.Socket
	umem    *queues.UMEM
	backlog fifo
	// capacity is the number of packets the TX ring and the backlog hold.
	capacity int
	gates    bool           // it is a downstream queue of the scheduler
	queue    poller.QueueID // if so
	broken   bool           // a kick failed in a way nobody expects; the engine ends
	counters
}

func newEgress(name string, sock *queues.Socket, umem *queues.UMEM, backlog int) *egress {
	return &egress{name: name, sock: sock, umem: umem, backlog: newFIFO(backlog), capacity: sock.TXFree() + backlog, counters: newCounters(numEgressCounters)}
}

// accept takes packets over, in order and as many as the TX ring and the backlog hold, and returns how many; the rest stay the caller's.
func (e *egress) accept(packets []queues.Desc) int {
	e.drain(e.backlog.len())
	taken := 0
	if e.backlog.len() == 0 {
		taken = e.sock.Send(packets)
		e.live[egressSent] += uint64(taken)
	}
	for ; taken < len(packets) && !e.backlog.full(); taken++ {
		e.backlog.push(packets[taken])
	}
	return taken
}

// Transmit takes finished frames back and moves the backlog into the TX ring. max bounds the frames moved; completions are always
// taken back whole, since a frame in the Completion ring serves nobody.
func (e *egress) Transmit(max int) (done int, more bool) {
	done = e.sock.Reap()
	e.live[egressCompleted] += uint64(done)
	e.drain(max)
	return done, e.backlog.len() > 0
}

// drain moves up to max frames from the backlog into the TX ring.
func (e *egress) drain(max int) {
	moved := 0
	for moved < max {
		head := e.backlog.head(max - moved)
		if len(head) == 0 {
			break
		}
		n := e.sock.Send(head)
		e.backlog.drop(n)
		moved += n
		if n < len(head) {
			break
		}
	}
	e.live[egressSent] += uint64(moved)
}

// Kick moves what the round queued into the TX ring and makes the kernel look at it. pending reports frames that have not completed.
func (e *egress) Kick() (pending bool) {
	e.drain(e.backlog.len())
	if e.inFlight() == 0 {
		return false
	}
	switch e.sock.Kick() {
	case queues.KickDown, queues.KickGone:
		e.dropBacklog()
		return false
	case queues.KickFailed:
		e.broken = true
		e.dropBacklog()
		return false
	}
	return true
}

// dropBacklog drops what waits for a port that is down. What is in the TX ring already stays there until the port is up again or its
// socket is closed; the UMEM holds as many frames for each port as its rings can pin.
func (e *egress) dropBacklog() {
	for head := e.backlog.head(e.backlog.len()); len(head) > 0; head = e.backlog.head(e.backlog.len()) {
		for i := range head {
			e.umem.Free(head[i].Addr)
		}
		e.backlog.drop(len(head))
		e.live[egressDropDown] += uint64(len(head))
	}
}

// Len is what feedback goes by: the frames that wait in the backlog or have not completed. What a port that is down keeps in its TX ring
// does not count, or it would hold up the packets for all other ports.
func (e *egress) Len() int {
	if e.sock.State() != queues.StateBound {
		return e.backlog.len()
	}
	return e.inFlight()
}

// inFlight is how many frames are the egress's.
func (e *egress) inFlight() int { return e.sock.TXLen() + e.backlog.len() }
