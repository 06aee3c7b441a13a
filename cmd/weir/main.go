// Command weir is a software router for Linux on AF_XDP that keeps delivering at its best rate however much more is offered.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// commands is the command line; each field is one command.
type commands struct {
	Run    runCommand    `cmd:"" help:"Forward between ports until SIGTERM or SIGINT. SIGHUP reloads the configuration."`
	Check  checkCommand  `cmd:"" help:"Validate the configuration, look for what would keep weir from running, print every key in force."`
	Demo   demoCommand   `cmd:"" help:"Build a router between two hosts in network namespaces, send traffic and a flood through it, account for every packet."`
	Stats  statsCommand  `cmd:"" help:"Print the counters of the weir that runs in this network namespace."`
	Reload reloadCommand `cmd:"" help:"Make the running weir read its configuration again, and print what changed."`
	Bench  benchCommand  `cmd:"" help:"Measure."`
}

// output is where a command writes: results to Out, messages to Err.
type output struct{ Out, Err io.Writer }

// usageError marks an error as the caller's: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// run is the whole program: it parses args, runs the command until it is done or ctx ends, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	parser, err := kong.New(&commands{},
		kong.Name("weir"),
		kong.Description("A software router on AF_XDP that does not livelock."),
		kong.UsageOnError(),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exitRequest(code)) }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(output{stdout, stderr}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "weir:", err)
		return exitFailure
	}
	return parseAndRun(parser, args, stderr)
}

// exitRequest is how kong's --help leaves.
type exitRequest int

func parseAndRun(parser *kong.Kong, args []string, stderr io.Writer) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case exitRequest:
			code = int(r)
		default:
			panic(r)
		}
	}()
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintln(stderr, "weir:", err)
		return exitUsage
	}
	err = command.Run()
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, "weir:", err)
	if errors.As(err, &usageError{}) {
		return exitUsage
	}
	return exitFailure
}
