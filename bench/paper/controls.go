package paper

import (
	"context"
	"fmt"

	"weir/poller"
)

// Control is an experiment in which one assumption is taken away: the model
// must then fail to show what the paper shows, or it shows nothing.
type Control struct {
	Takes  string `json:"takes"`  // the assumption taken away
	Breaks string `json:"breaks"` // what must no longer hold
	Found  string `json:"found"`
	Broken bool   `json:"broken"`
}

// controls runs all three.
func controls(ctx context.Context, bed Testbed, curves []Curve, seeds int) ([]Control, error) {
	var list []Control
	for _, run := range []func(context.Context, Testbed, []Curve, int) (Control, error){
		longRing, lateFeedback, poissonArrivals,
	} {
		c, err := run(ctx, bed, curves, seeds)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

// longRing: with a transmit ring as long as that of receive, a turn of 20 finds
// room for what it received.
func longRing(ctx context.Context, bed Testbed, curves []Curve, seeds int) (Control, error) {
	bed.TransmitRing = 32
	picked := pick(curves, polls(5), polls(20))
	series, err := simulate(ctx, &bed, picked, seeds)
	if err != nil {
		return Control{}, err
	}
	short, long := picked[0].plateau(series[0]), picked[1].plateau(series[1])
	return Control{
		Takes:  "a transmit ring of 8: it has 32",
		Breaks: "6-5: quota 20 collapses to less than 0.6 of quota 5",
		Found:  fmt.Sprintf("quota 5: %.0f, quota 20: %.0f", short, long),
		Broken: long > 0.9*short,
	}, nil
}

// lateFeedback: a turn that does not look at the screening queue goes on
// filling it.
func lateFeedback(ctx context.Context, bed Testbed, curves []Curve, seeds int) (Control, error) {
	picked := pick(curves, screens(5), screens(100), screens(poller.Unlimited))
	for i := range picked {
		picked[i].Setup.Feedback = FeedbackBetweenTurns
	}
	series, err := simulate(ctx, &bed, picked, seeds)
	if err != nil {
		return Control{}, err
	}
	var ys [3]float64
	for i := range ys {
		ys[i] = picked[i].plateau(series[i])
	}
	return Control{
		Takes:  "feedback within a turn: it is looked at only between turns",
		Breaks: "6-6: the same plateau for every quota",
		Found:  fmt.Sprintf("quota 5: %.0f, quota 100: %.0f, quota inf: %.0f", ys[0], ys[1], ys[2]),
		Broken: ys[1] < 0.8*ys[0] && ys[2] < 0.5*ys[0],
	}, nil
}

// poissonArrivals: bursts are taken in batches, which cost less, so that the
// user process gets time the paper's did not.
func poissonArrivals(ctx context.Context, bed Testbed, curves []Curve, seeds int) (Control, error) {
	bed.Jitter = 1
	picked := pick(curves, shares(25), shares(50), shares(75), shares(100))
	series, err := simulate(ctx, &bed, picked, seeds)
	if err != nil {
		return Control{}, err
	}
	found, worst := "rms", 0.0
	for i := range picked {
		e := rms(series[i], picked[i].Paper)
		worst = max(worst, e)
		found += fmt.Sprintf(" %s: %.1f", picked[i].Name, e)
	}
	return Control{
		Takes:  "nearly regular arrivals: they are Poisson",
		Breaks: "7-1: every rms at most 5 points",
		Found:  found,
		Broken: worst > 5,
	}, nil
}

// pick returns copies of the curves with these setups, in this order.
func pick(curves []Curve, setups ...Setup) []Curve {
	var picked []Curve
	for _, s := range setups {
		for _, c := range curves {
			if c.Setup == s {
				picked = append(picked, c)
			}
		}
	}
	return picked
}
