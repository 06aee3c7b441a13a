package main

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"weir/engine"
	"weir/poller"
)

// collector exports the engine's counters. No label holds an address or a port number, so the number of series does not depend on the
// traffic.
type collector struct {
	stats func() (engine.Stats, error)

	offered, delivered, passed, dropped       *prometheus.Desc
	received, forwarded, sent, completed      *prometheus.Desc
	portInfo, portUp                          *prometheus.Desc
	frames, inFlight, unaccounted, idle       *prometheus.Desc
	rounds                                    *prometheus.Desc
	tableUpdates, tableOverruns, tableResyncs *prometheus.Desc
	receive                                   receiveWork
}

// receiveWork are the metrics of who receives: ownership, and livelock.
type receiveWork struct {
	info, owned, fill                   *prometheus.Desc
	seen, here, driven, polls, lessons  *prometheus.Desc
	rescues, retaken, voided, failed    *prometheus.Desc
	moves                               *prometheus.Desc
	livelock, livelockWindows, episodes *prometheus.Desc
}

func newReceiveWork(desc func(name, help string, labels ...string) *prometheus.Desc) receiveWork {
	queue := func(name, help string, labels ...string) *prometheus.Desc {
		return desc(name, help, append([]string{"port", "queue"}, labels...)...)
	}
	return receiveWork{
		info:            queue("ownership_info", "Means of ownership asked for, and that in force or tried next; always 1.", "asked", "means"),
		owned:           queue("ownership_owned", "1 while the worker owns the queue's receive work."),
		fill:            queue("receive_fill_depth_frames", "Frames lent to the kernel for receiving, at most."),
		seen:            queue("receive_seen_packets_total", "Packets that came to the queue's door."),
		here:            queue("receive_seen_here_packets_total", "Of these, packets received on the worker's CPU."),
		driven:          queue("receive_driven_packets_total", "Of these, packets received by the worker's own calls."),
		polls:           queue("ownership_polls_total", "Calls of the worker that polled the queue's NAPI."),
		lessons:         queue("ownership_lessons_total", "Packets that came back to teach the worker the queue's NAPI."),
		rescues:         queue("ownership_rescues_total", "Times that the NAPI was masked for a worker that did not get the CPU."),
		retaken:         queue("ownership_retaken_total", "Times that settings written over by others were taken back."),
		voided:          queue("ownership_voided_total", "NAPIs that went away."),
		failed:          queue("ownership_failures_total", "Calls for ownership that failed."),
		moves:           queue("ownership_moves_total", "Moves of the ownership machine, by kind.", "move"),
		livelock:        desc("livelock_now", "1 if in the last second packets came and next to none was finished."),
		livelockWindows: desc("livelock_windows_total", "Seconds in which packets came and next to none was finished."),
		episodes:        desc("livelock_episodes_total", "Runs of such seconds."),
	}
}

func (r receiveWork) all() []*prometheus.Desc {
	return []*prometheus.Desc{
		r.info, r.owned, r.fill, r.seen, r.here, r.driven, r.polls, r.lessons, r.rescues, r.retaken, r.voided, r.failed, r.moves,
		r.livelock, r.livelockWindows, r.episodes,
	}
}

func (r receiveWork) send(send func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string), st engine.Stats) {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, o := range st.Ownership {
		port, queue := o.Port, strconv.Itoa(o.Queue)
		send(r.info, gauge, 1, port, queue, o.Asked, o.Means)
		send(r.owned, gauge, oneIf(o.Owned), port, queue)
		send(r.fill, gauge, float64(o.FillDepth), port, queue)
		for d, n := range map[*prometheus.Desc]uint64{
			r.seen: o.Seen, r.here: o.SeenHere, r.driven: o.SeenDriven, r.polls: o.Polls, r.lessons: o.Lessons,
			r.rescues: o.Rescues, r.retaken: o.Retaken, r.voided: o.Voided, r.failed: o.Failed,
		} {
			send(d, counter, float64(n), port, queue)
		}
	}
	for _, w := range st.Workers {
		for _, s := range w.Sources {
			port, queue := s.Name[:strings.LastIndexByte(s.Name, '/')], s.Name[strings.LastIndexByte(s.Name, '/')+1:]
			for move, n := range s.Counters.Moves {
				send(r.moves, counter, float64(n), port, queue, poller.Move(move).String())
			}
		}
	}
	send(r.livelock, gauge, oneIf(st.Livelock.Now))
	send(r.livelockWindows, counter, float64(st.Livelock.Windows))
	send(r.episodes, counter, float64(st.Livelock.Episodes))
}

