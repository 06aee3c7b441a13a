package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/engine"
)

// Feedback sends to two egresses in turn, of which one is slow, stuck or down: what does the other keep?
//
//	alone     everything goes to the healthy egress
//	feedback  every other packet goes to the second egress
//	without   the same with poller.feedback=off
type Feedback struct {
	Placements []Placement
	// Args are those of every weir.
	Args []string
	// States of the second egress, each with its curves.
	States    []Egress
	Points    []Point // multiples of the MLFRR of weir with everything going to the healthy egress
	Trials    int
	WarmUp    time.Duration
	Duration  time.Duration
	MaxOthers float64
	// Curves, Stuck and Surface are what is measured: delivered over offered; what a moment's sticking does to the healthy egress; marks by
	// timeout by backlog.
	Curves, Stuck, Surface bool
	// SurfacePoint is the rate of Stuck and Surface.
	SurfacePoint Point
	// Settings are the points of the surface.
	Settings []FeedbackSetting
	Progress func(line string)
}

// The variants of a trial.
const (
	variantAlone    = "alone"
	variantFeedback = "feedback"
	variantWithout  = "without"
)

// FeedbackResult is what a Feedback measured.
type FeedbackResult struct {
	Machine Machine `json:"machine"`
	MLFRRs  []MLFRR `json:"mlfrr,omitempty"`
	// Slow are what a slow second egress was made to deliver in each placement, when everything goes there.
	Slow    []SlowEgress    `json:"slow,omitempty"`
	Trials  []FeedbackTrial `json:"trials,omitempty"`
	Stuck   []StuckTrial    `json:"stuck,omitempty"`
	Surface []SurfaceTrial  `json:"surface,omitempty"`
}

// FeedbackTrial is one trial of the curves. Its Delivered is of the healthy egress, its Lost is of all that was offered.
type FeedbackTrial struct {
	Trial
	Egress  Egress `json:"egress"`
	Variant string `json:"variant"`
	// Second is what the second egress delivered, packets per second.
	Second float64 `json:"second_pps"`
	// Drops are packets per second by weir's reason.
	Drops map[string]float64 `json:"drops_pps"`
}

// SlowEgress is a second egress after its calibration.
type SlowEgress struct {
	Placement Placement `json:"placement"`
	Wanted    float64   `json:"wanted_pps"`
	Delivered float64   `json:"delivered_pps"`
	// Pause is how long it takes nothing each time it has emptied its ring, in ms.
	Pause float64 `json:"pause_ms"`
}

// feedbackRun is a Feedback under way.
type feedbackRun struct {
	Feedback
	setup  setup
	egress *slowEgress
	result *FeedbackResult
	began  time.Time
}

// Run builds the rig, measures and removes the rig. It returns what it has measured also when it fails or ctx ends.
func (f Feedback) Run(ctx context.Context) (result FeedbackResult, err error) {
	rig, err := NewRig(1)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	egress, err := rig.addEgress()
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, egress.close()) }()
	r := feedbackRun{
		Feedback: f, setup: setup{rig: rig, warmUp: f.WarmUp, measured: f.Duration, maxOthers: f.MaxOthers}, egress: egress, result: &result,
		began: time.Now(),
	}
	for _, placement := range f.Placements {
		if err := r.placement(ctx, placement); err != nil {
			return result, err
		}
	}
	return result, nil
}

// weir is weir with both egresses.
func (f Feedback) weir(name string, args ...string) DUT {
	return DUTWeir(name, slices.Concat([]string{"--port", slowPort}, f.Args, args)...)
}

// dut is what a variant measures.
func (f Feedback) dut(variant string) DUT {
	if variant == variantWithout {
		return f.weir("weir poller.feedback=off", "--set", "poller.feedback=off").AsControl()
	}
	return f.weir("weir")
}

func (r *feedbackRun) placement(ctx context.Context, placement Placement) error {
	tell := teller(r.Progress, string(placement)+": ")
	r.setup.rig.traffic = toHealthy
	var m MLFRR
	if relative(r.Points) || relative([]Point{r.SurfacePoint}) {
		var err error
		m, err = r.setup.findMLFRR(ctx, r.dut(variantFeedback), placement, tell)
		r.result.MLFRRs = append(r.result.MLFRRs, m)
		if err != nil {
			return err
		}
	}
	if err := r.calibrate(ctx, placement, float64(m.PPS)*slowPart, tell); err != nil {
		return err
	}
	if r.Curves {
		for _, state := range r.States {
			if err := r.curves(ctx, placement, state, m.PPS, tell); err != nil {
				return err
			}
		}
	}
	if r.Stuck {
		if err := r.stuckTrials(ctx, placement, r.SurfacePoint.at(m.PPS), tell); err != nil {
			return err
		}
	}
	if r.Surface {
		return r.surface(ctx, placement, r.SurfacePoint.at(m.PPS), tell)
	}
	return nil
}

const (
	// slowPart is what a slow egress delivers, as a part of the MLFRR.
	slowPart = 0.1
	// calibrations is how often the slow egress is measured and corrected, calibrationTime how long each time.
	calibrations    = 3
	calibrationTime = 400 * time.Millisecond
)

// Where the flood of a variant goes.
var (
	toHealthy = traffic{first: healthyDst, number: 1}
	toBoth    = traffic{first: healthyDst, number: 2}
	toSecond  = traffic{first: slowDst, number: 1}
)

