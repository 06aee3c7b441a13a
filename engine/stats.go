package engine

import (
	"fmt"

	"weir/engine/fib"
	"weir/internal/host"
	"weir/poller"
	"weir/queues"
	"weir/xdpprog"
)

// maxStrays bounds the routes listed; whoever has more than a screenful needs a shorter list, not a longer one.
const maxStrays = 32

// Stats is a reading of all counters. Counters only rise. While packets move, the readings are not of one instant, and Unaccounted may
// differ from zero by what moved in between; at rest it is zero.
type Stats struct {
	Totals  Totals        `json:"totals"`
	Ports   []PortStats   `json:"ports"`
	Workers []WorkerStats `json:"workers"`
	Tables  fib.Stats     `json:"tables"`
	// Ownership is the receive work of each queue.
	Ownership []OwnershipStats `json:"ownership"`
	Livelock  Livelock         `json:"livelock"`
	// Strays are routes whose egress is no port, at most maxStrays of them; packets for them are dropped as egress_not_a_port.
	Strays []string `json:"strays,omitempty"`
	// Warnings are what was found at the start.
	Warnings []string `json:"warnings,omitempty"`
}

// Totals is the balance of packets since the start: Offered = Delivered + Passed + Σ Dropped + InFlight + Unaccounted.
type Totals struct {
	// Offered packets arrived at a port's device, those it dropped from a full ring included.
	Offered uint64 `json:"offered"`
	// Delivered packets left through a port and were not dropped by its device.
	Delivered uint64 `json:"delivered"`
	// Passed packets were given to the kernel at the door.
	Passed uint64 `json:"passed_to_kernel"`
	// Dropped packets by reason: device_rx and device_tx are the devices' own drops, door_… those of the receive program, socket_… those
	// of the AF_XDP socket behind it; the others are a Reason's.
	Dropped map[string]uint64 `json:"dropped"`
	// InFlight packets wait in an RX ring or a backlog, or have not completed.
	InFlight uint64 `json:"in_flight"`
	// Unaccounted is what the balance leaves over.
	Unaccounted int64 `json:"unaccounted"`
}

// PortStats are the counters of one port, over all workers.
type PortStats struct {
	Name      string `json:"name"`
	Driver    string `json:"driver"`
	ModeAsked string `json:"mode_asked"`
	Mode      string `json:"mode"`
	Up        bool   `json:"up"`
	MTU       int    `json:"mtu"`
	RxQueues  int    `json:"rx_queues"`
	TxQueues  int    `json:"tx_queues"`
	ProgramID uint32 `json:"program_id"`
	TxBudget  int    `json:"tx_budget"`
	Offered   uint64 `json:"offered"`
	Received  uint64 `json:"received"`
	Forwarded uint64 `json:"forwarded"`
	Sent      uint64 `json:"sent"`
	Completed uint64 `json:"completed"`
	Delivered uint64 `json:"delivered"`
	// Passed packets were given to the kernel, by class.
	Passed map[string]uint64 `json:"passed_to_kernel"`
	// Dropped packets by reason, as in Totals; those of the decision are counted at the port they came in by, device_tx and
	// egress_down_queued at the port they were to leave by.
	Dropped map[string]uint64 `json:"dropped"`
}

// WorkerStats are the state of one worker.
type WorkerStats struct {
	CPU     int                     `json:"cpu"`
	Pages   string                  `json:"pages"`
	IdleNS  int64                   `json:"idle_ns"`
	Rounds  uint64                  `json:"rounds"`
	Frames  queues.Ledger           `json:"frames"`
	Backlog int                     `json:"backlog"`
	Share   ShareStats              `json:"share"`
	Sched   poller.Counters         `json:"scheduler"`
	Sources []poller.ReceiverStatus `json:"sources"`
	Queues  []poller.QueueStatus    `json:"queues"`
}

// Stats reads all counters. It asks each worker for its frames between two rounds, so it takes as long as the longest round.
func (e *Engine) Stats() (Stats, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := Stats{Totals: Totals{Dropped: map[string]uint64{}}, Warnings: e.warnings}
	if e.closed {
		return st, fmt.Errorf("read statistics: the engine is closed")
	}
	snapshot := e.table.Snapshot()
	st.Tables = e.table.Stats()
	for prefix, route := range snapshot.Strays() {
		if len(st.Strays) == maxStrays {
			break
		}
		st.Strays = append(st.Strays, fmt.Sprintf("%s via interface %d", prefix, route.Ifindex))
	}
	for _, w := range e.workers {
		var ws WorkerStats
		var inFlight int
		if !w.driver.call(func() { ws, inFlight = w.stats(), w.inFlight() }) {
			return st, fmt.Errorf("read statistics: %w", w.stuck())
		}
		st.Workers = append(st.Workers, ws)
		st.Totals.InFlight += uint64(inFlight)
	}
	for _, p := range e.ports {
		ps, err := e.portStats(p, snapshot)
		if err != nil {
			return st, err
		}
		st.Ports = append(st.Ports, ps)
		st.Totals.add(ps)
	}
	for _, w := range e.workers {
		for _, s := range w.sources {
			st.Ownership = append(st.Ownership, s.ownership(e.ports[s.port]))
		}
	}
	st.Livelock = *e.livelock.Load()
	st.Totals.balance()
	return st, nil
}

