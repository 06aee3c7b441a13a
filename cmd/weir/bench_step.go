package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"weir/bench"
)

// stepCommand is `weir bench step`.
type stepCommand struct {
	labFlags `embed:""`
	dutFlags `embed:""`
	From     string `default:"10" help:"Rate before the step: a multiple of the first device's MLFRR in the placement, or packets per second such as 4M, or max; as much of it as the generator can make."`
	To       string `default:"0.5" help:"Rate after the step, likewise."`
	JSON     bool   `name:"json" help:"Print everything as JSON, the milliseconds among it."`
	CSV      string `name:"csv" placeholder:"FILE" type:"path" help:"Write what was offered and delivered in each millisecond into this file."`
}

// Help is the long text of --help.
func (stepCommand) Help() string {
	return `A device is overloaded for the time of --warm-up, then from one moment to the next offered what it can bear, and observed for
--duration. It has recovered when from then on nothing more is lost, and what it had queued is delivered: what is missing of
the packets offered stays what is missing in the end, to within a millisecond's packets, a batch of the generator, and 0.1 %.`
}

// Run measures and prints.
func (c *stepCommand) Run(ctx context.Context, out output) (err error) {
	from, err := bench.ParsePoint(c.From)
	if err != nil {
		return usageError{fmt.Errorf("--from: %w", err)}
	}
	to, err := bench.ParsePoint(c.To)
	if err != nil || to == bench.MaxPoint {
		return usageError{fmt.Errorf("--to %s: must be a multiple of the MLFRR, such as 0.5, or packets per second, such as 200k", c.To)}
	}
	duts, err := c.duts(c.weirArgs())
	if err = errors.Join(err, c.check()); err != nil {
		return usageError{err}
	}
	lab, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	result, err := bench.Step{
		Placements: c.placements(), DUTs: duts, From: from, To: to, Trials: c.Trials, WarmUp: c.WarmUp, Duration: c.Duration,
		MaxOthers: c.MaxOthers, Progress: lab.progress,
	}.Run(ctx)
	lab.clear()
	result.Machine = bench.ThisMachine(os.Args)
	err = errors.Join(err, livelocked(result.Trials))
	if c.CSV != "" {
		err = errors.Join(err, writeFile(c.CSV, result.WriteCSV))
	}
	if c.JSON {
		return errors.Join(err, result.WriteJSON(out.Out))
	}
	result.WriteTable(out.Out)
	return err
}
