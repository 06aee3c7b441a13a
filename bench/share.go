package bench

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"weir/engine"
)

// Share runs a process that wants all of the forwarder's CPU beside weir, with its CPU share limited: does the process get the rest?
type Share struct {
	Placement Placement
	Args      []string  // of every weir
	Limits    []float64 // percent; 100 is the control experiment
	Points    []Point   // multiples of weir's MLFRR without a limit
	Means     []string  // of poller.ownership
	V6        []bool
	Sizes     []int // of frames, without FCS; below the least of the family is the least
	Trials    int
	WarmUp    time.Duration
	Duration  time.Duration
	MaxOthers float64
	// Hog and Beats are what is measured: the share of the process, and what becomes of light traffic at BeatLimit and BeatPoint.
	Hog, Beats bool
	BeatLimit  float64
	BeatPoint  Point
	Progress   func(line string)
}

// ShareResult is what a Share measured.
type ShareResult struct {
	Machine Machine      `json:"machine"`
	MLFRRs  []ShareMLFRR `json:"mlfrr,omitempty"`
	// WorkPerSecond is what the process does when it has the CPU for itself.
	WorkPerSecond float64      `json:"work_per_second"`
	Trials        []ShareTrial `json:"trials,omitempty"`
	Beats         []BeatTrial  `json:"beats,omitempty"`
}

// ShareLoad is what is sent, and how receive work is owned.
type ShareLoad struct {
	Means string `json:"means"`
	V6    bool   `json:"v6"`
	Size  int    `json:"size"`
}

// String is how a table calls it.
func (l ShareLoad) String() string {
	family := "v4"
	if l.V6 {
		family = "v6"
	}
	return fmt.Sprintf("%s %s %d", l.Means, family, l.Size)
}

// traffic is what the generator sends.
func (l ShareLoad) traffic() traffic { return traffic{size: l.Size, v6: l.V6} }

// ShareMLFRR is the MLFRR of weir with such a load and no limit.
type ShareMLFRR struct {
	MLFRR
	ShareLoad
}

// ShareTrial is one trial.
type ShareTrial struct {
	Trial
	ShareLoad
	Limit float64 `json:"limit_percent"`
	// Hog is the part of a second that the process ran, by its CPU clock, and Work the work it did as a part of what it does alone. The
	// clock counts what interrupts the process as well; the work does not.
	Hog  float64 `json:"hog"`
	Work float64 `json:"hog_work"`
	// Used and Asleep are weir's own account, in CPUs: charged, and asleep because the share was used up.
	Used   float64 `json:"used"`
	Asleep float64 `json:"asleep"`
	// Owned are the means in force at the end for in0, empty when the receive work was not owned.
	Owned string `json:"owned"`
	// Drops are packets per second by weir's reason.
	Drops map[string]float64 `json:"drops_pps"`
}

// Error is what the process got more than the limit leaves, in points.
func (t ShareTrial) Error() float64 { return 100*t.Hog - (100 - t.Limit) }

type shareRun struct {
	Share
	setup  setup
	result *ShareResult
	began  time.Time
}

// Run builds the rig, measures and removes the rig. It returns what it has measured also when it fails or ctx ends.
func (s Share) Run(ctx context.Context) (result ShareResult, err error) {
	rig, err := NewRig(1)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	r := shareRun{
		Share: s, setup: setup{rig: rig, warmUp: s.WarmUp, measured: s.Duration, maxOthers: s.MaxOthers}, result: &result, began: time.Now(),
	}
	if result.WorkPerSecond, err = r.workAlone(ctx); err != nil {
		return result, err
	}
	for _, load := range s.loads() {
		if err := r.load(ctx, load); err != nil {
			return result, err
		}
	}
	return result, nil
}

// loads are the combinations asked for.
func (s Share) loads() (loads []ShareLoad) {
	for _, means := range s.Means {
		for _, v6 := range s.V6 {
			for _, size := range s.Sizes {
				if v6 {
					size = max(size, leastSize6)
				}
				loads = append(loads, ShareLoad{means, v6, size})
			}
		}
	}
	return loads
}

// aloneTime is how long the process is measured alone.
const aloneTime = 500 * time.Millisecond

// workAlone is what the process does in a second of CPU time.
func (r *shareRun) workAlone(ctx context.Context) (perSecond float64, err error) {
	h, err := startHog(ctx, r.setup.rig.Router)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	first, err := h.read()
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, aloneTime); err != nil {
		return 0, err
	}
	second, err := h.read()
	ran := (second.cpu - first.cpu).Seconds()
	if err == nil && ran <= 0 {
		err = errors.New("the process that spins did not run")
	}
	return float64(second.work-first.work) / ran, err
}

// dut is weir with a limit.
func (s Share) dut(load ShareLoad, limit float64) DUT {
	d := DUTWeir(fmt.Sprintf("weir %g %%", limit), slices.Concat(s.Args, []string{
		"--set", "poller.nice=-20", "--set", fmt.Sprintf("poller.cpu_share.limit=%g%%", limit), "--set", "poller.ownership=" + load.Means,
	})...)
	if limit >= 100 {
		return d.AsControl()
	}
	return d
}

