package paper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Command is `weir bench paper`: its fields are the flags.
type Command struct {
	Seeds int    `default:"9" help:"Trials each point is the median of."`
	Out   string `placeholder:"DIR" type:"path" help:"Write plots (SVG, PNG), report.json and table.txt into this directory."`
	JSON  bool   `name:"json" help:"Print the report as JSON instead of the table."`
	Brief bool   `help:"Leave out the sensitivities."`
	Fit   int    `placeholder:"ROUNDS" help:"Fit the constants to the calibrating curves again, in so many rounds, and print them; nothing else is done."`
}

// ErrMisses is returned when the report was written and shows that the model
// misses: a limit, an order or a control.
var ErrMisses = errors.New("the model misses what it must show (see the table)")

// ErrUsage is wrapped when the flags make no sense.
var ErrUsage = errors.New("usage")

// Run runs the model and writes its results: the table or the JSON to stdout,
// what takes long to stderr.
func (c *Command) Run(ctx context.Context, stdout, stderr io.Writer) error {
	if c.Seeds < 1 {
		return fmt.Errorf("%w: --seeds %d: a median needs at least one trial", ErrUsage, c.Seeds)
	}
	if c.Fit > 0 {
		bed, err := Fit(ctx, DEC1996(), c.Fit, stderr)
		for _, k := range bed.Constants() {
			fmt.Fprintln(stdout, k)
		}
		return err
	}
	report, err := Run(ctx, Options{Seeds: c.Seeds, NoSensitivities: c.Brief, Progress: stderr})
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := report.save(c.Out, stderr); err != nil {
			return err
		}
	}
	if c.JSON {
		err = report.WriteJSON(stdout)
	} else {
		err = report.WriteTable(stdout)
	}
	if err == nil && !report.OK() {
		err = ErrMisses
	}
	return err
}

// save writes every form of the report into dir.
func (r *Report) save(dir string, log io.Writer) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("save report: %w", err)
	}
	files, err := r.WritePlots(dir)
	if err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{"report.json": r.WriteJSON, "table.txt": r.WriteTable} {
		name = filepath.Join(dir, name)
		if err := writeFile(name, write); err != nil {
			return fmt.Errorf("save report: %w", err)
		}
		files = append(files, name)
	}
	fmt.Fprintf(log, "wrote %d files to %s\n", len(files), dir)
	return nil
}

func writeFile(name string, write func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
