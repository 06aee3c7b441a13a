package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"weir/bench"
	"weir/bench/model"
	"weir/bench/paper"
)

// benchCommand is `weir bench`.
type benchCommand struct {
	Overload overloadCommand `cmd:"" help:"Offer weir, a plain AF_XDP loop and the kernel's forwarding more and more, wherever receive work may run."`
	Latency  latencyCommand  `cmd:"" help:"How long an echo takes through weir at a load it bears, as it is and with interrupts alone."`
	Step     stepCommand     `cmd:"" help:"How soon a device that is overloaded no longer loses anything when the load falls to what it bears."`
	Queues   queuesCommand   `cmd:"" help:"What lightly loaded receive queues lose while another one is flooded."`
	Feedback feedbackCommand `cmd:"" help:"What a healthy egress keeps beside one that is slow, stuck or down."`
	Share    shareCommand    `cmd:"" help:"What a process on weir's CPU gets of it, at limits of weir's CPU share."`
	Hog      hogCommand      `cmd:"" hidden:"" help:"Spin on a CPU, and say how much work is done."`
	Paper    paperCommand    `cmd:"" help:"Drive the scheduler through a model of the 1996 testbed in virtual time, and hold it against the paper's figures."`
	Model    modelCommand    `cmd:"" help:"The same at today's scale, with costs measured on this machine: where livelock would begin. A model."`
	Plain    plainCommand    `cmd:"" hidden:"" help:"The plain AF_XDP loop, from in0 to out0 of this network namespace."`
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
