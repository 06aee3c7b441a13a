package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Latency measures how long a request and its answer take through devices at a load they can bear, in turns.
type Latency struct {
	Placements []Placement
	// DUTs are compared; the ratios are to the last.
	DUTs []DUT
	// Load is the load beside the echoes; a multiple is of the first device's MLFRR in the placement.
	Load      Point
	Trials    int
	WarmUp    time.Duration
	Duration  time.Duration
	MaxOthers float64
	Progress  func(line string) // nil for nobody
}

// LatencyResult is what a Latency measured.
type LatencyResult struct {
	Machine Machine        `json:"machine"`
	MLFRRs  []MLFRR        `json:"mlfrr,omitempty"`
	Trials  []LatencyTrial `json:"trials"`
}

// Run builds the rig, measures and removes the rig. It returns what it has measured also when it fails or ctx ends.
func (l Latency) Run(ctx context.Context) (result LatencyResult, err error) {
	rig, err := NewRig(1)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	s := setup{rig: rig, warmUp: l.WarmUp, measured: l.Duration, maxOthers: l.MaxOthers}
	for _, placement := range l.Placements {
		tell := teller(l.Progress, string(placement)+": ")
		load, err := s.load(ctx, l.Load, l.DUTs[0], placement, &result.MLFRRs, tell)
		if err != nil {
			return result, err
		}
		for n := range l.Trials {
			for _, dut := range l.DUTs {
				tell(fmt.Sprintf("latency of %s at %s, trial %d of %d", dut.Name, load, n+1, l.Trials))
				var last LatencyTrial
				_, err := untilValid(n+1, func() (_ Trial, err error) {
					last, err = s.echo(ctx, dut, placement, load)
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

// load resolves a rate, searching the MLFRR of the device when it depends on that.
func (s setup) load(ctx context.Context, p Point, dut DUT, placement Placement, found *[]MLFRR, tell func(string)) (Point, error) {
	if p.Multiple == 0 {
		return p, nil
	}
	for _, m := range *found {
		if m.Placement == placement {
			return p.at(m.PPS), nil
		}
	}
	m, err := s.findMLFRR(ctx, dut, placement, tell)
	*found = append(*found, m)
	return p.at(m.PPS), err
}

// teller puts a prefix before what progress is told.
func teller(progress func(string), prefix string) func(string) {
	return func(line string) {
		if progress != nil {
			progress(prefix + line)
		}
	}
}

// of lists the valid trials of a device in a placement.
func (r LatencyResult) of(p Placement, dut string) (list []LatencyTrial) {
	for _, t := range r.Trials {
		if t.Placement == p && t.DUT == dut && t.Valid() {
			list = append(list, t)
		}
	}
	return list
}

// ratioOf is the median, over the numbers at which both have a valid trial, of a's figure by b's.
func ratioOf(a, b []LatencyTrial, figure func(LatencyTrial) float64) float64 {
	var ratios []float64
	for _, t := range a {
		i := slices.IndexFunc(b, func(o LatencyTrial) bool { return o.Number == t.Number })
		if i >= 0 && figure(b[i]) > 0 {
			ratios = append(ratios, figure(t)/figure(b[i]))
		}
	}
	slices.Sort(ratios)
	return median(ratios)
}

// WriteTable writes, for a person, medians and 99th percentiles with their spread over the trials.
func (r LatencyResult) WriteTable(w io.Writer) {
	for _, p := range Placements {
		var names []string
		load := ""
		for _, t := range r.Trials {
			if t.Placement == p && !slices.Contains(names, t.DUT) {
				names = append(names, t.DUT)
				load = fmt.Sprintf("%s packets per second beside the echoes", cmp.Or(askedRate(t.Trial), t.Rate))
			}
		}
		if len(names) == 0 {
			continue
		}
		fmt.Fprintf(w, "placement %s, %s\n%-36s %26s %26s %9s %6s\n", p, load, "device", "median µs", "99 % µs", "no echo", "trials")
		for _, name := range names {
			trials := r.of(p, name)
			if len(trials) == 0 {
				fmt.Fprintf(w, "%-36s void: others used the CPUs in every trial\n", name)
				continue
			}
			var medians, highs []float64
			var echoes Count
			for _, t := range trials {
				medians, highs, echoes = append(medians, t.Median), append(highs, t.P99), echoes.add(t.Echoes)
			}
			fmt.Fprintf(w, "%-36s %26s %26s %7.2f %% %6d\n", name, spreadOf(medians).micros(), spreadOf(highs).micros(), 100*echoes.Lost(), len(trials))
		}
		last := names[len(names)-1]
		for _, name := range names[:len(names)-1] {
			a, b := r.of(p, name), r.of(p, last)
			fmt.Fprintf(w, "%s by %s: median %.2f, 99 %% %.2f\n", name, last,
				ratioOf(a, b, func(t LatencyTrial) float64 { return t.Median }), ratioOf(a, b, func(t LatencyTrial) float64 { return t.P99 }))
		}
		fmt.Fprintln(w)
	}
}

// askedRate is a trial's rate in figures, empty when it was as fast as the generator goes.
func askedRate(t Trial) string {
	if t.Asked == 0 {
		return ""
	}
	return formatRate(float64(t.Asked))
}

func (s Spread) micros() string { return fmt.Sprintf("%.1f (%.1f–%.1f)", s.Median, s.Min, s.Max) }

// WriteJSON writes everything.
func (r LatencyResult) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
