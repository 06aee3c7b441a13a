package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
)

// FeedbackRow is one point of the curves: medians over the trials.
type FeedbackRow struct {
	Placement Placement `json:"placement"`
	Egress    Egress    `json:"egress"`
	Rate      string    `json:"rate"`
	Variant   string    `json:"variant"`
	Trials    int       `json:"trials"`
	Offered   Spread    `json:"offered_pps"` // in all
	Healthy   Spread    `json:"healthy_pps"`
	Second    Spread    `json:"second_pps"`
	// Keeps is the healthy egress' delivered as a part of what it gets alone at the same total offered, or of what was sent to it, if that
	// is less; Both is what both deliver, as a part of the same plus what the second delivers, or of what it gets alone, if that is less.
	// Medians of the ratios, trial by trial; 0 for the variant alone.
	Keeps float64 `json:"keeps"`
	Both  float64 `json:"both"`
	Drops string  `json:"drops"`
}

// Rows sums up the curves.
func (r FeedbackResult) Rows() []FeedbackRow {
	var rows []FeedbackRow
	same := func(row FeedbackRow, t FeedbackTrial) bool {
		return row.Placement == t.Placement && row.Egress == t.Egress && row.Rate == t.Rate && row.Variant == t.Variant
	}
	for _, t := range r.Trials {
		if slices.ContainsFunc(rows, func(row FeedbackRow) bool { return same(row, t) }) {
			continue
		}
		row := FeedbackRow{Placement: t.Placement, Egress: t.Egress, Rate: t.Rate, Variant: t.Variant}
		var offered, healthy, second, keeps, both []float64
		for _, o := range r.Trials {
			if !same(row, o) || !o.Valid() {
				continue
			}
			offered, healthy, second = append(offered, o.Offered), append(healthy, o.Delivered), append(second, o.Second)
			row.Drops = largestDrops(o.Drops, 3)
			if alone, ok := r.aloneFor(o); ok {
				k, b := kept(o, alone)
				keeps, both = append(keeps, k), append(both, b)
			}
		}
		row.Trials = len(offered)
		row.Offered, row.Healthy, row.Second = spreadOf(offered), spreadOf(healthy), spreadOf(second)
		row.Keeps, row.Both = spreadOf(keeps).Median, spreadOf(both).Median
		rows = append(rows, row)
	}
	return rows
}

// aloneFor finds the valid trial alone that was made in the same round.
func (r FeedbackResult) aloneFor(t FeedbackTrial) (FeedbackTrial, bool) {
	if t.Variant == variantAlone {
		return t, false
	}
	i := slices.IndexFunc(r.Trials, func(o FeedbackTrial) bool {
		return o.Variant == variantAlone && o.Valid() && o.Placement == t.Placement && o.Egress == t.Egress && o.Rate == t.Rate && o.Number == t.Number
	})
	if i < 0 {
		return t, false
	}
	return r.Trials[i], true
}

// kept are the ratios of a trial to the one alone; half of what is offered is for each egress.
func kept(t, alone FeedbackTrial) (keeps, both float64) {
	healthy := min(alone.Delivered, t.Offered/2)
	if healthy <= 0 {
		return 0, 0
	}
	return t.Delivered / healthy, (t.Delivered + t.Second) / min(alone.Delivered, t.Offered/2+t.Second)
}

// WriteTable writes everything for a person.
func (r FeedbackResult) WriteTable(w io.Writer) {
	for _, m := range r.MLFRRs {
		fmt.Fprintf(w, "%s: MLFRR, all to the healthy egress, %s packets per second\n", m.Placement, formatRate(float64(m.PPS)))
	}
	for _, s := range r.Slow {
		fmt.Fprintf(w, "%s: a slow second egress takes %s packets per second (wanted %s; pauses of %.2f ms)\n",
			s.Placement, formatRate(s.Delivered), formatRate(s.Wanted), s.Pause)
	}
	rows := r.Rows()
	if len(rows) > 0 {
		fmt.Fprintf(w, "%-11s %-6s %-6s %-9s %8s %22s %8s %6s %6s %7s  %s\n",
			"placement", "second", "rate", "variant", "offered", "healthy Mpps", "second", "keeps", "both", "trials", "largest drops per second")
	}
	for _, row := range rows {
		if row.Trials == 0 {
			fmt.Fprintf(w, "%-11s %-6s %-6s %-9s void: the rate was not reached, or others used the CPUs, in every trial\n",
				row.Placement, row.Egress, row.Rate, row.Variant)
			continue
		}
		fmt.Fprintf(w, "%-11s %-6s %-6s %-9s %8.3f %22s %8.3f %6s %6s %7d  %s\n", row.Placement, row.Egress, row.Rate, row.Variant,
			row.Offered.Median/1e6, mpps(row.Healthy), row.Second.Median/1e6, orDash(row.Keeps), orDash(row.Both), row.Trials, row.Drops)
	}
	for _, line := range verdictsOf(rows) {
		fmt.Fprintln(w, line)
	}
	r.writeStuck(w)
	r.writeSurface(w)
}

// What the healthy egress, and both together, should keep.
const (
	wantKept = 0.8
	wantBoth = 0.9
)

// verdictsOf says for each placement and state what the worst rate with feedback keeps.
func verdictsOf(rows []FeedbackRow) (lines []string) {
	type key struct {
		placement Placement
		egress    Egress
	}
	worst := map[key]*[2]FeedbackRow{}
	var keys []key
	for _, row := range rows {
		if row.Variant != variantFeedback || row.Keeps == 0 {
			continue
		}
		k := key{row.Placement, row.Egress}
		if worst[k] == nil {
			keys, worst[k] = append(keys, k), &[2]FeedbackRow{row, row}
		}
		if row.Keeps < worst[k][0].Keeps {
			worst[k][0] = row
		}
		if row.Both < worst[k][1].Both {
			worst[k][1] = row
		}
	}
	for _, k := range keys {
		keeps, both := worst[k][0], worst[k][1]
		verdict := "HOLDS"
		if keeps.Keeps < wantKept || both.Both < wantBoth {
			verdict = "FAILS"
		}
		lines = append(lines, fmt.Sprintf("%s, second egress %s: %s: the healthy egress keeps at worst %.2f (at %s; wanted %.1f), both %.2f (at %s; wanted %.1f)",
			k.placement, k.egress, verdict, keeps.Keeps, keeps.Rate, wantKept, both.Both, both.Rate, wantBoth))
	}
	return lines
}

// WriteCSV writes the trials of the curves, one line each.
func (r FeedbackResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	_ = c.Write([]string{"placement", "egress", "rate", "variant", "number", "attempt", "asked_pps", "offered_pps", "healthy_pps", "second_pps",
		"drops_pps", "invalid"}) // Flush tells
	for _, t := range r.Trials {
		_ = c.Write([]string{
			string(t.Placement), string(t.Egress), t.Rate, t.Variant, fmt.Sprint(t.Number), fmt.Sprint(t.Attempt), fmt.Sprint(t.Asked),
			fmt.Sprintf("%.0f", t.Offered), fmt.Sprintf("%.0f", t.Delivered), fmt.Sprintf("%.0f", t.Second), largestDrops(t.Drops, len(t.Drops)), t.Invalid,
		})
	}
	c.Flush()
	return c.Error()
}

// WriteJSON writes everything.
func (r FeedbackResult) WriteJSON(w io.Writer) error {
	return writeJSON(w, struct {
		FeedbackResult
		Rows []FeedbackRow `json:"rows,omitempty"`
	}{r, r.Rows()})
}
