package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Overload compares devices under test on one rig: each in turn at the same rate, Trials times round, so that a drift of the machine
// meets all of them alike.
type Overload struct {
	DUTs     []DUT
	Rate     uint64 // packets per second; 0 is as fast as the generator goes
	Trials   int
	Duration time.Duration // measured time of each trial
	// Progress takes a line for each trial; nil for none.
	Progress io.Writer
}

// Result is what an Overload measured.
type Result struct {
	Trials []Trial `json:"trials"`
}

// Run builds the rig, measures and removes the rig.
func (o Overload) Run(ctx context.Context) (_ Result, err error) {
	var result Result
	rig, err := NewRig(1)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	for n := range o.Trials {
		for _, d := range o.DUTs {
			for attempt := range maxVoid {
				trial, err := measure(ctx, rig, d, o.Rate, o.Duration)
				if err != nil {
					return result, err
				}
				result.Trials = append(result.Trials, trial)
				o.report(fmt.Sprintf("trial %d of %d", n+1, o.Trials), trial)
				if !trial.Void || attempt == maxVoid-1 {
					break
				}
			}
		}
	}
	return result, nil
}

// report tells of one trial.
func (o Overload) report(which string, t Trial) {
	if o.Progress == nil {
		return
	}
	void := ""
	if t.Void {
		void = fmt.Sprintf(": void, others took %.0f %% of the CPU", 100*t.Foreign)
	}
	fmt.Fprintf(o.Progress, "%s: %-32s offered %.3f Mpps, delivered %.3f Mpps%s\n", which, t.DUT, t.Offered/1e6, t.Delivered/1e6, void)
}

// valid lists the trials of a device that count.
func (r Result) valid(dut string) []Trial {
	var list []Trial
	for _, t := range r.Trials {
		if t.DUT == dut && !t.Void {
			list = append(list, t)
		}
	}
	return list
}

// names lists the devices in the order of their first trial.
func (r Result) names() []string {
	var names []string
	for _, t := range r.Trials {
		if !slices.Contains(names, t.DUT) {
			names = append(names, t.DUT)
		}
	}
	return names
}

// values collects one figure of a device's valid trials, sorted.
func (r Result) values(dut string, figure func(Trial) float64) []float64 {
	var v []float64
	for _, t := range r.valid(dut) {
		v = append(v, figure(t))
	}
	slices.Sort(v)
	return v
}

// median of sorted values; the mean of the middle two when their number is even.
func median(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Ratio is the median over rounds of trials of delivered(a)/delivered(b): each pair was measured one after the other.
func (r Result) Ratio(a, b string) float64 {
	as, bs := r.valid(a), r.valid(b)
	var ratios []float64
	for i := range min(len(as), len(bs)) {
		ratios = append(ratios, as[i].Delivered/bs[i].Delivered)
	}
	slices.Sort(ratios)
	return median(ratios)
}

// WriteTable prints medians with their spread, for a person.
func (r Result) WriteTable(w io.Writer) {
	fmt.Fprintf(w, "%-34s %26s %26s %10s %10s %8s\n", "", "offered Mpps (min–max)", "delivered Mpps (min–max)", "user CPU", "sys CPU", "of first")
	names := r.names()
	for _, name := range names {
		offered := r.values(name, func(t Trial) float64 { return t.Offered / 1e6 })
		delivered := r.values(name, func(t Trial) float64 { return t.Delivered / 1e6 })
		fmt.Fprintf(w, "%-34s %26s %26s %9.1f%% %9.1f%% %8.2f\n", name, spread(offered), spread(delivered),
			100*median(r.values(name, func(t Trial) float64 { return t.User })),
			100*median(r.values(name, func(t Trial) float64 { return t.System })),
			r.Ratio(name, names[0]))
	}
}

func spread(v []float64) string {
	if len(v) == 0 {
		return "no valid trial"
	}
	return fmt.Sprintf("%.3f (%.3f–%.3f)", median(v), v[0], v[len(v)-1])
}

// WriteJSON prints every trial.
func (r Result) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
