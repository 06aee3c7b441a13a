package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// DefaultMaxOthers is what other processes, and as much what the hypervisor, may take of a CPU before a trial is invalid.
const DefaultMaxOthers = 0.02

const (
	// minReached is the part of its rate that the generator must have offered.
	minReached = 0.99
	// maxAttempts bounds how often a trial is made until it is valid. What is not valid then either is void.
	maxAttempts = 4
	// maxMissed is how many of them may miss the rate though nobody disturbs the generator: then it does not go faster beside this device.
	maxMissed = 2
)

// Trial is one measurement of one device under test in one placement at one rate.
type Trial struct {
	Placement Placement `json:"placement"`
	Rate      string    `json:"rate"` // as it was asked for: "0.5x", "800k" or "max"
	DUT       string    `json:"dut"`
	// Control: the device is a control experiment, there to show livelock.
	Control bool `json:"control,omitempty"`
	// Number counts the trials of a point from 1, Attempt how often this one was made.
	Number  int `json:"number"`
	Attempt int `json:"attempt"`
	// Asked is the generator's rate in packets per second; 0 is as fast as it goes.
	Asked uint64 `json:"asked_pps"`
	// Offered and Delivered are rates over the measured time, warm-up left out.
	Offered   float64 `json:"offered_pps"`
	Delivered float64 `json:"delivered_pps"`
	// Lost is the part of what was offered since the measured time began that never came out, the packets in flight waited for.
	Lost float64 `json:"lost"`
	// User and System are the CPU time of the device's process over the measured time, in CPUs; both 0 for the kernel.
	User   float64 `json:"user_cpus"`
	System float64 `json:"system_cpus"`
	// CPUs are what others took of the generator's CPU and of the device's.
	CPUs [len(labCPUs)]CPUShare `json:"cpus"`
	// Changed says what was no longer as the placement was imposed when the measured time ended.
	Changed []string `json:"changed,omitempty"`
	// Livelocks is how often the device's own watchdog fired.
	Livelocks uint64 `json:"livelocks"`
	// Reverse counts the packets of traffic against the flood; nil when there was none.
	Reverse *Count `json:"reverse,omitempty"`
	// Invalid says why the trial counts for nothing; empty when it does count.
	Invalid string `json:"invalid,omitempty"`
	// Missed: the generator did not reach its rate, although nobody disturbed it.
	Missed bool `json:"missed"`
}

// Valid tells whether the trial counts.
func (t Trial) Valid() bool { return t.Invalid == "" }

// Livelocked is how often the device's own watchdog fired, 0 for a control experiment.
func (t Trial) Livelocked() uint64 {
	if t.Control {
		return 0
	}
	return t.Livelocks
}

// setup is what all trials of a run have in common.
type setup struct {
	rig      *Rig
	warmUp   time.Duration
	measured time.Duration
	reverse  int // packets per second against the flood
	// maxOthers is what others, or the hypervisor, may take of a CPU.
	maxOthers float64
}

// trial installs the device, floods it and removes it.
func (s setup) trial(ctx context.Context, dut DUT, placement Placement, p Point) (t Trial, err error) {
	d, err := install(ctx, s.rig, dut, placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	if s.reverse == 0 || !d.dut.bothWays() {
		return s.measure(ctx, d, p, nil)
	}
	against, err := newStream(s.rig.Sink, s.rig.Gen, GenAddr, 1)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, against.close()) }()
	t, err = s.measure(ctx, d, p, func() (func() error, error) {
		against.start(s.reverse)
		return against.stop, nil
	})
	err = errors.Join(err, against.settle(ctx))
	t.Reverse = &against.take()[0]
	return t, err
}

// measure floods a device that is installed. beside is what a flood has beside it.
func (s setup) measure(ctx context.Context, d *device, p Point, beside func() (func() error, error)) (Trial, error) {
	t := Trial{Placement: d.placed.placement, Rate: p.String(), DUT: d.dut.Name, Control: d.dut.control, Asked: p.PPS}
	o, err := d.flood(ctx, flood{rate: p.PPS, warmUp: s.warmUp, measured: s.measured, beside: beside})
	if err == nil {
		t.Livelocks, err = d.livelocks(ctx)
	}
	if err != nil {
		return t, fmt.Errorf("%s in placement %s at %s: %w", d.dut.Name, d.placed.placement, p, err)
	}
	t.fill(o, participants{device: d.running.pid, lab: os.Getpid(), beside: d.beside})
	t.judge(s.maxOthers)
	return t, nil
}

// untilValid makes a trial until it is valid, maxAttempts times at most, numbers it and returns the last. each is told of all of them.
func untilValid(number int, once func() (Trial, error), each func(Trial) error) (t Trial, err error) {
	missed := 0
	for attempt := range maxAttempts {
		if t, err = once(); err != nil {
			return t, err
		}
		t.Number, t.Attempt = number, attempt+1
		if t.Missed {
			missed++
		}
		if err := each(t); err != nil || t.Valid() || missed == maxMissed {
			return t, err
		}
	}
	return t, nil
}

// fill computes the figures of a trial from what was observed.
func (t *Trial) fill(o observed, who participants) {
	seconds := o.second.at.Sub(o.first.at).Seconds()
	t.Offered = float64(o.second.offered-o.first.offered) / seconds
	t.Delivered = float64(o.second.delivered-o.first.delivered) / seconds
	t.User, t.System = (o.second.user-o.first.user)/seconds, (o.second.system-o.first.system)/seconds
	if offered := float64(o.last.offered - o.first.offered); offered > 0 {
		// What was in flight at the first reading came out later: it must not make up for what was lost.
		t.Lost = max(0, 1-float64(o.last.delivered-o.first.delivered)/offered)
	}
	for i, cpu := range labCPUs {
		t.CPUs[i] = who.shares(o.before, o.after, cpu)
	}
	t.Changed = o.changes
}

// judge finds what makes the trial invalid.
func (t *Trial) judge(maxOthers float64) {
	var why []string
	for i, c := range t.CPUs {
		if c.Foreign > maxOthers {
			others := ""
			if len(c.By) > 0 {
				others = " (" + strings.Join(c.By, ", ") + ")"
			}
			why = append(why, fmt.Sprintf("others took %.0f %% of CPU %d%s", 100*c.Foreign, labCPUs[i], others))
		}
		if c.Stolen > maxOthers {
			why = append(why, fmt.Sprintf("the hypervisor took %.0f %% of CPU %d", 100*c.Stolen, labCPUs[i]))
		}
	}
	if t.Asked > 0 && t.Offered < minReached*float64(t.Asked) {
		t.Missed = len(why) == 0
		why = append(why, fmt.Sprintf("the generator reached %.1f %% of its rate", 100*t.Offered/float64(t.Asked)))
	}
	t.Invalid = strings.Join(why, "; ")
}
