package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sensitivity tells what changing one constant by ten percent, either way, does
// to the plateaus.
type Sensitivity struct {
	Constant Constant `json:"constant"`
	Less     []Effect `json:"less_10_percent"`
	More     []Effect `json:"more_10_percent"`
}

// Effect is a change of one curve's plateau, in percent of the curve's peak in
// the paper; for figure 7-1 in points.
type Effect struct {
	Curve  string  `json:"curve"`
	Change float64 `json:"change"`
}

// sensitivities tries every constant but the length of a trial.
func sensitivities(ctx context.Context, bed Testbed, curves []Curve) ([]Sensitivity, error) {
	// Three points beyond the knee of each curve are enough for its plateau.
	few := slices.Clone(curves)
	for i := range few {
		far := slices.DeleteFunc(slices.Clone(few[i].Paper), func(p Point) bool { return p.X < few[i].knee() })
		few[i].Paper = []Point{far[0], far[len(far)/2], far[len(far)-1]}
	}
	base, err := simulate(ctx, &bed, few, 1)
	if err != nil {
		return nil, err
	}
	var list []Sensitivity
	for i, c := range bed.Constants() {
		if c.Name == "Packets" {
			continue
		}
		s := Sensitivity{Constant: c}
		for _, side := range []struct {
			factor float64
			to     *[]Effect
		}{{0.9, &s.Less}, {1.1, &s.More}} {
			changed := bed
			field := &changed.Constants()[i]
			field.set(c.Value * side.factor)
			if field.Value == c.Value {
				field.set(c.Value + math.Copysign(1, side.factor-1)) // a small whole number
			}
			series, err := simulate(ctx, &changed, few, 1)
			if err != nil {
				return nil, err
			}
			for j := range few {
				scale := 1.0
				if !few[j].user() {
					scale = 100 / peak(curves[j].Paper)
				}
				*side.to = append(*side.to, Effect{few[j].String(), scale * (few[j].plateau(series[j]) - few[j].plateau(base[j]))})
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// largest names the strongest effects, those under half a percent left out.
func largest(effects []Effect, n int) string {
	sorted := slices.SortedFunc(slices.Values(effects), func(a, b Effect) int {
		return cmp.Compare(math.Abs(b.Change), math.Abs(a.Change))
	})
	var words []string
	for _, e := range sorted[:n] {
		if math.Abs(e.Change) >= 0.5 {
			words = append(words, fmt.Sprintf("%s %+.1f", e.Curve, e.Change))
		}
	}
	if words == nil {
		return "–"
	}
	return strings.Join(words, ", ")
}
