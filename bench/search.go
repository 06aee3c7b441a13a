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
	// searchTrials is how many valid trials must lose until a rate is lossy: what disturbs the machine makes it lose, nothing makes it lose
	// less. They are short, since a virtual machine's CPUs stand still for milliseconds several times a second, unseen by it, and a
	// device's ring of 256 overflows meanwhile: most trials must be free of that. searchAttempts bounds them together with the invalid ones.
	searchTrials   = 6
	searchAttempts = 12
	searchWarmUp   = 200 * time.Millisecond
	searchMeasured = 100 * time.Millisecond
)

// errLossy: even the lowest rate of a search loses packets.
var errLossy = errors.New("no rate without loss")

// search returns the highest rate from most/searchSpan up to most, which is known to be lossy, that passes, to within searchPrecision, by
// bisection of the ratio.
func search(most float64, passes func(rate uint64) (bool, error)) (uint64, error) {
	if most < searchSpan {
		return 0, fmt.Errorf("%w: the generator offers only %s packets per second", errLossy, formatRate(most))
	}
	low, high := most/searchSpan, most
	ok, err := passes(uint64(low))
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fmt.Errorf("%w between %s and %s packets per second", errLossy, formatRate(low), formatRate(high))
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

// findMLFRR searches with short trials; the device is started once for all of them. tell is told what goes on.
func (s setup) findMLFRR(ctx context.Context, dut DUT, placement Placement, tell func(string)) (m MLFRR, err error) {
	m = MLFRR{Placement: placement, DUT: dut.Name}
	d, err := install(ctx, s.rig, dut, placement)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	probes := setup{rig: s.rig, warmUp: searchWarmUp, measured: searchMeasured, maxOthers: s.maxOthers}
	probe := func(rate uint64) (Trial, error) {
		tell(fmt.Sprintf("search the MLFRR of %s: %s", dut.Name, Point{PPS: rate}))
		t, err := probes.measure(ctx, d, Point{PPS: rate}, nil)
		if err == nil {
			t.Number, t.Attempt = len(m.Probes)+1, 1
			m.Probes = append(m.Probes, t)
		}
		return t, err
	}
	top, err := probe(MaxPoint.PPS)
	if err != nil {
		return m, err
	}
	if lossFree(top) {
		m.PPS = uint64(top.Offered)
		return m, nil
	}
	m.PPS, err = search(top.Offered, func(rate uint64) (bool, error) { return passes(rate, probe) })
	if err != nil {
		err = fmt.Errorf("search the MLFRR of %s in placement %s: %w", dut.Name, placement, err)
	}
	return m, err
}

// lossFree tells whether nothing was lost at a rate that was really offered.
func lossFree(t Trial) bool { return t.Lost <= maxLoss && t.Offered >= minReached*float64(t.Asked) }

// passes tells whether a rate is loss-free, by trials of it.
func passes(rate uint64, probe func(rate uint64) (Trial, error)) (bool, error) {
	lossy := 0
	for range searchAttempts {
		t, err := probe(rate)
		if err != nil || lossFree(t) {
			return err == nil, err
		}
		// A rate that the generator cannot quite reach was not tried; it is no better than a lossy one.
		if t.Valid() || t.Missed {
			lossy++
		}
		if lossy == searchTrials {
			break
		}
	}
	return false, nil
}
