package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/internal/nettest"
)

// Queues floods one receive queue of several: do the others, lightly loaded, lose?
type Queues struct {
	Placements []Placement
	DUTs       []DUT // each must serve all queues
	NumQueues  int
	Light      int // datagrams per second on each of the other queues
	Rate       Point
	Trials     int
	WarmUp     time.Duration
	Duration   time.Duration
	MaxOthers  float64
	Progress   func(line string)
}

// QueuesResult is what a Queues measured.
type QueuesResult struct {
	Machine Machine       `json:"machine"`
	Trials  []QueuesTrial `json:"trials"`
}

// QueuesTrial is one trial: the light traffic alone, then with the flood.
type QueuesTrial struct {
	Trial
	// Alone and Flooded count the light traffic of the queues from 1 on.
	Alone   []Count `json:"alone"`
	Flooded []Count `json:"flooded"`
}

// floodedQueue is where the generator's frames go: the receive queue of a live frame is its CPU modulo the number of queues.
const floodedQueue = generatorCPU

// Run builds the rig, measures and removes the rig. It returns what it has measured also when it fails or ctx ends.
func (q Queues) Run(ctx context.Context) (result QueuesResult, err error) {
	rig, err := NewRig(q.NumQueues)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	s := setup{rig: rig, warmUp: q.WarmUp, measured: q.Duration, maxOthers: q.MaxOthers}
	for _, placement := range q.Placements {
		tell := teller(q.Progress, string(placement)+": ")
		for n := range q.Trials {
			for _, dut := range q.DUTs {
				tell(fmt.Sprintf("%s with %d queues, trial %d of %d", dut.Name, q.NumQueues, n+1, q.Trials))
				var last QueuesTrial
				_, err := untilValid(n+1, func() (_ Trial, err error) {
					last, err = q.trial(ctx, s, dut, placement)
					return last.Trial, err
				}, func(t Trial) error {
					last.Trial = t
					result.Trials = append(result.Trials, last)
					return nil
				})
				if err != nil {
					return result, err
				}
			}
		}
	}
	return result, nil
}

func (q Queues) trial(ctx context.Context, s setup, dut DUT, placement Placement) (t QueuesTrial, err error) {
	d, err := install(ctx, s.rig, dut, placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	light, err := newStream(s.rig.Gen, s.rig.Sink, SinkAddr, q.NumQueues*flowsPerQueue)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, light.close()) }()
	if err := light.spread(ctx, s.rig); err != nil {
		return t, fmt.Errorf("%s in placement %s: %w", dut.Name, placement, err)
	}
	light.start(q.Light)
	if err := errors.Join(pause(ctx, q.Duration), light.stop(), light.settle(ctx)); err != nil {
		return t, err
	}
	t.Alone = light.take()
	t.Trial, err = s.measure(ctx, d, q.Rate, func() (func() error, error) {
		light.start(q.Light)
		return light.stop, nil
	})
	err = errors.Join(err, light.settle(ctx))
	t.Flooded = light.take()
	return t, err
}

const (
	// flowsPerQueue is how many flows are opened for each queue so that one of them meets it: flows are spread by a hash.
	flowsPerQueue = 16
	// spreadProbes is how many datagrams tell which queue a flow takes.
	spreadProbes = 20
)

// spread keeps one flow for each queue but the flooded one, in their order, and closes the others.
func (s *stream) spread(ctx context.Context, rig *Rig) error {
	kept := make([]int, rig.Queues)
	for i := range kept {
		kept[i] = -1
	}
	for flow := range s.flows {
		before, err := perQueue(rig.Router, rig.Queues)
		if err != nil {
			return err
		}
		for range spreadProbes {
			if err := s.sendOne(flow); err != nil {
				return err
			}
		}
		if err := pause(ctx, drainStep); err != nil {
			return err
		}
		after, err := perQueue(rig.Router, rig.Queues)
		if err != nil {
			return err
		}
		for queue := range kept {
			if kept[queue] < 0 && after[queue]-before[queue] >= spreadProbes {
				kept[queue] = flow
			}
		}
	}
	var flows []int
	for queue, flow := range kept {
		switch {
		case queue == floodedQueue%rig.Queues:
		case flow < 0:
			return fmt.Errorf("none of %d flows goes to queue %d of %s", len(s.flows), queue, inPort)
		default:
			flows = append(flows, flow)
		}
	}
	s.keep(flows)
	return nil
}

// perQueue is how many packets each receive queue of in0 has taken.
func perQueue(ns *nettest.NS, queues int) ([]uint64, error) {
	stats, err := ns.EthtoolStats(inPort)
	if err != nil {
		return nil, err
	}
	list := make([]uint64, queues)
	for q := range list {
		n, ok := stats[fmt.Sprintf("rx_queue_%d_xdp_packets", q)]
		if !ok {
			return nil, fmt.Errorf("%s does not count the packets of queue %d", inPort, q)
		}
		list[q] = n
	}
	return list, nil
}

// WriteTable writes, for a person, what the light traffic lost on each queue.
func (r QueuesResult) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%-12s %-24s %14s %10s %18s %18s\n", "placement", "device", "flood Mpps", "queue", "lost alone", "lost beside flood")
	type row struct {
		placement Placement
		dut       string
	}
	sums := map[row]*QueuesTrial{}
	var rows []row
	for _, t := range r.Trials {
		key := row{t.Placement, t.DUT}
		if sums[key] == nil {
			rows = append(rows, key)
			sums[key] = &QueuesTrial{Alone: make([]Count, len(t.Alone)), Flooded: make([]Count, len(t.Flooded))}
		}
		if !t.Valid() {
			continue
		}
		sum := sums[key]
		sum.Number++
		sum.Offered += t.Offered
		for i := range t.Alone {
			sum.Alone[i], sum.Flooded[i] = sum.Alone[i].add(t.Alone[i]), sum.Flooded[i].add(t.Flooded[i])
		}
	}
	for _, key := range rows {
		sum := sums[key]
		if sum.Number == 0 {
			fmt.Fprintf(w, "%-12s %-24s void: others used the CPUs in every trial\n", key.placement, key.dut)
			continue
		}
		for i := range sum.Alone {
			fmt.Fprintf(w, "%-12s %-24s %14.3f %10d %18s %18s\n", key.placement, key.dut, sum.Offered/float64(sum.Number)/1e6, i+1,
				sum.Alone[i], sum.Flooded[i])
		}
	}
}

// String is the loss and of how many.
func (c Count) String() string { return fmt.Sprintf("%.3f %% of %d", 100*c.Lost(), c.Sent) }

// WriteJSON writes everything.
func (r QueuesResult) WriteJSON(w io.Writer) error { return writeJSON(w, r) }
