package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"weir/bench"
)

// shareCommand is `weir bench share`.
type shareCommand struct {
	labFlags  `embed:""`
	Measure   []string  `enum:"process,light" default:"process" help:"What to measure: process (the CPU that a process beside weir gets), light (what becomes of light traffic at --light-limit and --light-rate)."`
	Limits    []float64 `default:"25,50,75,100" placeholder:"PERCENT,…" help:"CPU share limits; 100 is the control experiment."`
	Rates     []string  `default:"1.5,4,max" placeholder:"X,…" help:"Rates to offer: multiples of the MLFRR of weir without a limit, packets per second with a unit, max."`
	Means     []string  `enum:"auto,off,socket,io_uring,kthread" default:"socket" help:"Means of owning the receive work (poller.ownership)."`
	Family    []string  `enum:"v4,v6" default:"v4" help:"IPv4, IPv6."`
	Size      []int     `default:"60" placeholder:"BYTES,…" help:"Frame sizes without FCS, 60 to 1514; IPv6 from 78."`
	LightRate string    `name:"light-rate" default:"10" placeholder:"X" help:"Rate of the flood beside light traffic."`
	Limit     float64   `name:"light-limit" default:"25" placeholder:"PERCENT" help:"CPU share limit beside light traffic."`
	JSON      bool      `name:"json" help:"Print everything as JSON."`
	CSV       string    `name:"csv" placeholder:"FILE" type:"path" help:"Write the trials with the process, one line each."`
}

// Help is the long text of --help.
func (shareCommand) Help() string {
	return `A process that only computes is pinned to weir's CPU, in the same scheduling group; weir's worker has poller.nice=-20. What the
process gets of the CPU is read from its CPU clock, exactly, and compared with what the limit leaves it. "work" is what it did by
what it does alone: less than the clock says when interrupts took its time. used and asleep are weir's own account.

light: transit, ARP requests to the router and routing hellos, 100 per second each, come in by the port that is flooded and by the
other one, the process running; printed are the losses and the longest gap between two arrivals.

Placement is same-core, when --placement does not name one alone.`
}

// Run measures and prints.
func (c *shareCommand) Run(ctx context.Context, out output) (err error) {
	points, err := parsePoints(c.Rates)
	if err != nil {
		return usageError{fmt.Errorf("--rates: %w", err)}
	}
	light, err := bench.ParsePoint(c.LightRate)
	if err != nil {
		return usageError{fmt.Errorf("--light-rate: %w", err)}
	}
	if err := errors.Join(c.check(), c.checkLoad()); err != nil {
		return usageError{err}
	}
	placement := bench.SameCore
	if len(c.Placement) == 1 {
		placement = c.placements()[0]
	}
	var v6 []bool
	for _, family := range c.Family {
		v6 = append(v6, family == "v6")
	}
	lab, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	result, err := bench.Share{
		Placement: placement, Args: c.weirArgs(), Limits: c.Limits, Points: points, Means: c.Means, V6: v6, Sizes: c.Size, Trials: c.Trials,
		WarmUp: c.WarmUp, Duration: c.Duration, MaxOthers: c.MaxOthers, Hog: slices.Contains(c.Measure, "process"),
		Beats: slices.Contains(c.Measure, "light"), BeatLimit: c.Limit, BeatPoint: light, Progress: lab.progress,
	}.Run(ctx)
	lab.clear()
	result.Machine = bench.ThisMachine(os.Args)
	if c.CSV != "" {
		err = errors.Join(err, writeFile(c.CSV, result.WriteCSV))
	}
	if c.JSON {
		err = errors.Join(err, result.WriteJSON(out.Out))
	} else {
		result.WriteTable(out.Out)
	}
	return errors.Join(err, livelocked(result.Trials))
}

func (c *shareCommand) checkLoad() error {
	for _, limit := range append(slices.Clone(c.Limits), c.Limit) {
		if !(limit > 0 && limit <= 100) {
			return fmt.Errorf("limit %g: must be above 0 and at most 100 percent", limit)
		}
	}
	for _, size := range c.Size {
		if size < 60 || size > 1514 {
			return fmt.Errorf("--size %d: must be 60 to 1514", size)
		}
	}
	return nil
}

// hogCommand is the hidden `weir bench hog`.
type hogCommand struct {
	CPU int `name:"cpu" default:"1" help:"CPU to spin on."`
}

// Run spins until ctx or standard input ends; each line on it is answered with the work done so far.
func (c *hogCommand) Run(ctx context.Context, out output) error {
	return bench.Hog(ctx, c.CPU, os.Stdin, out.Out)
}
