package engine

import (
	"fmt"
	"net/netip"
	"slices"

	"weir/engine/fib"
	"weir/internal/napi"
	"weir/poller"
	"weir/queues"
)

const (
	// batchSize is the most packets taken from an RX ring at once. Larger batches amortise nothing more; they only let descriptors
	// fall out of the first-level cache.
	batchSize = 64
	// maxAsks bounds the neighbours asked for after one batch; the rest are asked for when their next packet comes.
	maxAsks = 16
)

// tables is what a worker needs of fib.Table; crossed once per batch.
type tables interface {
	Snapshot() *fib.Snapshot
	Resolve([]fib.Request)
}

// worker owns one thread, one CPU, its UMEMs and all that uses them. The path of a packet, in order:
//
//	source.Receive → source.forwardBatch → forward → worker.transmit (backlog) → egress.Kick (TX ring) → egress.Transmit (completion)
//
// Everything here runs on the worker's thread, except where a comment says otherwise.
type worker struct {
	id, cpu int
	nice    int
	threads kernelThreads // that receive for this worker
	table   tables
	sched   *poller.Scheduler
	sources []*source
	// egresses is indexed by port; every worker can transmit on every port.
	egresses []*egress
	groups   umemGroups
	client   *napi.Client // of this worker's thread; nil when no receive work is owned, or by other means
	batch    [batchSize]queues.Desc
	asks     [maxAsks]fib.Request
	numAsks  int
	driver   driver
}

// newWorker returns a worker without sockets, not yet running.
func newWorker(id, cpu, numPorts int, table tables) *worker {
	return &worker{id: id, cpu: cpu, table: table, egresses: make([]*egress, numPorts), driver: driver{wake: -1}}
}

// ask notes, once, that a next hop is to be resolved or verified; flushAsks passes the notes on, once per batch.
func (w *worker) ask(port int, addr netip.Addr) {
	request := fib.Request{Port: port, Addr: addr}
	if w.numAsks < maxAsks && !slices.Contains(w.asks[:w.numAsks], request) {
		w.asks[w.numAsks] = request
		w.numAsks++
	}
}

func (w *worker) flushAsks() {
	if w.numAsks > 0 {
		w.table.Resolve(w.asks[:w.numAsks])
		w.numAsks = 0
	}
}

// publish makes the counters of the round visible.
func (w *worker) publish() {
	for _, s := range w.sources {
		s.publish()
	}
	for _, e := range w.egresses {
		e.publish()
	}
}

// broken says which egress can never transmit again though its device is there.
func (w *worker) broken() error {
	for _, e := range w.egresses {
		if e.broken {
			return fmt.Errorf("transmit on %s queue %d: %w: restart weir, and report this", e.name, e.sock.Queue(), e.sock.LastErrno())
		}
	}
	return nil
}

// stuck is the error for a worker that does not answer a call.
func (w *worker) stuck() error {
	return fmt.Errorf("worker %d on CPU %d: no round finished for %s: something outranks it on that CPU, or a system call hangs",
		w.id, w.cpu, callTimeout)
}

// inFlight is how many packets the worker holds: waiting in its RX rings, in backlogs, or not completed.
func (w *worker) inFlight() int {
	n := 0
	for _, s := range w.sources {
		n += s.sock.Pending()
	}
	for _, e := range w.egresses {
		n += e.inFlight()
	}
	return n
}
