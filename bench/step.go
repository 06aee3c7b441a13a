package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
	"weir/xdpprog"
)

// Step overloads a device and then, from one moment to the next, offers it what it can bear: how long until it loses nothing more?
type Step struct {
	Placements []Placement
	DUTs       []DUT
	// From and To are the rates; multiples are of the first device's MLFRR in the placement. A From beyond the generator's maximum is that.
	From, To Point
	Trials   int
	WarmUp   time.Duration // under To and From together
	Duration time.Duration // observed after the step
	// MaxOthers is for the search of the MLFRR. The trials themselves are not judged: a disturbance shows in their milliseconds.
	MaxOthers float64
	Progress  func(line string)
}

// StepResult is what a Step measured.
type StepResult struct {
	Machine Machine     `json:"machine"`
	MLFRRs  []MLFRR     `json:"mlfrr,omitempty"`
	Trials  []StepTrial `json:"trials"`
}

// StepTrial is one trial.
type StepTrial struct {
	Placement Placement `json:"placement"`
	DUT       string    `json:"dut"`
	Number    int       `json:"number"`
	// Control: the device is a control experiment, there to show livelock.
	Control bool `json:"control,omitempty"`
	// Before and After are what was offered before and after the step, packets per second.
	Before float64 `json:"before_pps"`
	After  float64 `json:"after_pps"`
	// Recovery is how long after the step the last packet was lost and what had been queued was delivered, in ms; -1 when that did not
	// happen while it was observed.
	Recovery float64 `json:"recovery_ms"`
	Bins     []Bin   `json:"bins"`
	// Livelocks is how often the device's own watchdog fired.
	Livelocks uint64 `json:"livelocks"`
}

// Livelocked is how often the device's own watchdog fired, 0 for a control experiment.
func (t StepTrial) Livelocked() uint64 {
	if t.Control {
		return 0
	}
	return t.Livelocks
}

// Bin is about a millisecond; the step is at 0.
type Bin struct {
	// At is when it ended, in ms after the step.
	At float64 `json:"ms"`
	// Offered and Delivered are packets within it.
	Offered   uint64 `json:"offered"`
	Delivered uint64 `json:"delivered"`
}

const (
	// stepBin is how often the counters are read.
	stepBin = time.Millisecond
	// stepBefore is how much of the time before the step is shown.
	stepBefore = 100 * time.Millisecond
)

// Run builds the rig, measures and removes the rig. It returns what it has measured also when it fails or ctx ends.
func (s Step) Run(ctx context.Context) (result StepResult, err error) {
	rig, err := NewRig(1)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	search := setup{rig: rig, maxOthers: s.MaxOthers}
	for _, placement := range s.Placements {
		tell := teller(s.Progress, string(placement)+": ")
		from, err := search.load(ctx, s.From, s.DUTs[0], placement, &result.MLFRRs, tell)
		if err != nil {
			return result, err
		}
		to, err := search.load(ctx, s.To, s.DUTs[0], placement, &result.MLFRRs, tell)
		if err != nil {
			return result, err
		}
		for n := range s.Trials {
			for _, dut := range s.DUTs {
				tell(fmt.Sprintf("%s from %s to %s, trial %d of %d", dut.Name, from, to, n+1, s.Trials))
				trial, err := s.trial(ctx, rig, dut, placement, from.PPS, to.PPS)
				if err != nil {
					return result, fmt.Errorf("%s in placement %s: %w", dut.Name, placement, err)
				}
				trial.Number = n + 1
				result.Trials = append(result.Trials, trial)
			}
		}
	}
	return result, nil
}

// sample is the counters at one moment of a trial.
type sample struct {
	at                       time.Time
	high, offered, delivered uint64 // sent by the generator that stops; by both; come out
}

