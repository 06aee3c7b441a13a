package paper

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// figures lists which curves each of the paper's figures shows.
var figures = []struct {
	number, title string
	curves        []string
}{
	{"6-1", "unmodified kernel", []string{"6-1 unmodified_no_screend", "6-1 unmodified_screend"}},
	{"6-3", "polling, no screen", []string{"6-1 unmodified_no_screend", "6-3 no_polling", "6-3 polling_no_quota", "6-3 polling_quota5"}},
	{"6-4", "polling, with screen", []string{"6-1 unmodified_screend", "6-4 polling_no_feedback", "6-4 polling_feedback"}},
	{"6-5", "quotas, no screen", []string{"6-3 polling_quota5", "6-5 quota10", "6-5 quota20", "6-5 quota100", "6-3 polling_no_quota"}},
	{"6-6", "quotas, with screen and feedback", []string{"6-6 quota5", "6-6 quota10", "6-4 polling_feedback", "6-6 quota100", "6-6 quota_inf"}},
	{"7-1", "CPU left to a user process, by share limit", []string{"7-1 thr25", "7-1 thr50", "7-1 thr75", "7-1 thr100"}},
}

// palette is readable in print and for the colour-blind (Okabe and Ito).
var palette = []color.RGBA{
	{0, 114, 178, 255}, {213, 94, 0, 255}, {0, 158, 115, 255}, {204, 121, 167, 255}, {0, 0, 0, 255},
}

// WritePlots draws each figure, the paper's marks over the model's lines, as
// figure-N.svg and figure-N.png in dir, and returns the files.
func (r *Report) WritePlots(dir string) (files []string, err error) {
	byName := make(map[string]Series, len(r.Curves))
	for _, s := range r.Curves {
		byName[s.Figure+" "+s.Name] = s
	}
	for _, f := range figures {
		p := plot.New()
		p.Title.Text = fmt.Sprintf("Figure %s: %s (marks: paper 1996; lines: model)", f.number, f.title)
		p.X.Label.Text = "offered, packets/s"
		p.Y.Label.Text = "delivered, packets/s"
		if f.number == "7-1" {
			p.Y.Label.Text = "user process, % of the CPU"
		}
		p.X.Min, p.Y.Min = 0, 0
		p.X.Tick.Marker, p.Y.Tick.Marker = wholeTicks{}, wholeTicks{}
		p.Legend.Top = true
		p.Add(plotter.NewGrid())
		for i, name := range f.curves {
			if err := addCurve(p, byName[name], palette[i]); err != nil {
				return files, fmt.Errorf("plot figure %s: %w", f.number, err)
			}
		}
		p.Y.Max *= 1.3 // room for the legend
		for _, ext := range []string{".svg", ".png"} {
			file := filepath.Join(dir, "figure-"+f.number+ext)
			if err := p.Save(18*vg.Centimeter, 12*vg.Centimeter, file); err != nil {
				return files, fmt.Errorf("plot figure %s: %w", f.number, err)
			}
			files = append(files, file)
		}
	}
	return files, nil
}

func addCurve(p *plot.Plot, s Series, c color.RGBA) error {
	line, err := plotter.NewLine(xys(s.Model))
	if err != nil {
		return err
	}
	line.Color, line.Width = c, vg.Points(1.2)
	marks, err := plotter.NewScatter(xys(s.Paper))
	if err != nil {
		return err
	}
	marks.GlyphStyle = draw.GlyphStyle{Color: c, Radius: vg.Points(2.5), Shape: draw.CrossGlyph{}}
	p.Add(line, marks)
	role := "predicted"
	if s.Calibrates {
		role = "calibrates"
	}
	p.Legend.Add(s.Name+" ("+role+")", line, marks)
	return nil
}

// wholeTicks labels ticks with whole numbers.
type wholeTicks struct{}

func (wholeTicks) Ticks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i := range ticks {
		if ticks[i].Label != "" {
			ticks[i].Label = fmt.Sprintf("%.0f", ticks[i].Value)
		}
	}
	return ticks
}

func xys(points []Point) plotter.XYs {
	list := make(plotter.XYs, len(points))
	for i, p := range points {
		list[i] = plotter.XY{X: p.X, Y: p.Y}
	}
	return list
}
