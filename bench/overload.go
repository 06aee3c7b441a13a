package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Overload compares devices under test on one rig, in each placement at each rate: each device in turn, Trials times round, so that a
// drift of the machine meets all of them alike. The rates of a placement are multiples of the MLFRR of the first device that is weir, or
// else the first, and the same for all.
type Overload struct {
	Placements []Placement
	DUTs       []DUT
	Points     []Point
	Trials     int
	WarmUp     time.Duration // before each trial's measured time, the flood already going
	Duration   time.Duration // measured time of each trial
	Reverse    int           // packets per second of traffic against the flood; 0 is none
	MaxOthers  float64       // see DefaultMaxOthers
	// Each is called with each trial when it is done, the invalid ones among them; nil for nobody.
	Each func(Trial) error
	// Progress is told what goes on; nil for nobody.
	Progress func(line string)
}

// Run builds the rig, measures and removes the rig. It returns what it has measured also when it fails or ctx ends.
func (o Overload) Run(ctx context.Context) (result Result, err error) {
	rig, err := NewRig(1)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, rig.Close()) }()
	if err := rig.FixNeighbours(); err != nil {
		return result, err
	}
	r := overloadRun{
		Overload: o, setup: setup{rig: rig, warmUp: o.WarmUp, measured: o.Duration, reverse: o.Reverse, maxOthers: o.MaxOthers}, result: &result,
		rounds: len(o.Placements) * len(o.Points) * o.Trials, began: time.Now(),
	}
	for _, placement := range o.Placements {
		failed := r.placement(ctx, placement)
		if err = errors.Join(err, failed); failed != nil && !errors.Is(failed, errLossy) {
			break
		}
	}
	return result, err
}

// overloadRun is an Overload under way.
type overloadRun struct {
	Overload
	setup        setup
	result       *Result
	done, rounds int
	began        time.Time
}

// reference is the device whose MLFRR sets the rates.
func (o Overload) reference() DUT {
	for _, d := range o.DUTs {
		if d.kind == kindWeir {
			return d
		}
	}
	return o.DUTs[0]
}

func (r *overloadRun) placement(ctx context.Context, placement Placement) error {
	var mlfrr uint64
	if relative(r.Points) {
		m, err := r.setup.findMLFRR(ctx, r.reference(), placement, func(what string) { r.tell(what, placement) })
		r.result.MLFRRs = append(r.result.MLFRRs, m)
		if err != nil {
			return err
		}
		mlfrr = m.PPS
	}
	left := map[string]bool{}
	for n := range r.Trials {
		for _, point := range r.Points {
			if err := r.point(ctx, placement, point.at(mlfrr), n+1, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// point measures one rate once with every device. All rates are measured once before any is measured again: a host that is slow for a
// minute then makes every point slower alike. A rate that the generator does not reach beside a device is left out for it.
func (r *overloadRun) point(ctx context.Context, placement Placement, p Point, number int, left map[string]bool) error {
	for _, dut := range r.DUTs {
		key := p.String() + " " + dut.Name
		if left[key] {
			continue
		}
		last, err := r.attempts(ctx, dut, placement, p, number)
		if err != nil {
			return err
		}
		left[key] = last.Missed && number == 1
	}
	r.done++
	return nil
}

// attempts makes one trial, again while it is invalid.
func (r *overloadRun) attempts(ctx context.Context, dut DUT, placement Placement, p Point, number int) (Trial, error) {
	return untilValid(number, func() (Trial, error) {
		r.tell(fmt.Sprintf("%s at %s, trial %d of %d", dut.Name, p, number, r.Trials), placement)
		return r.setup.trial(ctx, dut, placement, p)
	}, func(t Trial) error {
		r.result.Trials = append(r.result.Trials, t)
		if r.Each == nil {
			return nil
		}
		return r.Each(t)
	})
}

// tell tells what goes on and how long the rest will take, going by what is done.
func (r *overloadRun) tell(what string, placement Placement) {
	if r.Progress == nil {
		return
	}
	left := ""
	if r.done > 0 {
		rest := time.Since(r.began) / time.Duration(r.done) * time.Duration(r.rounds-r.done)
		left = fmt.Sprintf(", %s left", rest.Round(time.Second))
	}
	r.Progress(fmt.Sprintf("%s: %s (%d of %d rounds%s)", placement, what, r.done, r.rounds, left))
}
