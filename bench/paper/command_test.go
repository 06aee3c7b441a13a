package paper

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// Main is the command as a program of its own: 0 the model holds, 1 it misses or could not run, 2 usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c Command
	parser, err := kong.New(&c, kong.Name("weir bench paper"), kong.Writers(stdout, stderr), kong.Exit(func(int) {}))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		fmt.Fprintln(stderr, "weir bench paper:", err)
		return 2
	}
	switch err := c.Run(ctx, stdout, stderr); {
	case err == nil:
		return 0
	case errors.Is(err, ErrUsage):
		fmt.Fprintln(stderr, "weir bench paper:", err)
		return 2
	default:
		fmt.Fprintln(stderr, "weir bench paper:", err)
		return 1
	}
}
