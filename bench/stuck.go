package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/xdpprog"
)

// StuckTrial is what a second egress that sticks for a while does to the healthy one, and how soon both are back.
type StuckTrial struct {
	Placement Placement `json:"placement"`
	Variant   string    `json:"variant"`
	Rate      string    `json:"rate"`
	Number    int       `json:"number"`
	// Offered and what each egress delivered before the second stuck, packets per second; and what the healthy one did meanwhile.
	Offered float64 `json:"offered_pps"`
	Healthy float64 `json:"healthy_pps"`
	Second  float64 `json:"second_pps"`
	While   float64 `json:"healthy_while_stuck_pps"`
	// Pauses are the longest times in which the healthy egress delivered nothing, in ms: before, while the other is stuck, and after.
	Pauses [3]float64 `json:"pauses_ms"`
	// Blind is the longest time between two looks, in ms: pauses are known to within that.
	Blind float64 `json:"blind_ms"`
	// Recovery is when after the second is free again both deliver as before, in ms; -1 when not while observed.
	Recovery float64    `json:"recovery_ms"`
	Bins     []StuckBin `json:"bins"`
}

// StuckBin is about a millisecond; the second egress sticks at 0.
type StuckBin struct {
	At      float64 `json:"ms"` // its end
	Healthy uint64  `json:"healthy"`
	Second  uint64  `json:"second"`
}

// The phases of a trial, beside stuckFor.
const (
	stuckBefore = 500 * time.Millisecond
	stuckAfter  = 500 * time.Millisecond
	// stuckLook is how often the counters are read.
	stuckLook = 200 * time.Microsecond
	// stuckLet is how long after it sticks the egress is let go again, which shows when its pause has ended.
	stuckLet = stuckFor / 2
)

// look is the counters at one moment.
type look struct {
	at              time.Time
	healthy, second uint64
}

// stuckTrials makes the trials, with feedback and without in turn.
func (r *feedbackRun) stuckTrials(ctx context.Context, placement Placement, p Point, tell func(string)) error {
	for n := range r.Trials {
		for _, variant := range []string{variantFeedback, variantWithout} {
			tell(fmt.Sprintf("second egress sticks, %s at %s, trial %d of %d", variant, p, n+1, r.Trials))
			t, err := r.stuckTrial(ctx, placement, variant, p)
			if err != nil {
				return fmt.Errorf("second egress sticks, %s in placement %s: %w", variant, placement, err)
			}
			t.Number = n + 1
			r.result.Stuck = append(r.result.Stuck, t)
		}
	}
	return nil
}

func (r *feedbackRun) stuckTrial(ctx context.Context, placement Placement, variant string, p Point) (t StuckTrial, err error) {
	t = StuckTrial{Placement: placement, Variant: variant, Rate: p.String()}
	r.setup.rig.traffic = toBoth
	d, err := install(ctx, r.setup.rig, r.dut(variant), placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.egress.set(EgressFree), d.remove()) }()
	g, err := r.setup.rig.newGenerator(p.PPS)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := r.egress.set(EgressFree); err != nil {
		return t, err
	}
	var looks []look
	var stuck time.Time
	running, end := context.WithCancel(ctx)
	defer end()
	generated, looked := make(chan error, 1), make(chan error, 1)
	go func() {
		generated <- OnCPU(generatorCPU, func() error {
			_, err := g.Run(running, xdpprog.Bounds{})
			return err
		})
	}()
	err = pause(ctx, r.WarmUp)
	go func() {
		looked <- onTime(func() (err error) {
			looks, err = r.look(running, d)
			return err
		})
	}()
	if err == nil {
		err = pause(ctx, stuckBefore)
	}
	sent, sentFor := g.Sent(), time.Now()
	if err == nil {
		stuck, err = time.Now(), r.egress.set(EgressStuck)
	}
	if err == nil {
		err = pause(ctx, stuckLet)
	}
	if err == nil {
		err = r.egress.set(EgressFree)
	}
	if err == nil {
		err = pause(ctx, stuckFor-stuckLet+stuckAfter)
	}
	t.Offered = float64(g.Sent()-sent) / time.Since(sentFor).Seconds()
	end()
	if err = errors.Join(err, <-generated, <-looked); err != nil {
		return t, err
	}
	return t, t.evaluate(looks, stuck)
}

// look reads the counters until ctx ends.
func (r *feedbackRun) look(ctx context.Context, d *device) (looks []look, err error) {
	for due := time.Now(); ctx.Err() == nil; due = later(due.Add(stuckLook), time.Now()) {
		sleepUntil(due)
		l := look{at: time.Now()}
		count, err := d.sink.Count()
		if err != nil {
			return looks, err
		}
		l.healthy = count.Packets
		if l.second, err = r.egress.delivered(); err != nil {
			return looks, err
		}
		looks = append(looks, l)
	}
	return looks, nil
}

