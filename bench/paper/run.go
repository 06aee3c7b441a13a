package paper

import (
	"context"
	"fmt"
	"io"
)

// Options of Run.
type Options struct {
	// Seeds is how many trials each point is the median of; at least 1. The
	// limits are meant for 9 or more.
	Seeds int
	// Bed is what is assumed of the testbed; nil is DEC1996.
	Bed *Testbed
	// NoSensitivities leaves them out: they are half of the work.
	NoSensitivities bool
	// Progress takes a line for each stage; nil for none.
	Progress io.Writer
}

// Report is everything Run found.
type Report struct {
	Source        string        `json:"source"`
	Seeds         int           `json:"seeds"`
	Constants     []Constant    `json:"constants"`
	Curves        []Series      `json:"curves"`
	Checks        []Check       `json:"checks"`
	Orders        []Order       `json:"orders"`
	Controls      []Control     `json:"controls"`
	Sensitivities []Sensitivity `json:"sensitivities,omitempty"`
}

// Series is one curve as the paper has it and as the model gives it.
type Series struct {
	Figure     string  `json:"figure"`
	Name       string  `json:"name"`
	Calibrates bool    `json:"calibrates"`
	Paper      []Point `json:"paper"`
	Model      []Point `json:"model"`
}

// Run plays all trials and holds the model against the figures. It takes some
// seconds of every CPU there is and touches nothing else; the same options give
// the same report. It fails only if ctx ends or the committed data are damaged:
// a curve that misses is in the report (see Report.OK).
func Run(ctx context.Context, o Options) (*Report, error) {
	bed := DEC1996()
	if o.Bed != nil {
		bed = *o.Bed
	}
	curves, err := Curves()
	if err != nil {
		return nil, err
	}
	progress := func(format string, args ...any) {
		if o.Progress != nil {
			fmt.Fprintf(o.Progress, format+"\n", args...)
		}
	}
	progress("%d curves, %d trials a point", len(curves), o.Seeds)
	series, err := simulate(ctx, &bed, curves, o.Seeds)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Source:    "model in virtual time of the testbed in Mogul and Ramakrishnan, USENIX 1996, driving weir's scheduler",
		Seeds:     o.Seeds,
		Constants: bed.Constants(),
		Orders:    orders(curves, series),
	}
	for i := range curves {
		c := &curves[i]
		r.Curves = append(r.Curves, Series{c.Figure, c.Name, c.Calibrates, c.Paper, series[i]})
		r.Checks = append(r.Checks, c.checks(series[i])...)
	}
	progress("controls that must fail")
	if r.Controls, err = controls(ctx, bed, curves, min(o.Seeds, 3)); err != nil {
		return nil, err
	}
	if !o.NoSensitivities {
		progress("sensitivities of %d constants", len(r.Constants)-1)
		r.Sensitivities, err = sensitivities(ctx, bed, curves)
	}
	return r, err
}

// OK tells whether every required limit is met, the orders hold, and every
// control fails as it must.
func (r *Report) OK() bool {
	for _, c := range r.Checks {
		if c.Required && !c.Met {
			return false
		}
	}
	for _, o := range r.Orders {
		if !o.Holds {
			return false
		}
	}
	for _, c := range r.Controls {
		if !c.Broken {
			return false
		}
	}
	return true
}
