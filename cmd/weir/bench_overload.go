package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"weir/bench"
)

// overloadCommand is `weir bench overload`.
type overloadCommand struct {
	labFlags `embed:""`
	dutFlags `embed:""`
	Rates    []string `placeholder:"X,…" help:"Rates to offer: multiples of weir's MLFRR in the placement, packets per second with a unit, max (default 0.25,0.5,0.75,0.9,1,1.25,1.5,2,4,max)."`
	Rate     []string `placeholder:"PPS,…" help:"Rates to offer in packets per second, such as 800k or 1.2M, or max; without --rates no MLFRR is searched."`
	Reverse  int      `placeholder:"PPS" help:"Send so many packets per second against the flood and count them."`
	JSON     bool     `name:"json" help:"Print everything as JSON: machine, searches, trials, summary."`
	CSV      string   `name:"csv" placeholder:"FILE" type:"path" help:"Write a line for each trial into this file while it runs."`
}

// Help is the long text of --help.
func (overloadCommand) Help() string {
	return `A generator on CPU 0 offers 60-byte UDP frames to the device under test on CPU 1, a sink counts what comes out:
gen g0 - in0 rtr out0 - s0 snk, three network namespaces, two veth pairs.

Placements say where the receive work of in0 runs. They are imposed from outside after the device has started, checked
at the end of each trial, and undone.

  pipeline    softirq on the sender's CPU
  same-core   threaded NAPI, its kernel thread on the device's CPU
  outranking  the same at SCHED_FIFO 50: receive always wins, as interrupts did in 1996

MLFRR is the highest rate at which one of six trials of a tenth of a second loses no more than 0.1 %, found to within 3 %.
Each device then gets the same rates. A trial is invalid when others use more than 2 % of CPU 0 or CPU 1, when the
hypervisor takes more than 2 %, or when the generator misses 99 % of its rate; it is repeated three times and then void.
Rates that the generator does not reach beside a device are left out for that device.

Verdict, by the worst rate beyond the MLFRR, as a part of the device's peak (or of what was offered, if less):
flat from 90 %, falls from 25 %, livelock below.

Exit code 1: weir's own livelock watchdog fired, other than with its mechanisms off, no trial was valid, or something failed.`
}

// Run measures and prints.
func (c *overloadCommand) Run(ctx context.Context, out output) (err error) {
	points, err := c.points()
	if err != nil {
		return usageError{err}
	}
	if err := c.check(); err != nil {
		return usageError{err}
	}
	duts, err := c.duts(c.weirArgs())
	if err != nil {
		return usageError{err}
	}
	var each func(bench.Trial) error
	if c.CSV != "" {
		f, err := os.Create(c.CSV)
		if err != nil {
			return usageError{err}
		}
		defer f.Close()
		table, err := bench.NewCSV(f)
		if err != nil {
			return fmt.Errorf("write %s: %w", c.CSV, err)
		}
		each = table.Write
	}
	lab, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	result, err := bench.Overload{
		Placements: c.placements(), DUTs: duts, Points: points, Trials: c.Trials,
		WarmUp: c.WarmUp, Duration: c.Duration, Reverse: c.Reverse, MaxOthers: c.MaxOthers, Each: each, Progress: lab.progress,
	}.Run(ctx)
	lab.clear()
	result.Machine = bench.ThisMachine(os.Args)
	result.Summarize(duts)
	// What was measured before a failure is worth reading too.
	if c.JSON {
		err = errors.Join(err, result.WriteJSON(out.Out))
	} else {
		result.WriteTable(out.Out)
	}
	if err == nil && !slices.ContainsFunc(result.Trials, bench.Trial.Valid) {
		err = errors.New("no trial was valid: see why in --csv or --json, and leave the machine alone meanwhile")
	}
	return errors.Join(err, livelocked(result.Trials))
}

func (c *overloadCommand) check() error {
	if c.Reverse < 0 || c.Reverse > maxBeside {
		return fmt.Errorf("--reverse %d: must be 0 to %d packets per second", c.Reverse, maxBeside)
	}
	return c.labFlags.check()
}

// maxBeside keeps traffic beside the flood light: it shares the generator's CPU.
const maxBeside = 10000

// points are the rates asked for, the multiples first.
func (c *overloadCommand) points() ([]bench.Point, error) {
	if len(c.Rates) == 0 && len(c.Rate) == 0 {
		return bench.DefaultPoints, nil
	}
	var points []bench.Point
	for _, s := range c.Rates {
		p, err := bench.ParsePoint(s)
		if err != nil {
			return nil, fmt.Errorf("--rates: %w", err)
		}
		points = append(points, p)
	}
	for _, s := range c.Rate {
		p, err := bench.ParseRate(s)
		if err != nil {
			return nil, fmt.Errorf("--rate: %w", err)
		}
		points = append(points, p)
	}
	seen := map[string]bool{}
	for _, p := range points {
		if seen[p.String()] {
			return nil, fmt.Errorf("rate %s is asked for twice", p)
		}
		seen[p.String()] = true
	}
	return points, nil
}
