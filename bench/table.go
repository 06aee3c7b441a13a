package bench

import (
	"fmt"
	"io"
	"strings"
)

// WriteTable writes, for a person, each placement's curves and then the verdicts. Call Summarize first.
func (r Result) WriteTable(w io.Writer) {
	for _, p := range Placements {
		r.writePlacement(w, p)
	}
	for _, v := range r.Verdicts {
		fmt.Fprintln(w, v)
	}
}

const (
	tableHead = "%-16s %-24s %24s %8s %9s %8s %6s\n"
	tableRow  = "%-16s %-24s %24s %8s %9s %8s %6s%s\n"
)

func (r Result) writePlacement(w io.Writer, p Placement) {
	rate, any := "", false
	for _, c := range r.Cells {
		if c.Placement != p {
			continue
		}
		if !any {
			any = true
			fmt.Fprintf(w, "placement %s%s\n", p, r.mlfrrLine(p))
			fmt.Fprintf(w, tableHead, "rate asked", "device", "delivered Mpps", "of peak", "of plain", "offered", "trials")
		}
		asked := ""
		if c.Rate != rate {
			rate, asked = c.Rate, c.Rate
			if c.Asked > 0 && asked != formatRate(float64(c.Asked)) {
				asked = fmt.Sprintf("%s (%s)", c.Rate, formatRate(float64(c.Asked)))
			}
		}
		c.write(w, asked)
	}
	if any {
		fmt.Fprintln(w)
	}
}

func (r Result) mlfrrLine(p Placement) string {
	for _, m := range r.MLFRRs {
		if m.Placement == p {
			return fmt.Sprintf(": MLFRR of %s %s packets per second", m.DUT, formatRate(float64(m.PPS)))
		}
	}
	return ""
}

// write writes one row.
func (c Cell) write(w io.Writer, asked string) {
	switch {
	case c.Unreached:
		fmt.Fprintf(w, "%-16s %-24s the generator does not reach this rate beside it: left out\n", asked, c.DUT)
		return
	case c.Valid == 0:
		fmt.Fprintf(w, "%-16s %-24s void: others used the CPUs in every trial\n", asked, c.DUT)
		return
	}
	trials := fmt.Sprint(c.Valid)
	if c.Void > 0 {
		trials += fmt.Sprintf("+%d void", c.Void)
	}
	against := ""
	if c.Reverse != nil {
		against = fmt.Sprintf("  reverse lost %.2f %% of %d", 100*c.Reverse.Lost(), c.Reverse.Sent)
	}
	fmt.Fprintf(w, tableRow, asked, c.DUT, mpps(c.Delivered), fmt.Sprintf("%.0f %%", 100*c.OfPeak), orDash(c.OfPlain),
		fmt.Sprintf("%.3f", c.Offered.Median/1e6), trials, against)
}

// mpps writes a spread of packets per second in millions.
func mpps(s Spread) string {
	return fmt.Sprintf("%.3f (%.3f–%.3f)", s.Median/1e6, s.Min/1e6, s.Max/1e6)
}

// orDash writes a ratio, 0 being none.
func orDash(v float64) string {
	if v == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", v)
}

// String is one line.
func (v Verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s: ", v.Placement, v.DUT)
	if v.WorstAt == "" {
		fmt.Fprintf(&b, "no verdict: nothing was measured beyond the MLFRR (peak %.3f Mpps)", v.Peak/1e6)
	} else {
		fmt.Fprintf(&b, "%s: peak %.3f Mpps at %s, worst beyond the MLFRR %.0f %% at %s",
			strings.ToUpper(v.Verdict), v.Peak/1e6, v.PeakAt, 100*v.Worst, v.WorstAt)
	}
	if v.OfPlain > 0 {
		fmt.Fprintf(&b, ", %.2f of the plain loop at max", v.OfPlain)
	}
	if v.OfKernel > 0 {
		fmt.Fprintf(&b, ", %.2f of the kernel at max", v.OfKernel)
	}
	if v.Livelocks > 0 {
		fmt.Fprintf(&b, "; its watchdog fired %d times", v.Livelocks)
	}
	if len(v.Changed) > 0 {
		fmt.Fprintf(&b, "; it changed the placement: %s", strings.Join(v.Changed, ", "))
	}
	return b.String()
}
