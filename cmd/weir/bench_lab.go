package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"weir/bench"
	"weir/internal/host"
)

// labFlags are what the measurements of the lab have in common.
type labFlags struct {
	Placement []string      `enum:"pipeline,same-core,outranking" default:"pipeline,same-core,outranking" help:"Where the receive work of in0 runs: pipeline, same-core, outranking."`
	Trials    int           `help:"Valid trials of each device at each rate." default:"5"`
	WarmUp    time.Duration `name:"warm-up" help:"Time before the measured time of each trial, under the same load: a period of the kernel's real-time throttling, and many of whatever weir learns by." default:"1s"`
	Duration  time.Duration `help:"Measured time of each trial; at least 1s, since CPU times come in ticks of 10 ms, and best a whole number of seconds." default:"2s"`
	MaxOthers float64       `name:"max-others" default:"0.02" help:"What other processes, and what the hypervisor, may take of a CPU in a valid trial."`
	Wait      bool          `help:"Wait while another lab measures on this machine."`
	Set       []string      `placeholder:"KEY=VALUE" sep:"none" help:"Set a key of weir's configuration; repeat for more."`
}

func (f *labFlags) check() error {
	switch {
	case f.Trials < 1:
		return fmt.Errorf("--trials %d: must be above zero", f.Trials)
	case f.Duration < minDuration:
		return fmt.Errorf("--duration %s: must be at least %s", f.Duration, minDuration)
	case !(f.MaxOthers > 0):
		return fmt.Errorf("--max-others %g: must be above 0", f.MaxOthers)
	case f.WarmUp < 0:
		return fmt.Errorf("--warm-up %s: must not be negative", f.WarmUp)
	}
	return nil
}

// minDuration leaves the ticks of CPU times an error of a few per cent at most; trials that count want a second.
const minDuration = 100 * time.Millisecond

func (f *labFlags) placements() []bench.Placement {
	var list []bench.Placement
	for _, p := range f.Placement {
		list = append(list, bench.Placement(p))
	}
	return list
}

// weirArgs are the arguments of every weir.
func (f *labFlags) weirArgs() []string {
	var args []string
	for _, assignment := range f.Set {
		args = append(args, "--set", assignment)
	}
	return args
}

// lab is the machine, taken for a measurement.
type lab struct {
	lock io.Closer
	out  output
	// progress shows a line on a terminal; nil elsewhere.
	progress func(string)
}

// open looks whether this process may measure, takes the machine and pins this process to where it disturbs least.
func (f *labFlags) open(ctx context.Context, out output) (*lab, error) {
	if err := host.Capabilities(); err != nil {
		return nil, err
	}
	lock, err := bench.Lock(ctx, f.Wait)
	if err != nil {
		return nil, err
	}
	if err := bench.PinLab(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	l := &lab{lock: lock, out: out}
	if isTerminal(out.Err) {
		l.progress = func(line string) { fmt.Fprintf(out.Err, "\r\x1b[K%s", line) }
	}
	return l, nil
}

// clear removes the line of progress.
func (l *lab) clear() {
	if l.progress != nil {
		l.progress("")
	}
}

// Close gives the machine back.
func (l *lab) Close() error { return l.lock.Close() }

// livelocked makes a failure of what weir's own watchdog found in trials.
func livelocked[T interface{ Livelocked() uint64 }](trials []T) error {
	var n uint64
	for _, t := range trials {
		n += t.Livelocked()
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("weir's livelock watchdog fired %d times", n)
}

// writeFile writes a file and says when that fails.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
