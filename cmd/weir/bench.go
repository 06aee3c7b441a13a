package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"weir/bench"
	"weir/bench/model"
	"weir/bench/paper"
)

// benchCommand is `weir bench`.
type benchCommand struct {
	Overload overloadCommand `cmd:"" help:"Compare weir, a plain AF_XDP loop and the kernel's forwarding on one rig, in turns."`
	Paper    paperCommand    `cmd:"" help:"Drive the scheduler through a model of the 1996 testbed in virtual time, and hold it against the paper's figures."`
	Model    modelCommand    `cmd:"" help:"The same at today's scale, with costs measured on this machine: where livelock would begin. A model."`
	Plain    plainCommand    `cmd:"" hidden:"" help:"The plain AF_XDP loop, from in0 to out0 of this network namespace."`
}

// overloadCommand is `weir bench overload`.
type overloadCommand struct {
	DUT      []string      `name:"dut" enum:"weir,plain,kernel" default:"weir,plain,kernel" help:"What to compare: weir, plain (an AF_XDP loop), kernel (ip_forward)."`
	Rate     uint64        `help:"Packets per second to offer; 0 is as fast as the generator goes." default:"0"`
	Trials   int           `help:"Trials of each." default:"5"`
	Duration time.Duration `help:"Measured time of each trial." default:"3s"`
	JSON     bool          `name:"json" help:"Print every trial as JSON."`
	Set      []string      `placeholder:"KEY=VALUE" sep:"none" help:"Set a key of weir's configuration; repeat for more."`
	Variant  []string      `placeholder:"KEY=VALUE" sep:"none" help:"Also compare a weir with this key set; repeat for more."`
}

// Run measures and prints.
func (c *overloadCommand) Run(ctx context.Context, out output) error {
	if c.Trials < 1 || c.Duration <= 0 {
		return usageError{fmt.Errorf("--trials %d --duration %s: both must be above zero", c.Trials, c.Duration)}
	}
	var args []string
	for _, assignment := range c.Set {
		args = append(args, "--set", assignment)
	}
	known := map[string]bench.DUT{
		"weir": bench.DUTWeir("weir", args...), "plain": bench.DUTPlain(1), "kernel": bench.DUTKernel(),
	}
	var duts []bench.DUT
	for _, name := range c.DUT {
		duts = append(duts, known[name])
	}
	for _, assignment := range c.Variant {
		duts = append(duts, bench.DUTWeir("weir "+assignment, append(slices.Clone(args), "--set", assignment)...))
	}
	result, err := bench.Overload{
		DUTs:   duts,
		Rate:   c.Rate,
		Trials: c.Trials, Duration: c.Duration, Progress: out.Err,
	}.Run(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return result.WriteJSON(out.Out)
	}
	result.WriteTable(out.Out)
	return nil
}

// paperCommand is `weir bench paper`.
type paperCommand struct {
	paper.Command `embed:""`
}

// Run plays the model and prints the table of errors; a miss is a failure.
func (c *paperCommand) Run(ctx context.Context, out output) error {
	return asUsage(c.Command.Run(ctx, out.Out, out.Err), paper.ErrUsage)
}

// modelCommand is `weir bench model`.
type modelCommand struct {
	model.Command `embed:""`
}

// Run measures, plays the model and prints it.
func (c *modelCommand) Run(ctx context.Context, out output) error {
	return asUsage(c.Command.Run(ctx, out.Out, out.Err), model.ErrUsage)
}

// asUsage marks err as the caller's fault when it wraps usage.
func asUsage(err, usage error) error {
	if errors.Is(err, usage) {
		return usageError{err}
	}
	return err
}

// plainCommand is the hidden `weir bench plain`.
type plainCommand struct {
	CPU int    `name:"cpu" default:"1" help:"CPU to run on."`
	MAC string `name:"mac" required:"" help:"MAC address behind out0."`
}

// Run forwards until ctx ends.
func (c *plainCommand) Run(ctx context.Context, out output) error {
	mac, err := net.ParseMAC(c.MAC)
	if err != nil {
		return usageError{fmt.Errorf("--mac %s: %w", c.MAC, err)}
	}
	return bench.Plain(ctx, c.CPU, mac, out.Out)
}
