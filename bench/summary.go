package bench

import "slices"

// What a device is called that delivers, at its worst point beyond the MLFRR, such a part of the most it could have.
const (
	flatFrom  = 0.9
	fallsFrom = 0.25
	// beyondFrom is how far above the MLFRR a rate is beyond it.
	beyondFrom = 1.02
)

// The verdicts.
const (
	// VerdictFlat: no livelock; at least 0.9 of the peak at every rate.
	VerdictFlat = "flat"
	// VerdictFalls: it delivers less the more it is offered, but at least a quarter of its peak.
	VerdictFalls = "falls"
	// VerdictLivelock: less than a quarter.
	VerdictLivelock = "livelock"
	// VerdictUnknown: no valid trial beyond the MLFRR.
	VerdictUnknown = "unknown"
)

// Verdict is how a device takes overload in a placement.
type Verdict struct {
	Placement Placement `json:"placement"`
	DUT       string    `json:"dut"`
	Verdict   string    `json:"verdict"`
	// Peak is its largest median delivered, at PeakAt.
	Peak   float64 `json:"peak_pps"`
	PeakAt string  `json:"peak_at"`
	// Worst is the least part, over the rates beyond the MLFRR, that it delivered of what it could have: its peak, or all that was offered
	// if that is less. WorstAt is where.
	Worst   float64 `json:"worst"`
	WorstAt string  `json:"worst_at"`
	// OfPlain and OfKernel are the ratios at the generator's maximum; 0 when not measured.
	OfPlain  float64 `json:"of_plain_at_max"`
	OfKernel float64 `json:"of_kernel_at_max"`
	// Changed says what of the placement the device changed, without repetition.
	Changed []string `json:"changed,omitempty"`
	// Livelocks is how often its own watchdog fired.
	Livelocks uint64 `json:"livelocks"`
}

// Summarize computes Cells and Verdicts. duts are the devices that were measured; the first plain loop and the first kernel
// among them are what the others are compared with.
func (r *Result) Summarize(duts []DUT) {
	kinds := map[dutKind]string{}
	for _, d := range duts {
		if _, ok := kinds[d.kind]; !ok {
			kinds[d.kind] = d.Name
		}
	}
	r.Cells, r.Verdicts = nil, nil
	groups := r.groups()
	for _, g := range groups {
		c := cellOf(g.trials)
		c.OfPlain = ratio(g.trials, find(groups, g.cellKey, kinds[kindPlain]))
		c.OfKernel = ratio(g.trials, find(groups, g.cellKey, kinds[kindKernel]))
		r.Cells = append(r.Cells, c)
	}
	for _, p := range Placements {
		for _, d := range duts {
			r.judge(p, d.Name)
		}
	}
}

type cellKey struct {
	placement Placement
	rate, dut string
}

type group struct {
	cellKey
	trials []Trial
}

// groups sorts the trials into cells, in the order of their first trials.
func (r *Result) groups() []group {
	var list []group
	for _, t := range r.Trials {
		key := cellKey{t.Placement, t.Rate, t.DUT}
		i := slices.IndexFunc(list, func(g group) bool { return g.cellKey == key })
		if i < 0 {
			i = len(list)
			list = append(list, group{cellKey: key})
		}
		list[i].trials = append(list[i].trials, t)
	}
	return list
}

// find returns the trials of another device in the same place.
func find(groups []group, at cellKey, dut string) []Trial {
	at.dut = dut
	for _, g := range groups {
		if g.cellKey == at {
			return g.trials
		}
	}
	return nil
}

// judge adds the verdict on a device in a placement, if it was measured there, and each of its cells' part of the peak.
func (r *Result) judge(p Placement, dut string) {
	var cells []*Cell
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Placement == p && c.DUT == dut {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		return
	}
	v := Verdict{Placement: p, DUT: dut, Verdict: VerdictUnknown}
	for _, c := range cells {
		if c.Valid > 0 && c.Delivered.Median > v.Peak {
			v.Peak, v.PeakAt = c.Delivered.Median, c.Rate
		}
	}
	beyond := float64(r.mlfrr(p))
	if beyond == 0 { // rates were absolute: the peak's own is the best that is known
		for _, c := range cells {
			if c.Rate == v.PeakAt {
				beyond = c.Offered.Median
			}
		}
	}
	for _, c := range cells {
		if c.Valid == 0 || v.Peak == 0 {
			continue
		}
		c.OfPeak = c.Delivered.Median / v.Peak
		if c.Rate == MaxPoint.String() {
			v.OfPlain, v.OfKernel = c.OfPlain, c.OfKernel
		}
		if c.Offered.Median < beyond*beyondFrom {
			continue
		}
		part := c.Delivered.Median / min(v.Peak, c.Offered.Median)
		if v.WorstAt == "" || part < v.Worst {
			v.Worst, v.WorstAt = part, c.Rate
		}
	}
	switch {
	case v.WorstAt == "":
	case v.Worst >= flatFrom:
		v.Verdict = VerdictFlat
	case v.Worst >= fallsFrom:
		v.Verdict = VerdictFalls
	default:
		v.Verdict = VerdictLivelock
	}
	for _, t := range r.Trials {
		if t.Placement != p || t.DUT != dut {
			continue
		}
		v.Livelocks += t.Livelocks
		for _, change := range t.Changed {
			if !slices.Contains(v.Changed, change) {
				v.Changed = append(v.Changed, change)
			}
		}
	}
	r.Verdicts = append(r.Verdicts, v)
}

// mlfrr of a placement, 0 if it was not searched.
func (r *Result) mlfrr(p Placement) uint64 {
	for _, m := range r.MLFRRs {
		if m.Placement == p {
			return m.PPS
		}
	}
	return 0
}
