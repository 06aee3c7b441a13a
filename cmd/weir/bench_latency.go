package main

import (
	"context"
	"errors"
	"os"

	"weir/bench"
)

// latencyCommand is `weir bench latency`.
type latencyCommand struct {
	labFlags `embed:""`
	Load     string `default:"0.05" help:"Load beside the echoes: a multiple of weir's MLFRR in the placement, or packets per second such as 20k."`
	JSON     bool   `name:"json" help:"Print everything as JSON."`
}

// Help is the long text of --help.
func (latencyCommand) Help() string {
	return `While a flood of the given load passes, an ICMP echo is asked for every millisecond through weir and back, one at a time; the
sink's kernel answers. weir as it is and weir with poller.mode=interrupt take turns. Each trial has a median and a 99th
percentile; printed are the medians of these with their spread, and the median of the ratios, trial by trial.`
}

// Run measures and prints.
func (c *latencyCommand) Run(ctx context.Context, out output) (err error) {
	load, err := bench.ParsePoint(c.Load)
	if err = errors.Join(err, c.check()); err != nil {
		return usageError{err}
	}
	lab, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	result, err := bench.Latency{
		Placements: c.placements(), Load: load, Trials: c.Trials, WarmUp: c.WarmUp, Duration: c.Duration, MaxOthers: c.MaxOthers,
		DUTs: []bench.DUT{
			bench.DUTWeir("weir", c.weirArgs()...),
			bench.DUTWeir("weir poller.mode=interrupt", append(c.weirArgs(), "--set", "poller.mode=interrupt")...),
		},
		Progress: lab.progress,
	}.Run(ctx)
	lab.clear()
	result.Machine = bench.ThisMachine(os.Args)
	err = errors.Join(err, livelocked(result.Trials))
	if c.JSON {
		return errors.Join(err, result.WriteJSON(out.Out))
	}
	result.WriteTable(out.Out)
	return err
}
