package model

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Command is `weir bench model`: its fields are the flags.
type Command struct {
	Mode   Mode      `enum:"zerocopy,copy" default:"zerocopy" help:"How frames pass between device and socket."`
	Frame  int       `default:"64" help:"Bytes of a frame, 64 to 1518."`
	Cores  []int     `default:"1,2,4,8,16,32,64" help:"Numbers of cores that forward."`
	Queues int       `default:"0" help:"Receive queues of the port; 0 is one for each core."`
	Rates  []float64 `default:"10,25,40,100,200,400" help:"Rates of the port in Gbit/s, up to 400."`
	JSON   bool      `name:"json" help:"Print the report as JSON instead of the table."`
}

// ErrUsage is wrapped when the flags make no sense.
var ErrUsage = errors.New("usage")

// Run measures, plays and prints to stdout.
func (c *Command) Run(ctx context.Context, stdout, _ io.Writer) error {
	if c.Frame < 64 || c.Frame > 1518 {
		return fmt.Errorf("%w: --frame %d: give 64 to 1518 bytes", ErrUsage, c.Frame)
	}
	if c.Queues < 0 {
		return fmt.Errorf("%w: --queues %d: give a number of queues, or 0 for one a core", ErrUsage, c.Queues)
	}
	for _, n := range c.Cores {
		if n < 1 {
			return fmt.Errorf("%w: --cores %d: give at least 1", ErrUsage, n)
		}
	}
	for _, g := range c.Rates {
		if !(g > 0 && g <= 400) {
			return fmt.Errorf("%w: --rates %g: give more than 0 and at most 400 Gbit/s", ErrUsage, g)
		}
	}
	report, err := Run(ctx, Options{Mode: c.Mode, Frame: c.Frame, Cores: c.Cores, Queues: c.Queues, Rates: c.Rates})
	if err != nil {
		return err
	}
	if c.JSON {
		return report.WriteJSON(stdout)
	}
	return report.WriteTable(stdout)
}
