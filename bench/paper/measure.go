package paper

import (
	"math"
	"slices"
)

// The quantities by which curves are compared. Each is read the same way off
// the paper's points and off ours.

// plateau is the mean of y beyond the knee.
func (c *Curve) plateau(points []Point) float64 {
	sum, n := 0.0, 0
	for _, y := range beyond(points, c.knee()) {
		sum, n = sum+y, n+1
	}
	return sum / float64(n)
}

// knee is the x from which the paper's curve is flat.
func (c *Curve) knee() float64 {
	switch {
	case c.user():
		return 4200
	case c.Setup.Feedback != FeedbackOff:
		return 3400
	}
	return 6000
}

func beyond(points []Point, x float64) (ys []float64) {
	for _, p := range points {
		if p.X >= x {
			ys = append(ys, p.Y)
		}
	}
	return ys
}

// mlfrr is the highest offered rate at which nearly nothing is lost: 1 percent
// where packets are only forwarded, 2 where they are screened.
func (c *Curve) mlfrr(points []Point) (best float64) {
	for _, p := range points {
		if p.Y >= c.lossFree()*p.X {
			best = max(best, p.X)
		}
	}
	return best
}

func (c *Curve) lossFree() float64 {
	if c.Setup.Screen {
		return 0.98
	}
	return 0.99
}

func peak(points []Point) (best float64) {
	for _, p := range points {
		best = max(best, p.Y)
	}
	return best
}

func last(points []Point) float64 { return points[len(points)-1].Y }

// rms is the root of the mean squared difference of two curves at the same x.
func rms(a, b []Point) float64 {
	sum := 0.0
	for i := range a {
		sum += (a[i].Y - b[i].Y) * (a[i].Y - b[i].Y)
	}
	return math.Sqrt(sum / float64(len(a)))
}

// median sorts its argument.
func median(ys []float64) float64 {
	slices.Sort(ys)
	n := len(ys)
	return (ys[(n-1)/2] + ys[n/2]) / 2
}