func newCollector(stats func() (engine.Stats, error)) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("weir_"+name, help, labels, nil)
	}
	return &collector{
		stats:         stats,
		receive:       newReceiveWork(desc),
		offered:       desc("port_offered_packets_total", "Packets that arrived at the port's device, its own drops included.", "port"),
		delivered:     desc("port_delivered_packets_total", "Packets that left through the port and were not dropped by its device.", "port"),
		passed:        desc("port_passed_packets_total", "Packets given to the kernel at the door, by class.", "port", "class"),
		dropped:       desc("port_dropped_packets_total", "Packets dropped, by reason.", "port", "reason"),
		received:      desc("port_received_packets_total", "Packets taken from the port's RX rings.", "port"),
		forwarded:     desc("port_forwarded_packets_total", "Packets that came in by the port and were handed to an egress.", "port"),
		sent:          desc("port_sent_packets_total", "Packets put into the port's TX rings.", "port"),
		completed:     desc("port_completed_packets_total", "Packets the kernel gave back through Completion.", "port"),
		portInfo:      desc("port_info", "Driver and modes of the port; always 1.", "port", "driver", "mode_asked", "mode"),
		portUp:        desc("port_up", "1 while the port's link is up.", "port"),
		frames:        desc("worker_frames", "Frames of the worker's packet memory, by owner.", "cpu", "owner"),
		inFlight:      desc("in_flight_packets", "Packets in RX rings, backlogs and transmission."),
		unaccounted:   desc("unaccounted_packets", "What the balance of packets leaves over; 0 at rest."),
		idle:          desc("worker_idle_seconds_total", "Time the worker was blocked for want of work.", "cpu"),
		rounds:        desc("worker_rounds_total", "Rounds of the worker's scheduler.", "cpu"),
		tableOverruns: desc("table_overruns_total", "Times that changes were lost because the netlink buffer was full."),
		tableResyncs:  desc("table_resyncs_total", "Times that the kernel's tables were read again whole."),
		tableUpdates:  desc("table_updates_total", "Changes of the kernel's tables that were followed."),
	}
}

// Describe sends the descriptions of all metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.offered, c.delivered, c.passed, c.dropped, c.received, c.forwarded, c.sent, c.completed, c.portInfo, c.portUp,
		c.frames, c.inFlight, c.unaccounted, c.idle, c.rounds, c.tableUpdates, c.tableOverruns, c.tableResyncs,
	} {
		ch <- d
	}
	for _, d := range c.receive.all() {
		ch <- d
	}
}

// Collect reads the engine once and sends all metrics.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	st, err := c.stats()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.offered, err)
		return
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	for _, p := range st.Ports {
		send(c.offered, counter, float64(p.Offered), p.Name)
		send(c.delivered, counter, float64(p.Delivered), p.Name)
		send(c.received, counter, float64(p.Received), p.Name)
		send(c.forwarded, counter, float64(p.Forwarded), p.Name)
		send(c.sent, counter, float64(p.Sent), p.Name)
		send(c.completed, counter, float64(p.Completed), p.Name)
		send(c.portInfo, gauge, 1, p.Name, p.Driver, p.ModeAsked, p.Mode)
		send(c.portUp, gauge, oneIf(p.Up), p.Name)
		for class, n := range p.Passed {
			send(c.passed, counter, float64(n), p.Name, class)
		}
		for reason, n := range p.Dropped {
			send(c.dropped, counter, float64(n), p.Name, reason)
		}
	}
	for _, w := range st.Workers {
		cpu := strconv.Itoa(w.CPU)
		send(c.idle, counter, float64(w.IdleNS)/1e9, cpu)
		send(c.rounds, counter, float64(w.Rounds), cpu)
		for owner, n := range map[string]int{
			"free": w.Frames.Free, "receive": w.Frames.Receive, "transmit": w.Frames.Transmit,
			"held": w.Frames.Held, "stranded": w.Frames.Stranded,
		} {
			send(c.frames, gauge, float64(n), cpu, owner)
		}
	}
	send(c.inFlight, gauge, float64(st.Totals.InFlight))
	send(c.unaccounted, gauge, float64(st.Totals.Unaccounted))
	send(c.tableOverruns, counter, float64(st.Tables.Overruns))
	send(c.tableResyncs, counter, float64(st.Tables.Resyncs))
	send(c.tableUpdates, counter, float64(st.Tables.Updates))
	c.receive.send(send, st)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