func (r *shareRun) load(ctx context.Context, load ShareLoad) error {
	r.setup.rig.traffic = load.traffic()
	tell := teller(r.Progress, load.String()+": ")
	var mlfrr uint64
	if r.Hog && relative(r.Points) || r.Beats && relative([]Point{r.BeatPoint}) {
		m, err := r.setup.findMLFRR(ctx, r.dut(load, 100), r.Placement, tell)
		r.result.MLFRRs = append(r.result.MLFRRs, ShareMLFRR{m, load})
		if err != nil {
			return err
		}
		mlfrr = m.PPS
	}
	if r.Hog {
		if err := r.hogs(ctx, load, mlfrr, tell); err != nil {
			return err
		}
	}
	if !r.Beats {
		return nil
	}
	for n := range r.Trials {
		tell(fmt.Sprintf("light traffic at a limit of %g %%, flood %s, trial %d of %d", r.BeatLimit, r.BeatPoint, n+1, r.Trials))
		if err := r.beats(ctx, load, r.BeatPoint.at(mlfrr), n+1); err != nil {
			return err
		}
	}
	return nil
}

func (r *shareRun) hogs(ctx context.Context, load ShareLoad, mlfrr uint64, tell func(string)) error {
	for _, point := range r.Points {
		point = point.at(mlfrr)
		unreached := map[float64]bool{}
		for n := range r.Trials {
			for _, limit := range r.Limits {
				if unreached[limit] {
					continue
				}
				tell(fmt.Sprintf("limit %g %% at %s, trial %d of %d, %s", limit, point, n+1, r.Trials, time.Since(r.began).Round(time.Second)))
				var last ShareTrial
				t, err := untilValid(n+1, func() (_ Trial, err error) {
					last, err = r.hogTrial(ctx, load, limit, point, nil)
					return last.Trial, err
				}, func(t Trial) error {
					last.Trial = t
					r.result.Trials = append(r.result.Trials, last)
					return nil
				})
				if err != nil {
					return err
				}
				unreached[limit] = t.Missed && n == 0
			}
		}
	}
	return nil
}

// hogTrial floods weir with the process beside it; beside goes on during the measured time, nil for nothing.
func (r *shareRun) hogTrial(ctx context.Context, load ShareLoad, limit float64, p Point, beside func() (func() error, error)) (t ShareTrial, err error) {
	t.ShareLoad, t.Limit = load, limit
	d, err := install(ctx, r.setup.rig, r.dut(load, limit), r.Placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	h, err := startHog(ctx, r.setup.rig.Router)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, h.stop()) }()
	d.beside = h.pid()
	same, err := sameGroup(h.pid(), d.running.pid)
	if err != nil {
		return t, err
	}
	if !same {
		return t, errors.New("weir and the process that spins are not in one scheduling group")
	}
	t.Trial, err = r.setup.measure(ctx, d, p, func() (func() error, error) {
		first, err := d.running.stats(ctx)
		if err != nil {
			return nil, err
		}
		end := nothing
		if beside != nil {
			if end, err = beside(); err != nil {
				return nil, err
			}
		}
		began := time.Now()
		before, err := h.read()
		return func() error {
			after, err := h.read()
			if err = errors.Join(err, end()); err != nil {
				return err
			}
			second, err := d.running.stats(ctx)
			if err != nil {
				return err
			}
			t.Hog, t.Work = after.since(before, r.result.WorkPerSecond)
			t.account(first, second, time.Since(began).Seconds())
			return nil
		}, err
	})
	return t, err
}

// account takes weir's own figures.
func (t *ShareTrial) account(first, second engine.Stats, seconds float64) {
	for i, w := range second.Workers {
		if i < len(first.Workers) && seconds > 0 {
			before := first.Workers[i].Share
			t.Used += float64(w.Share.UsedNS-before.UsedNS) / 1e9 / seconds
			t.Asleep += float64(w.Share.AsleepNS-before.AsleepNS) / 1e9 / seconds
		}
	}
	t.Drops = dropsBetween(first, second, seconds)
	for _, o := range second.Ownership {
		if o.Port == inPort && o.Owned {
			t.Owned = o.Means
		}
	}
}

// ShareRow is one line of the table: medians over the valid trials.
type ShareRow struct {
	ShareLoad
	Rate      string  `json:"rate"`
	Limit     float64 `json:"limit_percent"`
	Trials    int     `json:"trials"`
	Offered   Spread  `json:"offered_pps"`
	Delivered Spread  `json:"delivered_pps"`
	Hog       Spread  `json:"hog"`
	Work      Spread  `json:"hog_work"`
	Used      Spread  `json:"used"`
	Asleep    Spread  `json:"asleep"`
	Owned     string  `json:"owned"`
	// Error is the one of the trials farthest from 0, in points.
	Error float64 `json:"error_points"`
}

