package model

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/alecthomas/kong"
)

// Main is the command as a program of its own: 0 done, 1 it could not run, 2 usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c Command
	parser, err := kong.New(&c, kong.Name("weir bench model"), kong.Writers(stdout, stderr), kong.Exit(func(int) {}))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		fmt.Fprintln(stderr, "weir bench model:", err)
		return 2
	}
	if err = c.Run(ctx, stdout, stderr); err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "weir bench model:", err)
	if errors.Is(err, ErrUsage) {
		return 2
	}
	return 1
}