// evaluate computes the figures; the egress was told to stick at stuck.
func (t *StuckTrial) evaluate(looks []look, stuck time.Time) error {
	free, ok := freeAt(looks, stuck)
	if !ok {
		return fmt.Errorf("the egress was not free again in %d looks", len(looks))
	}
	before, while, after := between(looks, time.Time{}, stuck), between(looks, stuck, free), between(looks, free, time.Time{})
	if len(before) < 2 || len(while) < 2 || len(after) < 2 {
		return fmt.Errorf("%d, %d and %d looks at the counters before, while and after the egress was stuck", len(before), len(while), len(after))
	}
	t.Healthy, t.Second = ratesOf(before)
	t.While, _ = ratesOf(while)
	for i, phase := range [][]look{before, while, after} {
		t.Pauses[i] = milliseconds(longestPause(phase))
	}
	for i := 1; i < len(looks); i++ {
		t.Blind = max(t.Blind, milliseconds(looks[i].at.Sub(looks[i-1].at)))
	}
	t.Recovery = -1
	if at, ok := backAt(after, t.Healthy, t.Second); ok {
		t.Recovery = milliseconds(at.Sub(free))
	}
	last := looks[0]
	for _, l := range looks {
		if l.at.Sub(last.at) >= stepBin {
			t.Bins = append(t.Bins, StuckBin{At: milliseconds(l.at.Sub(stuck)), Healthy: l.healthy - last.healthy, Second: l.second - last.second})
			last = l
		}
	}
	return nil
}

// freeAt is the last look that saw the egress stuck, after the longest time in which it delivered nothing.
func freeAt(looks []look, stuck time.Time) (at time.Time, ok bool) {
	var longest time.Duration
	moved := -1
	for i, l := range looks {
		switch {
		case l.at.Before(stuck):
		case moved < 0:
			moved = i
		case l.second > looks[moved].second:
			if silent := l.at.Sub(looks[moved].at); silent > longest {
				longest, at, ok = silent, looks[i-1].at, true
			}
			moved = i
		}
	}
	return at, ok && longest >= stuckLet
}

// between are the looks from one time to another; zero times do not bound.
func between(looks []look, from, to time.Time) (list []look) {
	for _, l := range looks {
		if !l.at.Before(from) && (to.IsZero() || !l.at.After(to)) {
			list = append(list, l)
		}
	}
	return list
}

// ratesOf are packets per second.
func ratesOf(looks []look) (healthy, second float64) {
	first, last := looks[0], looks[len(looks)-1]
	seconds := last.at.Sub(first.at).Seconds()
	return float64(last.healthy-first.healthy) / seconds, float64(last.second-first.second) / seconds
}

// longestPause is the longest time in which the healthy egress delivered nothing: from the look that saw the last packet before to the
// last one that saw none.
func longestPause(looks []look) (longest time.Duration) {
	moved := 0
	for i := range looks {
		if looks[i].healthy > looks[moved].healthy {
			moved = i
		}
		longest = max(longest, looks[i].at.Sub(looks[moved].at))
	}
	return longest
}

const (
	// backWindows in a row, each of backWindow, at backPart of the rate before are a recovery. What was queued comes out within the first.
	backWindows = 3
	backWindow  = 10 * time.Millisecond
	backPart    = 0.9
)

// backAt is when both egresses deliver as before.
func backAt(looks []look, healthy, second float64) (time.Time, bool) {
	for i, from := range looks {
		good, start := 0, from
		for _, l := range looks[i:] {
			if l.at.Sub(start.at) < backWindow {
				continue
			}
			h, s := ratesOf([]look{start, l})
			if h < backPart*healthy || s < backPart*second {
				break
			}
			if good++; good == backWindows {
				return from.at, true
			}
			start = l
		}
	}
	return time.Time{}, false
}

// writeStuck writes, for a person, the medians and the worst.
func (r FeedbackResult) writeStuck(w io.Writer) {
	if len(r.Stuck) == 0 {
		return
	}
	fmt.Fprintf(w, "the second egress sticks for %s: pauses of the healthy one in ms, median (min–max)\n", stuckFor)
	fmt.Fprintf(w, "%-11s %-9s %-6s %8s %13s %20s %20s %20s %9s %24s\n", "placement", "variant", "rate", "healthy", "while stuck",
		"pause before", "while stuck", "after", "blind ms", "both are back after, ms")
	for _, p := range Placements {
		for _, variant := range []string{variantFeedback, variantWithout} {
			var healthy, while, blind, recovery []float64
			var pauses [3][]float64
			never, rate := 0, ""
			for _, t := range r.Stuck {
				if t.Placement != p || t.Variant != variant {
					continue
				}
				rate = t.Rate
				healthy, while, blind = append(healthy, t.Healthy), append(while, t.While), append(blind, t.Blind)
				for i := range pauses {
					pauses[i] = append(pauses[i], t.Pauses[i])
				}
				if t.Recovery < 0 {
					never++
				} else {
					recovery = append(recovery, t.Recovery)
				}
			}
			if len(healthy) == 0 {
				continue
			}
			back := "never"
			if len(recovery) > 0 {
				back = spreadOf(recovery).micros()
			}
			if never > 0 {
				back += fmt.Sprintf(", not in %d of %d", never, len(healthy))
			}
			fmt.Fprintf(w, "%-11s %-9s %-6s %8.3f %13.3f %20s %20s %20s %9.1f %24s\n", p, variant, rate, spreadOf(healthy).Median/1e6,
				spreadOf(while).Median/1e6, spreadOf(pauses[0]).micros(), spreadOf(pauses[1]).micros(), spreadOf(pauses[2]).micros(),
				spreadOf(blind).Max, back)
		}
	}
}

// WriteStuckCSV writes the milliseconds of the trials in which the second egress sticks.
func (r FeedbackResult) WriteStuckCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"placement", "variant", "number", "ms", "healthy", "second"}) // Flush tells
	for _, t := range r.Stuck {
		for _, b := range t.Bins {
			_ = c.Write([]string{
				string(t.Placement), t.Variant, fmt.Sprint(t.Number), fmt.Sprintf("%.3f", b.At), fmt.Sprint(b.Healthy), fmt.Sprint(b.Second),
			})
		}
	}
	c.Flush()
	return c.Error()
}
