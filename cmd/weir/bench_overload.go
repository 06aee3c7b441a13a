package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"weir/bench"
	"weir/internal/host"
)

// overloadCommand is `weir bench overload`.
type overloadCommand struct {
	labFlags `embed:""`
	DUT      []string `name:"dut" enum:"weir,off,plain,kernel" default:"weir,off,plain,kernel" help:"What to compare: weir, off (weir with --mechanisms off), plain (an AF_XDP loop), kernel (ip_forward)."`
	Variant  []string `placeholder:"\"KEY=VALUE …\"" sep:"none" help:"Also compare a weir with these keys set; repeat for more."`
	Rates    []string `placeholder:"X,…" help:"Rates to offer, as multiples of weir's MLFRR in the placement, or max (default 0.25,0.5,0.75,0.9,1,1.25,1.5,2,4,max)."`
	Rate     []string `placeholder:"PPS,…" help:"Rates to offer in packets per second, such as 800k or 1.2M, or max. Without --rates no MLFRR is searched."`
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

MLFRR is the highest rate at which one of three trials of half a second loses no more than 0.1 %, found to within 3 %.
Each device then gets the same rates. A trial is invalid when others use more than 2 % of CPU 0 or CPU 1, when the
hypervisor takes more than 2 %, or when the generator misses 99 % of its rate; it is repeated three times and then void.
Rates that the generator does not reach beside a device are left out for that device.

Verdict, by the worst rate beyond the MLFRR, as a part of the device's peak (or of what was offered, if less):
flat from 90 %, falls from 25 %, livelock below.

Exit code 1: weir's own livelock watchdog fired, or something failed.`
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
	duts, err := c.duts()
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
	if n := result.Livelocks(); n > 0 {
		err = errors.Join(err, fmt.Errorf("the livelock watchdog fired %d times", n))
	}
	return err
}

func (c *overloadCommand) check() error {
	if c.Reverse < 0 || c.Reverse > maxReverse {
		return fmt.Errorf("--reverse %d: must be 0 to %d packets per second", c.Reverse, maxReverse)
	}
	return c.labFlags.check()
}

// maxReverse keeps the traffic against the flood light: it shares the generator's CPU.
const maxReverse = 10000

// points are the rates asked for, the multiples first.
func (c *overloadCommand) points() ([]bench.Point, error) {
	if len(c.Rates) == 0 && len(c.Rate) == 0 {
		return bench.DefaultPoints, nil
	}
	var points []bench.Point
	for _, s := range c.Rates {
		p, err := bench.ParseMultiple(s)
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
	return points, nil
}

// duts are the devices asked for, variants last.
func (c *overloadCommand) duts() ([]bench.DUT, error) {
	var duts []bench.DUT
	for _, name := range c.DUT {
		switch name {
		case "weir":
			duts = append(duts, bench.DUTWeir(name, c.weirArgs()...))
		case "off":
			duts = append(duts, bench.DUTWeir("weir off", append(c.weirArgs(), mechanismsOff()...)...))
		case "plain":
			duts = append(duts, bench.DUTPlain(name))
		case "kernel":
			duts = append(duts, bench.DUTKernel(name))
		}
	}
	for _, variant := range c.Variant {
		args := c.weirArgs()
		keys := strings.Fields(variant)
		for _, assignment := range keys {
			if !strings.Contains(assignment, "=") {
				return nil, fmt.Errorf("--variant %q: %q is no key=value", variant, assignment)
			}
			args = append(args, "--set", assignment)
		}
		duts = append(duts, bench.DUTWeir("weir "+strings.Join(keys, " "), args...))
	}
	seen := map[string]bool{}
	for _, d := range duts {
		if seen[d.Name] {
			return nil, fmt.Errorf("%s is compared twice", d.Name)
		}
		seen[d.Name] = true
	}
	if len(duts) == 0 {
		return nil, errors.New("--dut: nothing to measure")
	}
	return duts, nil
}

// mechanismsOff are the arguments of a weir without what keeps it from livelock.
func mechanismsOff() []string {
	if _, ok := reflect.TypeFor[runCommand]().FieldByName("Mechanisms"); ok {
		return []string{"--mechanisms", "off"}
	}
	return []string{
		"--set", "poller.quota=inf", "--set", "poller.feedback=off", "--set", "poller.cpu_share.limit=100%", "--set", "poller.early_discard=ring",
	}
}

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
	lock interface{ Close() error }
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
