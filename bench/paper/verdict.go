package paper

import (
	"fmt"
	"math"
	"strings"

	"weir/poller"
)

// Check is one line of the table of errors: a quantity read off the paper's
// curve and off ours.
type Check struct {
	Curve    string  `json:"curve"`
	Role     string  `json:"role"` // calibrates or predicted
	Quantity string  `json:"quantity"`
	Paper    float64 `json:"paper"`
	Model    float64 `json:"model"`
	Error    string  `json:"error"`
	Limit    string  `json:"limit"`
	Met      bool    `json:"met"`
	// Required tells whether missing the limit fails the model. What is not
	// required is printed as met or missed all the same.
	Required bool   `json:"required"`
	Note     string `json:"note,omitempty"`
}

// limit is a bound on how far the model may be from the paper.
type limit struct {
	text string
	// off returns the error as it is printed and whether it is within.
	off func(paper, model float64) (string, bool)
}

func within(percent float64) limit {
	return limit{fmt.Sprintf("%g %%", percent), func(paper, model float64) (string, bool) {
		e := 100 * (model/paper - 1)
		return fmt.Sprintf("%+.1f %%", e), math.Abs(e) <= percent
	}}
}

func factor(f float64) limit {
	return limit{fmt.Sprintf("factor %g", f), func(paper, model float64) (string, bool) {
		e := model / paper
		return fmt.Sprintf("× %.2f", e), e <= f && e >= 1/f
	}}
}

func points(p float64) limit {
	return limit{fmt.Sprintf("%g points", p), func(paper, model float64) (string, bool) {
		e := model - paper
		return fmt.Sprintf("%+.1f points", e), math.Abs(e) <= p
	}}
}

func atMost(most float64, unit string) limit {
	return limit{fmt.Sprintf("at most %g%s", most, unit), func(_, model float64) (string, bool) {
		return fmt.Sprintf("%.1f%s", model, unit), model <= most
	}}
}

// checks compares one curve with the model's points at the same rates.
func (c *Curve) checks(model []Point) []Check {
	var list []Check
	add := func(quantity string, paper, model float64, l limit, required bool, note string) {
		check := Check{
			Curve: c.String(), Role: "predicted", Quantity: quantity,
			Paper: paper, Model: model, Limit: l.text, Required: required,
		}
		if c.Calibrates {
			check.Role = "calibrates"
		}
		if check.Error, check.Met = l.off(paper, model); !check.Met {
			check.Note = note
		}
		list = append(list, check)
	}

	if c.user() {
		add("plateau", c.plateau(c.Paper), c.plateau(model), points(3), true, "")
		add("rms", 0, rms(model, c.Paper), atMost(5, " points"), true, noteRise)
		return list
	}
	if l, ok := c.plateauLimit(); ok {
		add("plateau", c.plateau(c.Paper), c.plateau(model), l, true, notePlateau(c))
	}
	if c.Setup == polls(poller.Unlimited) {
		add("median beyond 6000", median(beyond(c.Paper, 6000)), median(beyond(model, 6000)), factor(2), true, "")
	}
	add("MLFRR", c.mlfrr(c.Paper), c.mlfrr(model), within(10), c.Calibrates, noteMLFRR(c))
	if c.collapses() {
		add("last point", last(c.Paper), last(model), factor(2), true, "")
	}
	if c.starves() {
		add("peak", peak(c.Paper), peak(model), within(30), true, noteScreen)
		add("tail of peak", 100*tail(c.Paper), 100*tail(model), atMost(25, " %"), true, "")
	}
	return list
}

// plateauLimit is how near the plateau must be; a curve that falls without end
// has none.
func (c *Curve) plateauLimit() (limit, bool) {
	switch {
	case c.Calibrates:
		return within(5), true
	case c.starves():
		return limit{}, false
	case c.Setup == polls(poller.Unlimited):
		return factor(2), true
	case c.Setup == polls(100), c.Name == "no_polling":
		return within(15), true
	}
	return within(8), true
}

// collapses tells whether the paper's curve falls towards nothing.
func (c *Curve) collapses() bool {
	return c.starves() || !c.Setup.Polling || c.Setup == polls(poller.Unlimited) || c.Setup == polls(100)
}

// starves tells whether the screening process is what gets no CPU.
func (c *Curve) starves() bool { return c.Setup.Screen && c.Setup.Feedback == FeedbackOff }

// tail is the largest y at and beyond 7000 packets/s, as a part of the peak.
func tail(points []Point) float64 {
	worst := 0.0
	for _, y := range beyond(points, 7000) {
		worst = max(worst, y)
	}
	return worst / peak(points)
}

// What is known of the curves that miss.
const (
	noteScreen = "the paper loses packets at rates where the model's CPU still has room"
	noteBurst  = "one burst of the daemons more or less in a trial decides between two neighbouring points"
	noteRise   = "between 1,200 and 3,000 packets/s the cost of an unbatched packet decides"
)

func notePlateau(c *Curve) string {
	if c.Name == "no_polling" {
		return "the paper finds this kernel slower than the unmodified one and does not know why; the model has no reason to"
	}
	return ""
}

func noteMLFRR(c *Curve) string {
	switch {
	case c.starves():
		return noteScreen
	case c.Setup.Screen:
		return noteBurst
	}
	return ""
}

// Order is a statement about several curves together.
type Order struct {
	Says  string `json:"says"`
	Paper string `json:"paper"`
	Model string `json:"model"`
	Holds bool   `json:"holds"`
}

// orders checks that a longer quota delivers less in figure 6-5, and that this
// disappears in figure 6-6.
func orders(curves []Curve, series [][]Point) []Order {
	plateaus := func(of func(quota poller.Quota) Setup, quotas ...poller.Quota) (paper, model []float64) {
		for _, q := range quotas {
			for i := range curves {
				if curves[i].Setup == of(q) {
					paper = append(paper, curves[i].plateau(curves[i].Paper))
					model = append(model, curves[i].plateau(series[i]))
				}
			}
		}
		return paper, model
	}
	paper5, model5 := plateaus(polls, 5, 10, 20, 100, poller.Unlimited)
	falls := Order{Says: "6-5: plateaus of quota 5 > 10 > 20 > 100 > inf", Paper: join(paper5), Model: join(model5), Holds: true}
	for i := 1; i < len(model5); i++ {
		falls.Holds = falls.Holds && model5[i] < model5[i-1]
	}
	paper6, model6 := plateaus(screens, 5, 10, 20, 100, poller.Unlimited)
	least, most := model6[0], model6[0]
	for _, y := range model6 {
		least, most = min(least, y), max(most, y)
	}
	flat := Order{Says: "6-6: the same quotas within 10 % of each other", Paper: join(paper6), Model: join(model6), Holds: most <= 1.1*least}
	return []Order{falls, flat}
}

func join(ys []float64) string {
	words := make([]string, len(ys))
	for i, y := range ys {
		words[i] = fmt.Sprintf("%.0f", y)
	}
	return strings.Join(words, " ")
}
