package bench

import (
	"io"
	"slices"
)

// Result is what an Overload measured.
type Result struct {
	Machine Machine `json:"machine"`
	MLFRRs  []MLFRR `json:"mlfrr,omitempty"`
	Trials  []Trial `json:"trials"`
	// Cells and Verdicts say the same in few words; Summarize computes them from the rest.
	Cells    []Cell    `json:"points"`
	Verdicts []Verdict `json:"verdicts"`
}

// WriteJSON writes everything.
func (r Result) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// Spread is a figure over trials.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf values; all zero when there are none.
func spreadOf(v []float64) Spread {
	if len(v) == 0 {
		return Spread{}
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return Spread{Median: median(v), Min: v[0], Max: v[len(v)-1]}
}

// median of sorted values; the mean of the middle two when their number is even.
func median(v []float64) float64 {
	n := len(v)
	if n == 0 {
		return 0
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Cell is one device at one rate in one placement.
type Cell struct {
	Placement Placement `json:"placement"`
	Rate      string    `json:"rate"`
	DUT       string    `json:"dut"`
	Asked     uint64    `json:"asked_pps"` // 0 is as fast as the generator goes
	// Valid trials count; Void ones were repeated as often as is allowed and never got valid.
	Valid int `json:"valid"`
	Void  int `json:"void"`
	// Unreached: beside this device the generator does not reach the rate. There are no figures then.
	Unreached bool   `json:"unreached"`
	Offered   Spread `json:"offered_pps"`
	Delivered Spread `json:"delivered_pps"`
	Lost      Spread `json:"lost"`
	User      Spread `json:"user_cpus"`
	System    Spread `json:"system_cpus"`
	// OfPeak is the median delivered, as a part of the device's largest in the placement.
	OfPeak float64 `json:"of_peak"`
	// OfPlain and OfKernel are the medians of the ratios, trial by trial, to what the plain loop and the kernel delivered; 0 without them.
	OfPlain  float64 `json:"of_plain"`
	OfKernel float64 `json:"of_kernel"`
	// Reverse sums up the traffic against the flood; nil without it.
	Reverse *Count `json:"reverse,omitempty"`
}

// cellOf gathers the trials of a cell.
func cellOf(trials []Trial) Cell {
	first := trials[0]
	c := Cell{Placement: first.Placement, Rate: first.Rate, DUT: first.DUT, Asked: first.Asked, Unreached: true}
	var offered, delivered, lost, user, system []float64
	attempted := map[int]bool{} // by number: one of its attempts was valid
	for _, t := range trials {
		c.Unreached = c.Unreached && t.Missed
		attempted[t.Number] = attempted[t.Number] || t.Valid()
		if !t.Valid() {
			continue
		}
		offered, delivered = append(offered, t.Offered), append(delivered, t.Delivered)
		lost, user, system = append(lost, t.Lost), append(user, t.User), append(system, t.System)
		if t.Reverse != nil {
			if c.Reverse == nil {
				c.Reverse = &Count{}
			}
			*c.Reverse = c.Reverse.add(*t.Reverse)
		}
	}
	for _, valid := range attempted {
		if valid {
			c.Valid++
		} else {
			c.Void++
		}
	}
	c.Offered, c.Delivered, c.Lost = spreadOf(offered), spreadOf(delivered), spreadOf(lost)
	c.User, c.System = spreadOf(user), spreadOf(system)
	return c
}

// ratio is the median over the numbers at which both devices have a valid trial of what a delivered by what b did: each pair was measured
// one after the other.
func ratio(a, b []Trial) float64 {
	byNumber := map[int]float64{}
	for _, t := range b {
		if t.Valid() {
			byNumber[t.Number] = t.Delivered
		}
	}
	var ratios []float64
	for _, t := range a {
		if other := byNumber[t.Number]; t.Valid() && other > 0 {
			ratios = append(ratios, t.Delivered/other)
		}
	}
	slices.Sort(ratios)
	return median(ratios)
}
