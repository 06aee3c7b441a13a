package paper

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"

	"weir/poller"
)

// mogul96_figures.csv holds 539 points read off figures 6-1, 6-3, 6-4, 6-5, 6-6
// and 7-1 of J. Mogul and K. K. Ramakrishnan, "Eliminating Receive Livelock in
// an Interrupt-Driven Kernel", USENIX 1996. Columns: fig, curve, input_pps, y;
// y is output packets/s, and in 7-1 percent of the CPU for the user process.
//
//go:embed mogul96_figures.csv
var figuresCSV []byte

//go:embed calibrate.txt
var calibrateTXT []byte

// Point is one mark of a figure: one trial in the paper.
type Point struct {
	X float64 `json:"input_pps"`
	Y float64 `json:"y"`
}

// Curve is one of the 18 independent curves.
type Curve struct {
	Figure, Name string
	Setup        Setup
	Calibrates   bool // its points were used to fit the costs
	Paper        []Point
}

// String returns figure and name.
func (c *Curve) String() string { return c.Figure + " " + c.Name }

// user tells whether the curve's y is user time, not output.
func (c *Curve) user() bool { return c.Setup.Compute }

// setups names the independent curves. The six other labels of the CSV are the
// same trials drawn again in another figure, or two stray points.
var setups = []Curve{
	{Figure: "6-1", Name: "unmodified_no_screend"},
	{Figure: "6-1", Name: "unmodified_screend", Setup: Setup{Screen: true}},
	// The modified kernel acting as the old one. The paper finds it a little
	// slower and says it does not know why; so there is nothing to model.
	{Figure: "6-3", Name: "no_polling"},
	{Figure: "6-3", Name: "polling_no_quota", Setup: polls(poller.Unlimited)},
	{Figure: "6-3", Name: "polling_quota5", Setup: polls(5)},
	{Figure: "6-4", Name: "polling_feedback", Setup: screens(20)},
	{Figure: "6-4", Name: "polling_no_feedback", Setup: Setup{Polling: true, Quota: 10, Screen: true}},
	{Figure: "6-5", Name: "quota10", Setup: polls(10)},
	{Figure: "6-5", Name: "quota20", Setup: polls(20)},
	{Figure: "6-5", Name: "quota100", Setup: polls(100)},
	{Figure: "6-6", Name: "quota5", Setup: screens(5)},
	{Figure: "6-6", Name: "quota10", Setup: screens(10)},
	{Figure: "6-6", Name: "quota100", Setup: screens(100)},
	{Figure: "6-6", Name: "quota_inf", Setup: screens(poller.Unlimited)},
	{Figure: "7-1", Name: "thr25", Setup: shares(25)},
	{Figure: "7-1", Name: "thr50", Setup: shares(50)},
	{Figure: "7-1", Name: "thr75", Setup: shares(75)},
	{Figure: "7-1", Name: "thr100", Setup: shares(100)},
}

func polls(q poller.Quota) Setup { return Setup{Polling: true, Quota: q} }

func screens(q poller.Quota) Setup {
	return Setup{Polling: true, Quota: q, Screen: true, Feedback: FeedbackInTurn}
}

func shares(limit float64) Setup {
	return Setup{Polling: true, Quota: 5, Share: limit, Compute: true}
}

// Curves returns the 18 independent curves with the paper's points.
func Curves() ([]Curve, error) {
	points, err := readFigures()
	if err != nil {
		return nil, err
	}
	calibrates, err := readCalibration()
	if err != nil {
		return nil, err
	}
	curves := append([]Curve(nil), setups...)
	for i := range curves {
		c := &curves[i]
		if c.Paper = points[c.String()]; c.Paper == nil {
			return nil, fmt.Errorf("read figures: curve %s: no points: name a curve of mogul96_figures.csv", c)
		}
		c.Calibrates = calibrates[c.String()]
		delete(calibrates, c.String())
	}
	for name := range calibrates {
		return nil, fmt.Errorf("read calibrate.txt: %s: not one of the independent curves: correct its name", name)
	}
	return curves, nil
}

func readFigures() (map[string][]Point, error) {
	rows, err := csv.NewReader(bytes.NewReader(figuresCSV)).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read figures: %w", err)
	}
	points := make(map[string][]Point)
	for i, row := range rows[1:] {
		x, errX := strconv.ParseFloat(row[2], 64)
		y, errY := strconv.ParseFloat(row[3], 64)
		if errX != nil || errY != nil {
			return nil, fmt.Errorf("read figures: row %d: no number in %q", i+2, row)
		}
		name := row[0] + " " + row[1]
		points[name] = append(points[name], Point{x, y})
	}
	return points, nil
}

func readCalibration() (map[string]bool, error) {
	names := make(map[string]bool)
	lines := bufio.NewScanner(bytes.NewReader(calibrateTXT))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) < 2 {
			return nil, fmt.Errorf("read calibrate.txt: %q: give figure and curve", lines.Text())
		}
		names[fields[0]+" "+fields[1]] = true
	}
	return names, lines.Err()
}
