package paper

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// WriteJSON writes the whole report.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// WriteTable writes the table of errors, the orders, the controls, and the
// constants with their sensitivities.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s; median of %d seeds\n\n", r.Source, r.Seeds)
	fmt.Fprintln(t, "curve\trole\tquantity\tpaper\tmodel\terror\tlimit\tverdict")
	for _, c := range r.Checks {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Curve, c.Role, c.Quantity, number(c.Paper), number(c.Model), c.Error, c.Limit, verdict(c))
	}
	fmt.Fprintln(t)
	for _, o := range r.Orders {
		fmt.Fprintf(t, "order\t%s\tpaper %s\tmodel %s\t%s\n", o.Says, o.Paper, o.Model, yes(o.Holds, "holds", "DOES NOT HOLD"))
	}
	fmt.Fprintln(t)
	for _, c := range r.Controls {
		fmt.Fprintf(t, "control without %s\tmust break %q\t%s\t%s\n", c.Takes, c.Breaks, c.Found, yes(c.Broken, "broken", "NOT BROKEN"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.writeConstants(w); err != nil {
		return err
	}
	calibrate, predicted := r.roles()
	_, err := fmt.Fprintf(w, "\n%d curves, %d of them calibrate and %d are predicted; %s\n",
		len(r.Curves), calibrate, predicted, r.summary())
	return err
}

func (r *Report) writeConstants(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nconstant\tvalue\t\tfitted\tmeaning")
	for _, c := range r.Constants {
		fmt.Fprintf(t, "%s\t%.4g\t%s\t%s\t%s\n", c.Name, c.Value, c.Unit, yes(c.Fitted, "yes", "no"), c.Meaning)
	}
	if r.Sensitivities != nil {
		fmt.Fprintln(t, "\nsensitivity\tplateaus that change most, in percent of the curve's peak (7-1: points)")
		for _, s := range r.Sensitivities {
			fmt.Fprintf(t, "%s −10 %%\t%s\n%s +10 %%\t%s\n", s.Constant.Name, largest(s.Less, 3), s.Constant.Name, largest(s.More, 3))
		}
	}
	return t.Flush()
}

func (r *Report) roles() (calibrate, predicted int) {
	for _, s := range r.Curves {
		if s.Calibrates {
			calibrate++
		} else {
			predicted++
		}
	}
	return calibrate, predicted
}

func (r *Report) summary() string {
	required, met := 0, 0
	for _, c := range r.Checks {
		if c.Required {
			required++
			if c.Met {
				met++
			}
		}
	}
	return fmt.Sprintf("%d of %d required limits met: %s", met, required, yes(r.OK(), "the model holds", "THE MODEL MISSES"))
}

func verdict(c Check) string {
	v := yes(c.Met, "met", "MISSED")
	if !c.Met && !c.Required {
		v = "missed (not required)"
	}
	if c.Note != "" {
		v += ": " + c.Note
	}
	return v
}

func number(x float64) string {
	if math.Abs(x) < 100 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}

func yes(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
