package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weir/xdpprog"
)

// Point is a rate to offer: a multiple of a maximum loss-free receive rate, packets per second, or as fast as the generator goes.
type Point struct {
	// Multiple is of the MLFRR of the placement; 0 when the rate does not depend on it.
	Multiple float64
	// PPS is packets per second; 0 is as fast as the generator goes.
	PPS uint64
}

// MaxPoint is as fast as the generator goes.
var MaxPoint = Point{}

// DefaultPoints are the rates of an overload when none are asked for.
var DefaultPoints = []Point{
	{Multiple: 0.25}, {Multiple: 0.5}, {Multiple: 0.75}, {Multiple: 0.9}, {Multiple: 1}, {Multiple: 1.25}, {Multiple: 1.5}, {Multiple: 2},
	{Multiple: 4}, MaxPoint,
}

// ParsePoint reads a multiple, such as "0.5" or "0.5x", packets per second with a unit, such as "800k" or "1.2M", or "max".
func ParsePoint(s string) (Point, error) {
	if s == "max" {
		return MaxPoint, nil
	}
	if strings.HasSuffix(s, "k") || strings.HasSuffix(s, "M") {
		return ParseRate(s)
	}
	m, err := strconv.ParseFloat(strings.TrimSuffix(s, "x"), 64)
	if err != nil || !(m > 0) || m > 1000 {
		return Point{}, fmt.Errorf("rate %q: must be a multiple of the MLFRR, such as 0.5, or packets per second with a unit, such as 800k, or max", s)
	}
	return Point{Multiple: m}, nil
}

// ParseRate reads packets per second, such as 800k or 1.2M, or "max".
func ParseRate(s string) (Point, error) {
	if s == "max" {
		return MaxPoint, nil
	}
	number, unit := s, 1.
	switch {
	case strings.HasSuffix(s, "k"):
		number, unit = s[:len(s)-1], 1e3
	case strings.HasSuffix(s, "M"):
		number, unit = s[:len(s)-1], 1e6
	}
	v, err := strconv.ParseFloat(number, 64)
	pps := math.Round(v * unit)
	if err != nil || !(pps >= 1) || pps > xdpprog.MaxRate {
		return Point{}, fmt.Errorf("rate %q: must be packets per second, such as 800k or 1.2M, or max", s)
	}
	return Point{PPS: uint64(pps)}, nil
}

// String is how the rate was asked for.
func (p Point) String() string {
	switch {
	case p.Multiple > 0:
		return strconv.FormatFloat(p.Multiple, 'g', -1, 64) + "x"
	case p.PPS > 0:
		return formatRate(float64(p.PPS))
	}
	return "max"
}

// at is the point with its rate known.
func (p Point) at(mlfrr uint64) Point {
	if p.Multiple > 0 {
		p.PPS = uint64(math.Round(p.Multiple * float64(mlfrr)))
	}
	return p
}

// relative tells whether any of the points depends on the MLFRR.
func relative(points []Point) bool {
	for _, p := range points {
		if p.Multiple > 0 {
			return true
		}
	}
	return false
}

// formatRate writes packets per second in k or M, without zeros at the end.
func formatRate(pps float64) string {
	switch {
	case pps >= 1e6:
		return strconv.FormatFloat(math.Round(pps/1e3)/1e3, 'g', -1, 64) + "M"
	case pps >= 1e3:
		return strconv.FormatFloat(math.Round(pps/1e2)/1e1, 'g', -1, 64) + "k"
	}
	return strconv.FormatFloat(math.Round(pps), 'g', -1, 64)
}
