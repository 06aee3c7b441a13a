package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"weir/bench"
)

// queuesCommand is `weir bench queues`.
type queuesCommand struct {
	labFlags `embed:""`
	Queues   int    `default:"4" help:"Receive and transmit queues of each end of each cable."`
	Light    int    `default:"1000" placeholder:"PPS" help:"Packets per second on each queue that is not flooded."`
	Rate     string `default:"max" placeholder:"PPS" help:"Flood on the first queue."`
	JSON     bool   `name:"json" help:"Print everything as JSON."`
}

const maxQueues = 16

// Help is the long text of --help.
func (queuesCommand) Help() string {
	return `One receive queue of in0 is flooded; on each of the others a socket of the generator's host sends a little. What the light
traffic loses is counted without the flood and beside it.`
}

// Run measures and prints.
func (c *queuesCommand) Run(ctx context.Context, out output) (err error) {
	rate, err := bench.ParseRate(c.Rate)
	if err != nil {
		return usageError{fmt.Errorf("--rate: %w", err)}
	}
	switch {
	case c.Queues < 2 || c.Queues > maxQueues:
		err = fmt.Errorf("--queues %d: must be 2 to %d", c.Queues, maxQueues)
	case c.Light < 1 || c.Light > maxBeside:
		err = fmt.Errorf("--light %d: must be 1 to %d packets per second", c.Light, maxBeside)
	}
	if err = errors.Join(err, c.check()); err != nil {
		return usageError{err}
	}
	lab, err := c.open(ctx, out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	result, err := bench.Queues{
		Placements: c.placements(), DUTs: []bench.DUT{bench.DUTWeir("weir", c.weirArgs()...)}, NumQueues: c.Queues, Light: c.Light, Rate: rate,
		Trials: c.Trials, WarmUp: c.WarmUp, Duration: c.Duration, MaxOthers: c.MaxOthers, Progress: lab.progress,
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
