package paper

import (
	"context"
	"fmt"
	"io"
	"math"
)

// Fit brings the calibrating curves closer to the paper's by changing the
// fitted constants, and returns the best set found. It sees no other curve.
//
// It is damped least squares (Levenberg and Marquardt) on the logarithms of the
// constants. Residuals are what misfit lists; derivatives are differences over
// six percent, wide enough for the scatter of trials not to hide them. The same
// arguments give the same result.
func Fit(ctx context.Context, bed Testbed, rounds int, progress io.Writer) (Testbed, error) {
	curves, err := Curves()
	if err != nil {
		return bed, err
	}
	f := fitting{start: bed}
	for _, c := range curves {
		if c.Calibrates {
			f.curves = append(f.curves, c)
		}
	}
	best, err := f.misfit(ctx, bed)
	if err != nil {
		return bed, err
	}
	damping := 0.1
	for round := range rounds {
		slopes, err := f.slopes(ctx, bed, best)
		if err != nil {
			return bed, err
		}
		found := false
		for range 6 {
			next := f.step(bed, slopes, best, damping)
			m, err := f.misfit(ctx, next)
			if err != nil {
				return bed, err
			}
			if norm(m) < norm(best) {
				bed, best, damping, found = next, m, damping/3, true
				break
			}
			damping *= 4
		}
		fmt.Fprintf(progress, "round %d: misfit %.2f: %+v %+v\n", round, norm(best), bed.Costs, bed.Traffic)
		if !found {
			break
		}
	}
	return bed, nil
}

// fitting is what stays the same during a fit.
type fitting struct {
	start  Testbed
	curves []Curve
}

// fitSeeds is how many trials a point is the median of while fitting.
const fitSeeds = 3

// misfit lists the residuals, each in units of what we would call a good
// agreement: for every curve its plateau, all its points, and the losses where
// the paper has none; and for every constant a weak pull to where it started.
func (f *fitting) misfit(ctx context.Context, bed Testbed) ([]float64, error) {
	series, err := simulate(ctx, &bed, f.curves, fitSeeds)
	if err != nil {
		return nil, err
	}
	var list []float64
	for i := range f.curves {
		c, model := &f.curves[i], series[i]
		plateau, point := 0.01*c.plateau(c.Paper), 0.03*peak(c.Paper)
		if c.user() {
			plateau, point = 1, 2.5
		}
		list = append(list, (c.plateau(model)-c.plateau(c.Paper))/plateau)
		each := 1 / (point * math.Sqrt(float64(len(model))))
		for j, p := range model {
			list = append(list, each*(p.Y-c.Paper[j].Y))
			if !c.user() && p.X <= c.mlfrr(c.Paper) {
				list = append(list, max(0, c.lossFree()*p.X-p.Y)/(0.01*p.X))
			}
		}
	}
	was := f.start.Constants()
	for i, k := range bed.Constants() {
		if k.Fitted {
			list = append(list, 2*math.Log(k.Value/was[i].Value))
		}
	}
	return list, nil
}

// slopes returns the change of every residual with the logarithm of each fitted
// constant.
func (f *fitting) slopes(ctx context.Context, bed Testbed, base []float64) ([][]float64, error) {
	const by = 0.06
	var slopes [][]float64
	for i, k := range bed.Constants() {
		if !k.Fitted {
			continue
		}
		next := bed
		field := &next.Constants()[i]
		field.set(k.Value * math.Exp(by))
		m, err := f.misfit(ctx, next)
		if err != nil {
			return nil, err
		}
		for j := range m {
			m[j] = (m[j] - base[j]) / by
		}
		slopes = append(slopes, m)
	}
	return slopes, nil
}

// step solves (JᵀJ + damping·1) d = −Jᵀr and moves the constants by d.
func (f *fitting) step(bed Testbed, slopes [][]float64, r []float64, damping float64) Testbed {
	n := len(slopes)
	a := make([][]float64, n)
	for i := range a {
		a[i] = make([]float64, n+1)
		for j := range n {
			a[i][j] = dot(slopes[i], slopes[j])
		}
		a[i][i] += damping * (1 + a[i][i])
		a[i][n] = -dot(slopes[i], r)
	}
	d := solve(a)
	next := bed
	i := 0
	for _, k := range next.Constants() {
		if k.Fitted {
			// No constant moves by more than a third at once.
			k.set(k.Value * math.Exp(max(-0.3, min(0.3, d[i]))))
			i++
		}
	}
	return next
}

// solve eliminates in place: each row is a line of a matrix that is symmetric
// and positive, and its right side.
func solve(a [][]float64) []float64 {
	n := len(a)
	for i := range n {
		for k := i + 1; k < n; k++ {
			q := a[k][i] / a[i][i]
			for j := i; j <= n; j++ {
				a[k][j] -= q * a[i][j]
			}
		}
	}
	x := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		x[i] = a[i][n]
		for j := i + 1; j < n; j++ {
			x[i] -= a[i][j] * x[j]
		}
		x[i] /= a[i][i]
	}
	return x
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func norm(r []float64) float64 { return dot(r, r) }