// calibrate makes a slow egress deliver want packets per second, nearly; with want 0, slowPart of what it delivers when it is free.
func (r *feedbackRun) calibrate(ctx context.Context, placement Placement, want float64, tell func(string)) (err error) {
	if !r.Surface && !(r.Curves && slices.Contains(r.States, EgressSlow)) {
		return nil
	}
	r.setup.rig.traffic = toSecond
	d, err := install(ctx, r.setup.rig, r.dut(variantFeedback), placement)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.egress.free(ctx), d.remove()) }()
	if want == 0 {
		delivered, err := r.secondDelivers(ctx, d)
		if err != nil {
			return err
		}
		want = slowPart * delivered
	}
	for i := range calibrations + 1 {
		tell(fmt.Sprintf("make the second egress deliver %s packets per second", formatRate(want)))
		if err := r.egress.set(EgressSlow); err != nil {
			return err
		}
		delivered, err := r.secondDelivers(ctx, d)
		if err != nil {
			return err
		}
		if i == calibrations {
			r.result.Slow = append(r.result.Slow, SlowEgress{placement, want, delivered, milliseconds(r.egress.pause)})
			break
		}
		r.egress.pause = slowerPause(r.egress.pause, delivered, want)
	}
	return nil
}

// secondDelivers is what the second egress delivers in a short flood, packets per second.
func (r *feedbackRun) secondDelivers(ctx context.Context, d *device) (pps float64, err error) {
	_, err = d.flood(ctx, flood{warmUp: searchWarmUp, measured: calibrationTime, beside: func() (func() error, error) {
		began := time.Now()
		before, err := r.egress.delivered()
		return func() error {
			after, err := r.egress.delivered()
			pps = float64(after-before) / time.Since(began).Seconds()
			return err
		}, err
	}})
	return pps, err
}

func (r *feedbackRun) curves(ctx context.Context, placement Placement, state Egress, mlfrr uint64, tell func(string)) error {
	for _, point := range r.Points {
		point = point.at(mlfrr)
		for n := range r.Trials {
			for _, variant := range []string{variantAlone, variantFeedback, variantWithout} {
				tell(fmt.Sprintf("second egress %s, %s at %s, trial %d of %d, %s", state, variant, point, n+1, r.Trials,
					time.Since(r.began).Round(time.Second)))
				var last FeedbackTrial
				_, err := untilValid(n+1, func() (_ Trial, err error) {
					last, err = r.trial(ctx, placement, state, variant, point)
					return last.Trial, err
				}, func(t Trial) error {
					last.Trial = t
					r.result.Trials = append(r.result.Trials, last)
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// trial makes one trial of the curves.
func (r *feedbackRun) trial(ctx context.Context, placement Placement, state Egress, variant string, p Point) (t FeedbackTrial, err error) {
	r.setup.rig.traffic = toBoth
	if variant == variantAlone {
		r.setup.rig.traffic = toHealthy
	}
	t, err = r.measure(ctx, placement, r.dut(variant), state, p, func() (func() error, error) { return nothing, nil })
	t.Variant = variant
	return t, err
}

func nothing() error { return nil }

// measure installs a device and floods it with the second egress in a state. beside goes on during the measured time.
func (r *feedbackRun) measure(ctx context.Context, placement Placement, dut DUT, state Egress, p Point, beside func() (func() error, error)) (t FeedbackTrial, err error) {
	t.Egress = state
	d, err := install(ctx, r.setup.rig, dut, placement)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.egress.free(ctx), d.remove()) }()
	if err := r.egress.set(state); err != nil {
		return t, err
	}
	var at time.Time
	var before, after uint64
	var first, second engine.Stats
	t.Trial, err = r.setup.measure(ctx, d, p, func() (_ func() error, err error) {
		if first, err = d.running.stats(ctx); err != nil {
			return nil, err
		}
		end, err := beside()
		if err != nil {
			return nil, err
		}
		at = time.Now()
		before, err = r.egress.delivered()
		return func() (err error) {
			after, err = r.egress.delivered()
			elapsed := time.Since(at).Seconds()
			t.Second = float64(after-before) / elapsed
			if err = errors.Join(err, end()); err != nil {
				return err
			}
			second, err = d.running.stats(ctx)
			t.Drops = dropsBetween(first, second, elapsed)
			return err
		}, err
	})
	t.keepSecond(at)
	return t, err
}

// keepSecond corrects the loss, which was computed from the healthy egress alone.
func (t *FeedbackTrial) keepSecond(began time.Time) {
	if t.Offered > 0 && !began.IsZero() {
		t.Lost = max(0, 1-(t.Delivered+t.Second)/t.Offered)
	}
}

// dropsBetween are packets per second by reason, those that are not 0.
func dropsBetween(first, second engine.Stats, seconds float64) map[string]float64 {
	drops := map[string]float64{}
	for reason, n := range second.Totals.Dropped {
		if more := n - first.Totals.Dropped[reason]; n > first.Totals.Dropped[reason] && seconds > 0 {
			drops[reason] = float64(more) / seconds
		}
	}
	return drops
}

// largestDrops names the reasons with most packets, at most n.
func largestDrops(drops map[string]float64, n int) string {
	reasons := slices.SortedFunc(maps.Keys(drops), func(a, b string) int {
		if drops[a] != drops[b] {
			if drops[a] > drops[b] {
				return -1
			}
			return 1
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, reason := range reasons[:min(n, len(reasons))] {
		parts = append(parts, fmt.Sprintf("%s %s", reason, formatRate(drops[reason])))
	}
	return strings.Join(parts, ", ")
}
