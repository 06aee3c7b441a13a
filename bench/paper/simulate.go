package paper

import (
	"context"
	"runtime"
	"sync"
)

// simulate runs the trials of some curves at the paper's offered rates, each
// point with so many seeds, and returns the medians. Trials are spread over the
// CPUs; the result does not depend on how.
func simulate(ctx context.Context, bed *Testbed, curves []Curve, seeds int) ([][]Point, error) {
	type job struct{ curve, point int }
	jobs := make(chan job)
	series := make([][]Point, len(curves))
	for i := range curves {
		series[i] = make([]Point, len(curves[i].Paper))
	}
	var once sync.Once
	var failed error
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for j := range jobs {
				c := &curves[j.curve]
				y, err := c.at(bed, j.point, seeds)
				if err != nil {
					once.Do(func() { failed = err })
				}
				series[j.curve][j.point] = Point{c.Paper[j.point].X, y}
			}
		})
	}
	for i := range curves {
		for j := range curves[i].Paper {
			if ctx.Err() == nil {
				jobs <- job{i, j}
			}
		}
	}
	close(jobs)
	workers.Wait()
	if failed == nil {
		failed = ctx.Err()
	}
	return series, failed
}

// at is the median of a point over some seeds.
func (c *Curve) at(bed *Testbed, point, seeds int) (float64, error) {
	ys := make([]float64, seeds)
	for s := range ys {
		// Seeds differ from point to point, so that no accident of one
		// source shows in a whole curve.
		outcome, err := Trial(bed, c.Setup, c.Paper[point].X, uint64(1000*point+s))
		if err != nil {
			return 0, err
		}
		ys[s] = outcome.Output
		if c.user() {
			ys[s] = outcome.User
		}
	}
	return median(ys), nil
}