func (t *Totals) add(p PortStats) {
	t.Offered += p.Offered
	t.Delivered += p.Delivered
	for _, n := range p.Passed {
		t.Passed += n
	}
	for reason, n := range p.Dropped {
		t.Dropped[reason] += n
	}
}

func (t *Totals) balance() {
	rest := int64(t.Offered) - int64(t.Delivered) - int64(t.Passed) - int64(t.InFlight)
	for _, n := range t.Dropped {
		rest -= int64(n)
	}
	t.Unaccounted = rest
}

// stats reads the worker's own state; on its thread.
func (w *worker) stats() WorkerStats {
	ws := WorkerStats{CPU: w.cpu, IdleNS: w.driver.idleNS.Load(), Rounds: w.driver.beat.Load(), Sched: *w.sched.Counters(),
		Sources: w.sched.Receivers(nil), Queues: w.sched.Queues(nil)}
	ws.Share = w.shareStats()
	for _, u := range w.groups.all() {
		ws.Frames = addLedgers(ws.Frames, u.Ledger())
		ws.Pages = u.Pages()
	}
	for _, e := range w.egresses {
		ws.Backlog += e.backlog.len()
	}
	return ws
}

func addLedgers(a, b queues.Ledger) queues.Ledger {
	return queues.Ledger{
		Free: a.Free + b.Free, Held: a.Held + b.Held, Receive: a.Receive + b.Receive, Transmit: a.Transmit + b.Transmit,
		Stranded: a.Stranded + b.Stranded, Total: a.Total + b.Total, Misused: a.Misused + b.Misused,
	}
}

func (e *Engine) portStats(p *port, snapshot *fib.Snapshot) (PortStats, error) {
	info := snapshot.Port(p.index)
	ps := PortStats{
		Name: p.config.Name, Driver: p.driver, ModeAsked: p.config.Mode.String(), Mode: p.mode.String(), Up: info.Up, MTU: info.MTU,
		RxQueues: p.queues.rx, TxQueues: p.queues.tx, ProgramID: p.program.ProgramID(),
		Passed: map[string]uint64{}, Dropped: map[string]uint64{},
	}
	var lost queues.Statistics
	for _, s := range p.sockets {
		one, err := s.Statistics()
		if err != nil {
			return ps, fmt.Errorf("read the socket statistics of port %s: %w", ps.Name, err)
		}
		lost.RXDropped += one.RXDropped
		lost.RXRingFull += one.RXRingFull
		ps.TxBudget = max(ps.TxBudget, s.TXBudget())
	}
	device, err := host.LinkCounters(p.ifindex)
	if err != nil {
		return ps, err
	}
	door := p.program.Counters()
	ps.addDoor(door)
	ps.drop("socket_no_frame", lost.RXDropped)
	ps.drop("socket_ring_full", lost.RXRingFull)
	// veth counts a failed redirect under its own rx_dropped too; the door saw that packet already.
	deviceRX := device.RxDropped - p.before.RxDropped
	if p.driver == "veth" {
		deviceRX -= min(deviceRX, lost.RXDropped+lost.RXRingFull)
	}
	ps.drop("device_rx", deviceRX)
	ps.Offered = door.Seen + deviceRX
	lessons := door.Lessons
	for _, w := range e.workers {
		for _, s := range w.sources {
			if s.port == p.index {
				ps.addSource(s)
				lessons -= min(lessons, s.read(sourceLessons)+s.lessonsOnTheWay())
			}
		}
		ps.addEgress(w.egresses[p.index])
	}
	ps.drop("lesson_lost", lessons)
	deviceTX := min(ps.Completed, device.TxDropped-p.before.TxDropped)
	ps.drop("device_tx", deviceTX)
	ps.Delivered = ps.Completed - deviceTX
	return ps, nil
}

// drop adds n packets under a reason. Every reason is always there, so that the set of series never depends on the traffic.
func (p *PortStats) drop(reason string, n uint64) { p.Dropped[reason] += n }

func (p *PortStats) addDoor(c xdpprog.Counters) {
	p.drop("door_too_long", c.DroppedTooLong)
	p.drop("door_no_credit", c.DroppedNoCredit)
	p.drop("door_egress_congested", c.DroppedEgress)
	for bit, n := range c.DroppedGate {
		p.drop("door_gate_"+poller.Reason(1<<bit).String(), n)
	}
	for class := range xdpprog.Class(xdpprog.NumClasses) {
		p.drop("door_limited_"+class.String(), c.Limited[class])
		p.Passed[class.String()] = c.Passed[class]
	}
}

func (p *PortStats) addSource(s *source) {
	p.Received += s.read(sourceReceived)
	p.Forwarded += s.read(int(forwarded))
	for r := forwarded + 1; r < numReasons; r++ {
		p.drop(r.String(), s.read(int(r)))
	}
}

func (p *PortStats) addEgress(e *egress) {
	p.Sent += e.read(egressSent)
	p.Completed += e.read(egressCompleted)
	p.drop("egress_down_queued", e.read(egressDropDown))
}