// Rows sums up the trials.
func (r ShareResult) Rows() (rows []ShareRow) {
	same := func(row ShareRow, t ShareTrial) bool {
		return row.ShareLoad == t.ShareLoad && row.Rate == t.Rate && row.Limit == t.Limit
	}
	for _, first := range r.Trials {
		if slices.ContainsFunc(rows, func(row ShareRow) bool { return same(row, first) }) {
			continue
		}
		row := ShareRow{ShareLoad: first.ShareLoad, Rate: first.Rate, Limit: first.Limit}
		var offered, delivered, hog, work, used, asleep []float64
		for _, t := range r.Trials {
			if !same(row, t) || !t.Valid() {
				continue
			}
			offered, delivered = append(offered, t.Offered), append(delivered, t.Delivered)
			hog, work, used, asleep = append(hog, t.Hog), append(work, t.Work), append(used, t.Used), append(asleep, t.Asleep)
			row.Owned = t.Owned
			if math.Abs(t.Error()) > math.Abs(row.Error) {
				row.Error = t.Error()
			}
		}
		row.Trials = len(hog)
		row.Offered, row.Delivered, row.Hog, row.Work = spreadOf(offered), spreadOf(delivered), spreadOf(hog), spreadOf(work)
		row.Used, row.Asleep = spreadOf(used), spreadOf(asleep)
		rows = append(rows, row)
	}
	return rows
}

// wantPoints is how far from what the limit leaves the process may be.
const wantPoints = 2

// WriteTable writes everything for a person.
func (r ShareResult) WriteTable(w io.Writer) {
	for _, m := range r.MLFRRs {
		fmt.Fprintf(w, "%s: MLFRR without a limit %s packets per second\n", m.ShareLoad, formatRate(float64(m.PPS)))
	}
	rows := r.Rows()
	if len(rows) > 0 {
		fmt.Fprintf(w, "the process beside weir, in percent of the CPU\n%-18s %-6s %6s %8s %20s %8s %20s %6s %6s %6s %-8s %6s\n", "means, load", "rate", "limit",
			"offered", "process (min–max)", "error", "delivered Mpps", "work", "used", "asleep", "owned", "trials")
	}
	worst, limited, bad := 0., 0, 0
	for _, row := range rows {
		if row.Trials == 0 {
			fmt.Fprintf(w, "%-18s %-6s %4g %%  void: the rate was not reached, or others used the CPUs, in every trial\n", row.ShareLoad, row.Rate, row.Limit)
			continue
		}
		fmt.Fprintf(w, "%-18s %-6s %4g %% %8.3f %20s %+8.1f %20s %6.1f %6.1f %6.1f %-8s %6d\n", row.ShareLoad, row.Rate, row.Limit, row.Offered.Median/1e6,
			fmt.Sprintf("%.1f (%.1f–%.1f)", 100*row.Hog.Median, 100*row.Hog.Min, 100*row.Hog.Max), row.Error, mpps(row.Delivered), 100*row.Work.Median,
			100*row.Used.Median, 100*row.Asleep.Median, cmp.Or(row.Owned, "no"), row.Trials)
		if row.Limit < 100 {
			limited++
			worst = max(worst, math.Abs(row.Error))
			if math.Abs(row.Error) > wantPoints {
				bad++
			}
		}
	}
	if limited > 0 {
		verdict := "HOLDS"
		if bad > 0 {
			verdict = fmt.Sprintf("FAILS in %d of %d lines", bad, limited)
		}
		fmt.Fprintf(w, "%s: the process is at worst %.1f points from what the limit leaves (wanted %d)\n", verdict, worst, wantPoints)
	}
	r.writeBeats(w)
}

// WriteCSV writes the trials with the process, one line each.
func (r ShareResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"means", "v6", "size", "rate", "limit_percent", "number", "attempt", "asked_pps", "offered_pps", "delivered_pps", "hog",
		"hog_work", "used", "asleep", "owned", "invalid"}) // Flush tells
	for _, t := range r.Trials {
		_ = c.Write([]string{
			t.Means, fmt.Sprint(t.V6), fmt.Sprint(t.Size), t.Rate, fmt.Sprint(t.Limit), fmt.Sprint(t.Number), fmt.Sprint(t.Attempt), fmt.Sprint(t.Asked),
			fmt.Sprintf("%.0f", t.Offered), fmt.Sprintf("%.0f", t.Delivered), fmt.Sprintf("%.4f", t.Hog), fmt.Sprintf("%.4f", t.Work),
			fmt.Sprintf("%.4f", t.Used), fmt.Sprintf("%.4f", t.Asleep), t.Owned, t.Invalid,
		})
	}
	c.Flush()
	return c.Error()
}

// WriteJSON writes everything.
func (r ShareResult) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		ShareResult
		Rows []ShareRow `json:"rows,omitempty"`
	}{r, r.Rows()})
}