func (s Step) trial(ctx context.Context, rig *Rig, dut DUT, placement Placement, from, to uint64) (t StepTrial, err error) {
	t = StepTrial{Placement: placement, DUT: dut.Name, Control: dut.control}
	d, err := install(ctx, rig, dut, placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	samples, last, err := s.observe(ctx, d, from, to)
	if err != nil {
		return t, err
	}
	if t.Livelocks, err = d.livelocks(ctx); err != nil {
		return t, err
	}
	return t, t.evaluate(samples, last)
}

// observe runs two generators: one at the lower rate from beginning to end, which gets what the other leaves of the CPU, and one that
// makes the overload and stops. So no generator has to be made at the step: traffic goes on after a millisecond or two.
func (s Step) observe(ctx context.Context, d *device, from, to uint64) (samples []sample, last sample, err error) {
	low, err := d.rig.newGenerator(to)
	if err != nil {
		return nil, last, err
	}
	defer func() { err = errors.Join(err, low.Close()) }()
	high, err := d.rig.newGenerator(from)
	if err != nil {
		return nil, last, err
	}
	defer func() { err = errors.Join(err, high.Close()) }()

	running, end := context.WithCancel(ctx)
	defer end()
	overload, step := context.WithCancel(running)
	defer step()
	read := func() (sample, error) {
		now := sample{high: high.Sent(), at: time.Now()}
		now.offered = now.high + low.Sent()
		count, err := d.sink.Count()
		now.delivered = count.Packets
		return now, err
	}
	sampled := make(chan error, 1)
	go func() {
		sampled <- onTime(func() error {
			for due := time.Now(); running.Err() == nil; due = later(due.Add(stepBin), time.Now()) {
				sleepUntil(due)
				now, err := read()
				if err != nil {
					return err
				}
				samples = append(samples, now)
			}
			return nil
		})
	}()
	generated := make(chan error, 2)
	go func() { generated <- generate(running, low, lowestNice) }()
	go func() { generated <- generate(overload, high, 0) }()
	err = pause(ctx, s.WarmUp)
	step()
	if err == nil {
		err = pause(ctx, s.Duration)
	}
	end()
	if err := errors.Join(err, <-generated, <-generated, <-sampled); err != nil {
		return nil, last, err
	}
	if _, err := d.drain(ctx); err != nil {
		return nil, last, err
	}
	last, err = read()
	return samples, last, err
}

// lowestNice leaves a thread a fiftieth of a CPU that an ordinary one wants too.
const lowestNice = 19

// generate runs a generator on its CPU until ctx ends.
func generate(ctx context.Context, g *xdpprog.Generator, nice int) error {
	return OnCPU(generatorCPU, func() error {
		if err := napi.SetThreadRank(unix.Gettid(), napi.Rank{Policy: unix.SCHED_NORMAL, Nice: nice}); err != nil {
			return err
		}
		_, err := g.Run(ctx, xdpprog.Bounds{})
		return err
	})
}

// evaluate finds the step in the samples and the recovery after it. last is when all had come out.
func (t *StepTrial) evaluate(samples []sample, last sample) error {
	step := 0
	for i := 1; i < len(samples); i++ {
		if samples[i].high > samples[i-1].high {
			step = i
		}
	}
	if step == 0 || step+1 >= len(samples) {
		return fmt.Errorf("no step in %d samples", len(samples))
	}
	zero := samples[step].at
	first, end := samples[0], samples[len(samples)-1]
	for i, s := range samples {
		if s.at.Before(zero.Add(-stepBefore)) {
			first = s
			continue
		}
		if i > 0 {
			t.Bins = append(t.Bins, Bin{
				At: milliseconds(s.at.Sub(zero)), Offered: s.offered - samples[i-1].offered, Delivered: s.delivered - samples[i-1].delivered,
			})
		}
	}
	if before := zero.Sub(first.at).Seconds(); before > 0 {
		t.Before = float64(samples[step].offered-first.offered) / before
	}
	t.After = float64(end.offered-samples[step].offered) / end.at.Sub(zero).Seconds()
	t.Recovery = -1
	if i := recovered(samples[step:], last, t.After); i >= 0 {
		t.Recovery = milliseconds(samples[step+i].at.Sub(zero))
	}
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// unsettled is how many packets, beside those of one bin, may be under way in a device that has recovered: a batch of the generator.
const unsettled = 64

// recovered finds the first sample from which on nothing more is lost; -1 for none. What is missing at a moment is lost or under way. From
// that sample on it must be what is missing in the end, when nothing is under way, but for what a device holds that has no backlog, and for
// the loss that counts as none.
func recovered(samples []sample, last sample, rate float64) int {
	missing := func(s sample) float64 { return float64(s.offered) - float64(s.delivered) }
	at := len(samples)
	for i := len(samples) - 1; i >= 0; i-- {
		tolerated := unsettled + rate*stepBin.Seconds() + maxLoss*float64(last.offered-samples[i].offered)
		if off := missing(samples[i]) - missing(last); off > tolerated || off < -tolerated {
			break
		}
		at = i
	}
	if at == len(samples) {
		return -1
	}
	return at
}

// WriteTable writes, for a person, the recoveries.
func (r StepResult) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%-12s %-32s %12s %12s %s\n", "placement", "device", "before Mpps", "after Mpps", "loses nothing more after, ms (min–max)")
	for _, p := range Placements {
		var names []string
		byName := map[string][]StepTrial{}
		for _, t := range r.Trials {
			if t.Placement == p {
				if byName[t.DUT] == nil {
					names = append(names, t.DUT)
				}
				byName[t.DUT] = append(byName[t.DUT], t)
			}
		}
		for _, name := range names {
			var before, after, recovery []float64
			never := 0
			for _, t := range byName[name] {
				before, after = append(before, t.Before/1e6), append(after, t.After/1e6)
				if t.Recovery < 0 {
					never++
				} else {
					recovery = append(recovery, t.Recovery)
				}
			}
			result := "never"
			if len(recovery) > 0 {
				result = spreadOf(recovery).micros()
			}
			if never > 0 {
				result += fmt.Sprintf(", not while observed in %d of %d trials", never, len(byName[name]))
			}
			fmt.Fprintf(w, "%-12s %-32s %12.3f %12.3f %s\n", p, name, spreadOf(before).Median, spreadOf(after).Median, result)
		}
	}
}

// WriteCSV writes the bins of every trial, one line each.
func (r StepResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"placement", "dut", "number", "ms", "offered", "delivered"}) // Flush tells
	for _, t := range r.Trials {
		for _, b := range t.Bins {
			_ = c.Write([]string{
				string(t.Placement), t.DUT, fmt.Sprint(t.Number), fmt.Sprintf("%.3f", b.At), fmt.Sprint(b.Offered), fmt.Sprint(b.Delivered),
			})
		}
	}
	c.Flush()
	return c.Error()
}

// WriteJSON writes everything.
func (r StepResult) WriteJSON(w io.Writer) error { return writeJSON(w, r) }
