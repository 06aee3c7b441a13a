package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// FeedbackSetting is one point of the surface.
type FeedbackSetting struct {
	High    float64       `json:"high_percent"` // of what the queue holds
	Low     float64       `json:"low_percent"`
	Timeout time.Duration `json:"timeout_ns"`
	Backlog int           `json:"backlog"` // frames behind the TX ring, a power of two
}

// DefaultSettings are the surface: marks by timeout by backlog.
func DefaultSettings() (list []FeedbackSetting) {
	for _, marks := range [][2]float64{{50, 12}, {75, 25}, {95, 80}} {
		for _, timeout := range []time.Duration{100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
			for _, backlog := range []int{64, 1024, 4096} {
				list = append(list, FeedbackSetting{High: marks[0], Low: marks[1], Timeout: timeout, Backlog: backlog})
			}
		}
	}
	return list
}

// args set it.
func (s FeedbackSetting) args() []string {
	percent := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) + "%" }
	return []string{
		"--set", "poller.feedback.high=" + percent(s.High), "--set", "poller.feedback.low=" + percent(s.Low),
		"--set", "poller.feedback.timeout=" + s.Timeout.String(), "--set", "rings.backlog=" + strconv.Itoa(s.Backlog),
	}
}

// String is how a table calls it.
func (s FeedbackSetting) String() string {
	return fmt.Sprintf("high %g %%, low %g %%, timeout %s, backlog %d", s.High, s.Low, s.Timeout, s.Backlog)
}

// SurfaceTrial is one trial of a setting, the second egress being slow.
type SurfaceTrial struct {
	FeedbackTrial
	Setting FeedbackSetting `json:"setting"`
	// Delays of frames through each egress, from when the generator was due to send them to their arrival, in µs; 0 when none came.
	HealthyMedian float64 `json:"healthy_median_us"`
	HealthyP99    float64 `json:"healthy_p99_us"`
	SecondMedian  float64 `json:"second_median_us"`
	SecondP99     float64 `json:"second_p99_us"`
}

const (
	// healthySample and secondSample are one in how many frames is timed.
	healthySample, secondSample = 256, 16
)

func (r *feedbackRun) surface(ctx context.Context, placement Placement, p Point, tell func(string)) error {
	for n := range r.Trials {
		for i, setting := range r.Settings {
			tell(fmt.Sprintf("%s at %s, setting %d of %d, trial %d of %d", setting, p, i+1, len(r.Settings), n+1, r.Trials))
			var last SurfaceTrial
			_, err := untilValid(n+1, func() (_ Trial, err error) {
				last, err = r.surfaceTrial(ctx, placement, setting, p)
				return last.Trial, err
			}, func(t Trial) error {
				last.Trial = t
				r.result.Surface = append(r.result.Surface, last)
				return nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *feedbackRun) surfaceTrial(ctx context.Context, placement Placement, setting FeedbackSetting, p Point) (t SurfaceTrial, err error) {
	t.Setting = setting
	healthy, err := newTap(r.setup.rig.Sink, "s0", sampled(healthySample))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, healthy.close()) }()
	second, err := newTap(r.setup.rig.Sink, slowPeer, sampled(secondSample))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, second.close()) }()
	r.setup.rig.traffic = toBoth
	var delays [2][]time.Duration
	read := func() (err error) {
		for i, tap := range []*tap{healthy, second} {
			delays[i], err = tap.readDelays()
			if err != nil {
				return err
			}
		}
		return nil
	}
	t.FeedbackTrial, err = r.measure(ctx, placement, r.Feedback.weir("weir", setting.args()...), EgressSlow, p, func() (func() error, error) {
		return read, read() // what came during the warm-up is forgotten
	})
	t.Variant = variantFeedback
	for i := range delays {
		slices.Sort(delays[i])
	}
	t.HealthyMedian, t.HealthyP99 = micros(quantile(delays[0], 0.5)), micros(quantile(delays[0], 0.99))
	t.SecondMedian, t.SecondP99 = micros(quantile(delays[1], 0.5)), micros(quantile(delays[1], 0.99))
	return t, err
}

// SurfaceRow is a setting: medians over the valid trials.
type SurfaceRow struct {
	Placement  Placement       `json:"placement"`
	Setting    FeedbackSetting `json:"setting"`
	Trials     int             `json:"trials"`
	Healthy    Spread          `json:"healthy_pps"`
	Second     Spread          `json:"second_pps"`
	HealthyP99 Spread          `json:"healthy_p99_us"`
	SecondP99  Spread          `json:"second_p99_us"`
	Drops      string          `json:"drops"`
}

