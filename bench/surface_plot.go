package bench

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette is readable in print and for the colour-blind (Okabe and Ito).
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {0, 0, 0, 255},
}

// glyphs tell the backlogs apart.
var glyphs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.PyramidGlyph{}, draw.SquareGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// surfaceFigures are what is drawn over the timeout.
var surfaceFigures = []struct {
	name, label string
	of          func(SurfaceRow) float64
}{
	{"delivered", "delivered by both egresses, Mpps", func(r SurfaceRow) float64 { return (r.Healthy.Median + r.Second.Median) / 1e6 }},
	{"healthy-p99", "99 % of delays through the healthy egress, ms", func(r SurfaceRow) float64 { return r.HealthyP99.Median / 1e3 }},
	{"second-p99", "99 % of delays through the slow egress, ms", func(r SurfaceRow) float64 { return r.SecondP99.Median / 1e3 }},
}

// WritePlots draws the surface over the timeout, a line for each pair of marks and backlog, as feedback-NAME-PLACEMENT.svg in dir, and
// returns the files.
func (r FeedbackResult) WritePlots(dir string) (files []string, err error) {
	rows := r.SurfaceRows()
	for _, placement := range Placements {
		for _, figure := range surfaceFigures {
			p := plot.New()
			p.Title.Text = fmt.Sprintf("Feedback with a slow egress beside a healthy one (%s)", placement)
			p.X.Label.Text, p.Y.Label.Text = "timeout, ms", figure.label
			p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
			p.Legend.Top = true
			p.Add(plotter.NewGrid())
			n, err := addSurface(p, rows, placement, figure.of)
			if err != nil {
				return files, fmt.Errorf("plot %s: %w", figure.name, err)
			}
			if n == 0 {
				continue
			}
			p.Y.Min, p.Y.Max = 0, max(p.Y.Max*1.5, 1e-3) // room for the legend
			file := filepath.Join(dir, fmt.Sprintf("feedback-%s-%s.svg", figure.name, placement))
			if err := p.Save(18*vg.Centimeter, 12*vg.Centimeter, file); err != nil {
				return files, fmt.Errorf("plot %s: %w", figure.name, err)
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// addSurface adds the lines of a placement and returns how many.
func addSurface(p *plot.Plot, rows []SurfaceRow, placement Placement, of func(SurfaceRow) float64) (int, error) {
	type line struct {
		high, low float64
		backlog   int
	}
	points := map[line]plotter.XYs{}
	var lines []line
	colours, shapes := map[float64]int{}, map[int]int{}
	for _, r := range rows {
		if r.Placement != placement || r.Trials == 0 {
			continue
		}
		l := line{r.Setting.High, r.Setting.Low, r.Setting.Backlog}
		if points[l] == nil {
			lines = append(lines, l)
		}
		if _, ok := colours[l.high]; !ok {
			colours[l.high] = len(colours)
		}
		if _, ok := shapes[l.backlog]; !ok {
			shapes[l.backlog] = len(shapes)
		}
		points[l] = append(points[l], plotter.XY{X: r.Setting.Timeout.Seconds() * 1e3, Y: of(r)})
	}
	for _, l := range lines {
		curve, marks, err := plotter.NewLinePoints(points[l])
		if err != nil {
			return 0, err
		}
		c := palette[colours[l.high]%len(palette)]
		curve.Color, curve.Width = c, vg.Points(1.2)
		marks.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(3), Shape: glyphs[shapes[l.backlog]%len(glyphs)]}
		p.Add(curve, marks)
		p.Legend.Add(fmt.Sprintf("%g/%g %%, backlog %d", l.high, l.low, l.backlog), curve, marks)
	}
	return len(lines), nil
}
