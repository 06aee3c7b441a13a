package bench

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// CSV writes trials, one line each.
type CSV struct{ w *csv.Writer }

// NewCSV writes the head.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{csv.NewWriter(w)}
	return c, c.write([]string{
		"placement", "rate", "dut", "number", "attempt", "asked_pps", "offered_pps", "delivered_pps", "lost", "user_cpus", "system_cpus",
		"foreign_cpu0", "stolen_cpu0", "foreign_cpu1", "stolen_cpu1", "reverse_sent", "reverse_received", "livelocks", "changed", "invalid",
	})
}

// Write writes a trial at once: a run that is cut short has what it measured.
func (c *CSV) Write(t Trial) error {
	float := func(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	line := []string{
		string(t.Placement), t.Rate, t.DUT, fmt.Sprint(t.Number), fmt.Sprint(t.Attempt), fmt.Sprint(t.Asked),
		float(t.Offered, 0), float(t.Delivered, 0), float(t.Lost, 6), float(t.User, 3), float(t.System, 3),
	}
	for _, cpu := range t.CPUs {
		line = append(line, float(cpu.Foreign, 4), float(cpu.Stolen, 4))
	}
	if t.Reverse != nil {
		line = append(line, fmt.Sprint(t.Reverse.Sent), fmt.Sprint(t.Reverse.Received))
	} else {
		line = append(line, "", "")
	}
	return c.write(append(line, fmt.Sprint(t.Livelocks), strings.Join(t.Changed, "; "), t.Invalid))
}

func (c *CSV) write(line []string) error {
	if err := c.w.Write(line); err != nil {
		return err
	}
	c.w.Flush()
	return c.w.Error()
}