// SurfaceRows sums up the surface.
func (r FeedbackResult) SurfaceRows() (rows []SurfaceRow) {
	for _, first := range r.Surface {
		if slices.ContainsFunc(rows, func(row SurfaceRow) bool { return row.Placement == first.Placement && row.Setting == first.Setting }) {
			continue
		}
		row := SurfaceRow{Placement: first.Placement, Setting: first.Setting}
		var healthy, second, healthyP99, secondP99 []float64
		for _, t := range r.Surface {
			if t.Placement != row.Placement || t.Setting != row.Setting || !t.Valid() {
				continue
			}
			healthy, second = append(healthy, t.Delivered), append(second, t.Second)
			healthyP99, secondP99 = append(healthyP99, t.HealthyP99), append(secondP99, t.SecondP99)
			row.Drops = largestDrops(t.Drops, 3)
		}
		row.Trials = len(healthy)
		row.Healthy, row.Second = spreadOf(healthy), spreadOf(second)
		row.HealthyP99, row.SecondP99 = spreadOf(healthyP99), spreadOf(secondP99)
		rows = append(rows, row)
	}
	return rows
}

// What a setting may cost to be recommended: its delivered, both egresses together, as a part of the best, and its 99th percentile
// through the healthy egress by the least among those.
const (
	recommendDelivered = 0.97
	recommendDelay     = 1.25
)

// recommend chooses the setting with the least 99th percentile through the slow egress among those that cost the healthy one nothing;
// false when there is none.
func recommend(rows []SurfaceRow) (best SurfaceRow, ok bool) {
	total := func(r SurfaceRow) float64 { return r.Healthy.Median + r.Second.Median }
	var most, least float64
	for _, r := range rows {
		if r.Trials > 0 {
			most = max(most, total(r))
		}
	}
	good := func(r SurfaceRow) bool { return r.Trials > 0 && total(r) >= recommendDelivered*most }
	for _, r := range rows {
		if good(r) && (least == 0 || r.HealthyP99.Median < least) {
			least = r.HealthyP99.Median
		}
	}
	for _, r := range rows {
		if !good(r) || r.HealthyP99.Median > recommendDelay*least {
			continue
		}
		if !ok || r.SecondP99.Median < best.SecondP99.Median {
			best, ok = r, true
		}
	}
	return best, ok
}

// writeSurface writes, for a person, the surface and what it recommends.
func (r FeedbackResult) writeSurface(w io.Writer) {
	rows := r.SurfaceRows()
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(w, "feedback with a slow second egress; 99th percentiles in µs, median (min–max)\n%-11s %5s %5s %8s %8s %22s %8s %26s %28s %6s  %s\n",
		"placement", "high", "low", "timeout", "backlog", "healthy Mpps", "second", "healthy 99 %", "second 99 %", "trials", "largest drops per second")
	for _, row := range rows {
		s := row.Setting
		fmt.Fprintf(w, "%-11s %5g %5g %8s %8d %22s %8.3f %26s %28s %6d  %s\n", row.Placement, s.High, s.Low, s.Timeout, s.Backlog, mpps(row.Healthy),
			row.Second.Median/1e6, row.HealthyP99.micros(), row.SecondP99.micros(), row.Trials, row.Drops)
	}
	for _, p := range Placements {
		var of []SurfaceRow
		for _, row := range rows {
			if row.Placement == p {
				of = append(of, row)
			}
		}
		if best, ok := recommend(of); ok {
			fmt.Fprintf(w, "%s: recommended: %s (of those that deliver %.0f %% of the best, within %.2f of the least 99 %% through the healthy egress, the least through the slow one)\n",
				p, best.Setting, 100*recommendDelivered, recommendDelay)
		}
	}
}

// WriteSurfaceCSV writes the trials of the surface, one line each.
func (r FeedbackResult) WriteSurfaceCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"placement", "high_percent", "low_percent", "timeout_us", "backlog", "number", "attempt", "offered_pps", "healthy_pps",
		"second_pps", "healthy_median_us", "healthy_p99_us", "second_median_us", "second_p99_us", "drops_pps", "invalid"}) // Flush tells
	float := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
	for _, t := range r.Surface {
		s := t.Setting
		_ = c.Write([]string{
			string(t.Placement), float(s.High), float(s.Low), fmt.Sprint(s.Timeout.Microseconds()), fmt.Sprint(s.Backlog), fmt.Sprint(t.Number),
			fmt.Sprint(t.Attempt), float(t.Offered), float(t.Delivered), float(t.Second), float(t.HealthyMedian), float(t.HealthyP99),
			float(t.SecondMedian), float(t.SecondP99), largestDrops(t.Drops, len(t.Drops)), t.Invalid,
		})
	}
	c.Flush()
	return c.Error()
}
