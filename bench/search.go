package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

const (
	// maxLoss is what a rate may lose and still count as loss-free: on a machine that is shared, one pause of a CPU costs more than a
	// strict zero allows.
	maxLoss = 0.001
	// searchPrecision is the ratio of the two rates between which a search ends.
	searchPrecision = 1.03
	// searchSpan is how far below the generator's maximum the search goes.
	searchSpan = 1024
	// searchAttempts is how often a rate is tried until it is loss-free: what disturbs the machine makes it lose, nothing makes it lose less.
	searchAttempts = 3
	searchWarmUp   = 200 * time.Millisecond
	searchMeasured = 500 * time.Millisecond
)

// errLossy: even the lowest rate of a search loses packets.
var errLossy = errors.New("no rate without loss")

// search returns the highest rate between most/searchSpan and most that passes, to within searchPrecision, by bisection of the ratio. most
// itself is returned when it passes.
func search(most float64, passes func(rate uint64) (bool, error)) (uint64, error) {
	low, high := most/searchSpan, most
	if most < searchSpan {
		return 0, fmt.Errorf("%w: the generator offers only %s packets per second", errLossy, formatRate(most))
	}
	for _, bound := range []float64{high, low} {
		ok, err := passes(uint64(bound))
		if err != nil || ok && bound == high {
			return uint64(bound), err
		}
		if !ok && bound == low {
			return 0, fmt.Errorf("%w between %s and %s packets per second", errLossy, formatRate(low), formatRate(high))
		}
	}
	for high/low > searchPrecision {
		middle := math.Sqrt(low * high)
		ok, err := passes(uint64(middle))
		if err != nil {
			return 0, err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return uint64(low), nil
}

// MLFRR is the maximum loss-free receive rate that a search found for a device in a placement.
type MLFRR struct {
	Placement Placement `json:"placement"`
	DUT       string    `json:"dut"`
	PPS       uint64    `json:"pps"`
	// Probes are the trials of the search, in their order.
	Probes []Trial `json:"probes"`
}

// findMLFRR searches with short trials; the device is started once for all of them. report is told of each; nil for nobody.
func (s setup) findMLFRR(ctx context.Context, dut DUT, placement Placement, report func(Trial)) (m MLFRR, err error) {
	m = MLFRR{Placement: placement, DUT: dut.Name}
	d, err := install(ctx, s.rig, dut, placement)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	probes := setup{rig: s.rig, warmUp: searchWarmUp, measured: searchMeasured, maxOthers: s.maxOthers}
	probe := func(p Point) (Trial, error) {
		t, err := probes.measure(ctx, d, p.PPS)
		t.Rate = p.String()
		if err == nil {
			m.Probes = append(m.Probes, t)
			if report != nil {
				report(t)
			}
		}
		return t, err
	}
	top, err := probe(MaxPoint)
	if err != nil {
		return m, err
	}
	m.PPS, err = search(top.Offered, func(rate uint64) (bool, error) {
		for range searchAttempts {
			// A rate the generator cannot quite reach was not tried: it passes no more than a lossy one.
			t, err := probe(Point{PPS: rate})
			if err != nil || t.Lost <= maxLoss && !t.Missed {
				return err == nil, err
			}
		}
		return false, nil
	})
	if err != nil {
		err = fmt.Errorf("search the MLFRR of %s in placement %s: %w", dut.Name, placement, err)
	}
	return m, err
}
