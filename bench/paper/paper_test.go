package paper

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/poller"
)

// The whole claim: every required limit, the orders, and the controls that must
// fail.
func TestPaper(t *testing.T) {
	if raceEnabled {
		t.Skip("nothing is shared but the report; the rest of the tests run under the race detector")
	}
	report, err := Run(t.Context(), Options{Seeds: 9, NoSensitivities: true})
	require.NoError(t, err)
	for _, c := range report.Checks {
		if c.Required {
			require.True(t, c.Met, "%s, %s: paper %g, model %g: %s, limit %s", c.Curve, c.Quantity, c.Paper, c.Model, c.Error, c.Limit)
		}
	}
	for _, o := range report.Orders {
		require.True(t, o.Holds, "%s: paper %s, model %s", o.Says, o.Paper, o.Model)
	}
	require.Len(t, report.Controls, 3)
	for _, c := range report.Controls {
		require.True(t, c.Broken, "without %s the model still shows what the paper shows: %s", c.Takes, c.Found)
	}
	require.True(t, report.OK())

	calibrate, predicted := report.roles()
	require.LessOrEqual(t, calibrate, 6)
	require.GreaterOrEqual(t, predicted, 12)
}

func TestFiguresAreComplete(t *testing.T) {
	points, err := readFigures()
	require.NoError(t, err)
	require.Len(t, points, 24, "labels")
	all := 0
	for _, list := range points {
		all += len(list)
	}
	require.Equal(t, 539, all)

	curves, err := Curves()
	require.NoError(t, err)
	require.Len(t, curves, 18)
	for _, same := range [][2]string{
		{"6-3 unmodified", "6-1 unmodified_no_screend"},
		{"6-4 unmodified_screend", "6-1 unmodified_screend"},
		{"6-5 quota5", "6-3 polling_quota5"},
		{"6-5 quota_inf", "6-3 polling_no_quota"},
		{"6-6 quota20", "6-4 polling_feedback"},
	} {
		a, b := points[same[0]], points[same[1]]
		require.Len(t, a, len(b))
		for i := range a {
			require.InDelta(t, a[i].Y, b[i].Y, 0.6, "%s is %s drawn again", same[0], same[1])
		}
	}
}

// A curve that misses must be shown as missing, and fail the command.
func TestMissesAreShown(t *testing.T) {
	bed := DEC1996()
	bed.Forward *= 1.5
	bed.Packets = 2000
	report, err := Run(t.Context(), Options{Seeds: 1, Bed: &bed, NoSensitivities: true})
	require.NoError(t, err)
	require.False(t, report.OK())
	var table bytes.Buffer
	require.NoError(t, report.WriteTable(&table))
	require.Contains(t, table.String(), "MISSED")
	require.Contains(t, table.String(), "THE MODEL MISSES")
}

func TestTrialsRepeat(t *testing.T) {
	bed := DEC1996()
	for _, c := range setups {
		a, err := Trial(&bed, c.Setup, 7000, 3)
		require.NoError(t, err)
		b, err := Trial(&bed, c.Setup, 7000, 3)
		require.NoError(t, err)
		require.Equal(t, a, b, c.String())
	}
}

func TestTrialRefusesWhatPollerRefuses(t *testing.T) {
	bed := DEC1996()
	_, err := Trial(&bed, Setup{Polling: true, Quota: 0}, 1000, 1)
	require.ErrorIs(t, err, poller.ErrKnob)
	_, err = simulate(t.Context(), &bed, []Curve{{Setup: Setup{Polling: true}, Paper: []Point{{1000, 1000}}}}, 1)
	require.ErrorIs(t, err, poller.ErrKnob)
}

func TestRunStopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{Seeds: 9})
	require.ErrorIs(t, err, context.Canceled)
}

func TestCommandWritesEverything(t *testing.T) {
	if raceEnabled {
		t.Skip("as TestPaper")
	}
	dir := filepath.Join(t.TempDir(), "new")
	var out, log bytes.Buffer
	code := Main(t.Context(), []string{"--seeds", "1", "--brief", "--json", "--out", dir}, &out, &log)
	require.Contains(t, []int{0, 1}, code, "with one seed a limit may be missed: %s", &log)
	require.Contains(t, log.String(), "wrote 14 files")
	var report Report
	require.NoError(t, json.Unmarshal(out.Bytes(), &report))
	require.Len(t, report.Curves, 18)
	saved, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, err)
	require.Equal(t, out.Bytes(), saved)
	for _, f := range figures {
		svg, err := os.ReadFile(filepath.Join(dir, "figure-"+f.number+".svg"))
		require.NoError(t, err)
		require.Contains(t, string(svg), "</svg>")
		png, err := os.ReadFile(filepath.Join(dir, "figure-"+f.number+".png"))
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(png, []byte("\x89PNG")))
	}
}

func TestCommandUsage(t *testing.T) {
	for _, args := range [][]string{{"--seeds", "0"}, {"--nonsense"}, {"--seeds", "many"}} {
		var out, log bytes.Buffer
		require.Equal(t, 2, Main(t.Context(), args, &out, &log), "%v", args)
		require.Empty(t, out.String())
		require.Contains(t, log.String(), "weir bench paper: ")
	}
	var out, log bytes.Buffer
	require.Equal(t, 1, Main(t.Context(), []string{"--seeds", "1", "--brief", "--out", "/proc/none"}, &out, &log))
	require.Contains(t, log.String(), "save report")
}

func TestSensitivitiesCoverEveryConstant(t *testing.T) {
	bed := DEC1996()
	bed.Packets = 300
	curves, err := Curves()
	require.NoError(t, err)
	list, err := sensitivities(t.Context(), bed, pick(curves, polls(5), shares(50)))
	require.NoError(t, err)
	require.Len(t, list, len(bed.Constants())-1)
	for _, s := range list {
		require.NotEmpty(t, s.Constant.Unit, s.Constant.Name)
		require.NotEmpty(t, s.Constant.Meaning, s.Constant.Name)
		require.Len(t, s.Less, 2)
		require.Len(t, s.More, 2)
	}
	require.Equal(t, DEC1996().TransmitRing, bed.TransmitRing, "the set itself is left alone")
}

func TestFitDoesNotGetWorse(t *testing.T) {
	bed := DEC1996()
	bed.Packets = 100
	var log strings.Builder
	fitted, err := Fit(t.Context(), bed, 1, &log)
	require.NoError(t, err)
	require.Contains(t, log.String(), "round 0: misfit")
	require.Equal(t, bed.Sizes, fitted.Sizes, "only what is fitted changes")
	require.Equal(t, bed.Traffic, fitted.Traffic)
}

func TestSolve(t *testing.T) {
	require.InDeltaSlice(t, []float64{1, -2}, solve([][]float64{{4, 1, 2}, {1, 3, -5}}), 1e-12)
}
