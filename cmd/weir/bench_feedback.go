package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"weir/bench"
)

// feedbackCommand is `weir bench feedback`.
type feedbackCommand struct {
	labFlags `embed:""`
	Measure  []string `enum:"curves,stuck,surface" default:"curves,stuck" help:"What to measure: curves (delivered over offered), stuck (the second egress sticks for a second), surface (marks by timeout by backlog)."`
	Egress   []string `enum:"slow,stuck,down" default:"slow" help:"What is the matter with the second egress in the curves: slow (a tenth of the MLFRR), stuck, down."`
	Rates    []string `placeholder:"X,…" default:"1,2,3,5,10" help:"Rates to offer in all: multiples of the MLFRR, packets per second with a unit, max."`
	Rate     string   `default:"3" placeholder:"X" help:"Rate of stuck and surface."`
	JSON     bool     `name:"json" help:"Print everything as JSON."`
	CSV      string   `name:"csv" placeholder:"FILE" type:"path" help:"Write the trials of the curves, or of the surface when there are no curves, or else the milliseconds of stuck."`
	Plots    string   `placeholder:"DIR" type:"existingdir" help:"Draw the surface into this directory."`
}

// Help is the long text of --help.
func (feedbackCommand) Help() string {
	return `The router has two egresses and the flood goes to both in turn, frame by frame. The first is healthy. The second, out1, has a
queue that stops, and the host behind it pauses whenever it has emptied its ring of 256 frames: 1 s when stuck, and when slow as
long as makes it take a tenth of the MLFRR.

curves: alone is everything to the healthy egress; feedback, every other frame to the second; without, the same with
poller.feedback=off. "keeps" is what the healthy egress delivers as a part of what it gets alone at the same total offered, or
of the half that was sent to it if that is less; "both" is the same for what both deliver.

stuck: the second egress takes nothing for a second and is then free again. Pauses are the longest times in which the healthy
egress delivered nothing, before, meanwhile and after. Both are back when three times 10 ms on end each brings 90 % of what came
before, on either egress.

surface: the second egress is slow; delays are from when the generator was due to send a frame until it arrived.

Rates are multiples of the MLFRR of weir with everything going to the healthy egress.`
}

// Run measures and prints.
func (c *feedbackCommand) Run(ctx context.Context, out output) (err error) {
	points, err := parsePoints(c.Rates)
	if err != nil {
		return usageError{fmt.Errorf("--rates: %w", err)}
	}
	rate, err := bench.ParsePoint(c.Rate)
	if err != nil {
		return usageError{fmt.Errorf("--rate: %w", err)}
	}
	if err := c.check(); err != nil {
		return usageError{err}
	}
	lab, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	var states []bench.Egress
	for _, s := range c.Egress {
		states = append(states, bench.Egress(s))
	}
	result, err := bench.Feedback{
		Placements: c.placements(), Args: c.weirArgs(), States: states, Points: points, Trials: c.Trials, WarmUp: c.WarmUp, Duration: c.Duration,
		MaxOthers: c.MaxOthers, Curves: c.measures("curves"), Stuck: c.measures("stuck"), Surface: c.measures("surface"), SurfacePoint: rate,
		Settings: bench.DefaultSettings(), Progress: lab.progress,
	}.Run(ctx)
	lab.clear()
	result.Machine = bench.ThisMachine(os.Args)
	if c.CSV != "" {
		err = errors.Join(err, writeFile(c.CSV, c.csvOf(result)))
	}
	if c.Plots != "" {
		_, failed := result.WritePlots(c.Plots)
		err = errors.Join(err, failed)
	}
	if c.JSON {
		err = errors.Join(err, result.WriteJSON(out.Out))
	} else {
		result.WriteTable(out.Out)
	}
	return errors.Join(err, livelocked(result.Trials))
}

func (c *feedbackCommand) measures(what string) bool { return slices.Contains(c.Measure, what) }

// csvOf chooses what --csv is about.
func (c *feedbackCommand) csvOf(r bench.FeedbackResult) func(io.Writer) error {
	switch {
	case c.measures("curves"):
		return r.WriteCSV
	case c.measures("surface"):
		return r.WriteSurfaceCSV
	}
	return r.WriteStuckCSV
}

// parsePoints reads a list of rates.
func parsePoints(list []string) (points []bench.Point, err error) {
	for _, s := range list {
		p, err := bench.ParsePoint(s)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}
