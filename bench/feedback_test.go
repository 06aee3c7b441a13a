package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/engine"
)

func feedbackTrial(number int, variant string, offered, healthy, second float64) FeedbackTrial {
	return FeedbackTrial{
		Trial: Trial{Placement: Pipeline, Rate: "10x", Number: number, Offered: offered, Delivered: healthy}, Egress: EgressSlow, Variant: variant, Second: second,
	}
}

// TestFeedbackRows: ratios are to the trial alone of the same round, and to no more than what was sent to the healthy egress.
func TestFeedbackRows(t *testing.T) {
	void := feedbackTrial(3, variantFeedback, 100, 1, 0)
	void.Invalid = "disturbed"
	r := FeedbackResult{Trials: []FeedbackTrial{
		feedbackTrial(1, variantAlone, 100, 20, 0), feedbackTrial(1, variantFeedback, 100, 18, 1),
		feedbackTrial(2, variantAlone, 100, 10, 0), feedbackTrial(2, variantFeedback, 100, 8, 1),
		void,
	}}
	rows := r.Rows()
	require.Len(t, rows, 2)
	require.Zero(t, rows[0].Keeps, "alone has nothing to be compared with")
	require.Equal(t, 2, rows[1].Trials)
	require.InDelta(t, (0.9+0.8)/2, rows[1].Keeps, 1e-9)
	require.InDelta(t, (0.95+0.9)/2, rows[1].Both, 1e-9)
	require.Len(t, verdictsOf(rows), 1)
	require.Contains(t, verdictsOf(rows)[0], "HOLDS")

	keeps, both := kept(feedbackTrial(1, variantFeedback, 20, 10, 2), feedbackTrial(1, variantAlone, 20, 20, 0))
	require.InDelta(t, 1, keeps, 1e-9, "half of what is offered is all that can be kept")
	require.InDelta(t, 1, both, 1e-9)

	rows[1].Keeps = 0.79
	require.Contains(t, verdictsOf(rows)[0], "FAILS")
}

// TestDropsBetween: only what rose, by time, the largest first.
func TestDropsBetween(t *testing.T) {
	first := engine.Stats{Totals: engine.Totals{Dropped: map[string]uint64{"a": 5, "b": 5}}}
	second := engine.Stats{Totals: engine.Totals{Dropped: map[string]uint64{"a": 5, "b": 7, "c": 2000}}}
	drops := dropsBetween(first, second, 2)
	require.Equal(t, map[string]float64{"b": 1, "c": 1000}, drops)
	require.Equal(t, "c 1k", largestDrops(drops, 1))
	require.Equal(t, "c 1k, b 1", largestDrops(drops, 5))
}

// looksOf makes a look each millisecond from packets of each egress in it.
func looksOf(start time.Time, bins ...[2]uint64) []look {
	looks := []look{{at: start}}
	for _, b := range bins {
		last := looks[len(looks)-1]
		looks = append(looks, look{last.at.Add(time.Millisecond), last.healthy + b[0], last.second + b[1]})
	}
	return looks
}

func repeat(n int, bin [2]uint64) (bins [][2]uint64) {
	for range n {
		bins = append(bins, bin)
	}
	return bins
}

// TestStuckEvaluate: the phases of a scripted trial. The healthy egress pauses for 7 ms while the second is stuck; when that is free its
// queue comes at once, and both are as before 5 ms later.
func TestStuckEvaluate(t *testing.T) {
	start := time.Now()
	bins := repeat(500, [2]uint64{100, 100})
	bins = append(bins, repeat(400, [2]uint64{180, 0})...)
	bins = append(bins, repeat(7, [2]uint64{})...)
	bins = append(bins, repeat(593, [2]uint64{180, 0})...)
	bins = append(bins, [2]uint64{0, 3000})
	bins = append(bins, repeat(4, [2]uint64{})...)
	bins = append(bins, repeat(100, [2]uint64{100, 100})...)
	var trial StuckTrial
	require.NoError(t, trial.evaluate(looksOf(start, bins...), start.Add(500*time.Millisecond)))
	require.InDelta(t, 100e3, trial.Healthy, 1)
	require.InDelta(t, 100e3, trial.Second, 1)
	require.InDelta(t, 178.7e3, trial.While, 500)
	require.InDelta(t, 7, trial.Pauses[1], 0.01)
	require.InDelta(t, 5, trial.Pauses[2], 0.01)
	require.InDelta(t, 1, trial.Blind, 0.01)
	require.InDelta(t, 5, trial.Recovery, 1.01)
	require.Len(t, trial.Bins, len(bins))

	require.Error(t, trial.evaluate(looksOf(start, repeat(900, [2]uint64{1, 1})...), start.Add(500*time.Millisecond)), "it never stuck")
}

// TestBackAt: what was queued is no recovery.
func TestBackAt(t *testing.T) {
	burst := append([][2]uint64{{100, 5000}}, repeat(60, [2]uint64{100, 0})...)
	_, ok := backAt(looksOf(time.Now(), burst...), 100e3, 100e3)
	require.False(t, ok)
}

func TestSlowerPause(t *testing.T) {
	require.Equal(t, 8*time.Millisecond, slowerPause(4*time.Millisecond, 200, 100))
	require.Equal(t, maxPause, slowerPause(80*time.Millisecond, 200, 100))
	require.Equal(t, time.Second, slowerPause(time.Second, 0, 100), "nothing to go by")
}

// TestRecommend: the fastest through the slow egress of those that cost the healthy one nothing.
func TestRecommend(t *testing.T) {
	row := func(backlog int, healthy, healthyP99, secondP99 float64) SurfaceRow {
		return SurfaceRow{
			Placement: Pipeline, Setting: FeedbackSetting{75, 25, time.Millisecond, backlog}, Trials: 1, Healthy: Spread{Median: healthy},
			HealthyP99: Spread{Median: healthyP99}, SecondP99: Spread{Median: secondP99},
		}
	}
	best, ok := recommend([]SurfaceRow{row(1, 100, 50, 900), row(2, 99, 55, 500), row(3, 90, 40, 100), row(4, 99, 90, 100)})
	require.True(t, ok)
	require.Equal(t, 2, best.Setting.Backlog)
	_, ok = recommend(nil)
	require.False(t, ok)
}

// TestSurfacePlots: a file for each figure of a placement that was measured.
func TestSurfacePlots(t *testing.T) {
	var r FeedbackResult
	for _, s := range DefaultSettings() {
		r.Surface = append(r.Surface, SurfaceTrial{
			FeedbackTrial: feedbackTrial(1, variantFeedback, 100, 50, 5), Setting: s, HealthyP99: 100, SecondP99: float64(s.Backlog),
		})
	}
	files, err := r.WritePlots(t.TempDir())
	require.NoError(t, err)
	require.Len(t, files, len(surfaceFigures))
	svg, err := os.ReadFile(files[0])
	require.NoError(t, err)
	require.Contains(t, string(svg), "<svg")
	var table, csv strings.Builder
	r.WriteTable(&table)
	require.Contains(t, table.String(), "recommended: high")
	require.NoError(t, r.WriteSurfaceCSV(&csv))
	require.Equal(t, 1+len(DefaultSettings()), strings.Count(csv.String(), "\n"))
}
