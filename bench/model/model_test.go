package model

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixed are costs that no machine disturbs.
var fixed = Costs{Receive: 200, Door: 150, Forward: 50, Transmit: 25, Kick: 100}

func played(t *testing.T, how Mechanism, pps float64, queues int) float64 {
	t.Helper()
	delivered, err := play(fixed, how, pps, queues)
	require.NoError(t, err)
	return delivered
}

func TestLightLoadIsDeliveredWhole(t *testing.T) {
	for _, m := range mechanisms {
		for _, queues := range []int{1, 3} {
			require.InEpsilon(t, 1e6, played(t, m, 1e6, queues), 0.01, "%s, %d queues", m, queues)
		}
	}
}

// Without the mechanisms what is left of the CPU is shared by what was received
// too much: (1 − rate × receive) / (forward + transmit), down to nothing.
func TestOffFallsAsReceiveGrows(t *testing.T) {
	for _, pps := range []float64{4e6, 4.5e6, 4.8e6} {
		want := (1 - pps*200e-9) / 75e-9
		require.InEpsilon(t, want, played(t, Off, pps, 1), 0.1, "%g", pps)
	}
	require.Less(t, played(t, Off, 6e6, 1), 1e5)
}

// The door makes the same collapse begin later, because a drop costs less.
func TestDoorOnlyPutsItOff(t *testing.T) {
	require.Greater(t, played(t, Door, 5.5e6, 1), 10*played(t, Off, 5.5e6, 1))
	require.Less(t, played(t, Door, 8e6, 1), 1e5)
}

func TestOwnedHoldsItsPeak(t *testing.T) {
	peak := 1e9 / (200 + 50 + 25 + 2*100.0/64)
	for _, queues := range []int{1, 4} {
		for _, pps := range []float64{4e6, 10e6, 100e6, 600e6} {
			require.InEpsilon(t, peak, played(t, Owned, pps, queues), 0.03, "%g on %d queues", pps, queues)
		}
	}
}

func TestRun(t *testing.T) {
	report, err := Run(t.Context(), Options{
		Mode: ZeroCopy, Frame: 64, Cores: []int{1, 8}, Queues: 4, Rates: []float64{10, 400}, Costs: &fixed,
	})
	require.NoError(t, err)
	require.Contains(t, report.Notice, "MODEL, not a measurement")
	require.Len(t, report.Points, 4)
	require.InEpsilon(t, 14.88e6, report.Points[0].Offered, 0.001)
	require.InEpsilon(t, 595.2e6, report.Points[3].Offered, 0.001)
	last := report.Points[3]
	require.InEpsilon(t, 4*report.Onsets[2].Peak, last.Delivered[Owned], 0.05, "four queues keep four of eight cores busy")
	require.Less(t, last.Delivered[Off], 0.1*last.Delivered[Owned])

	require.Positive(t, report.Onsets[0].Begins)
	require.Less(t, report.Onsets[0].Begins, report.Onsets[1].Begins, "off before door")
	require.Zero(t, report.Onsets[2].Begins, "owned: never")
	require.InEpsilon(t, 4*report.Onsets[0].Begins*672/1e9, report.Onsets[0].Gbps[8], 0.001)

	var table, encoded bytes.Buffer
	require.NoError(t, report.WriteTable(&table))
	require.Contains(t, table.String(), "MODEL, not a measurement")
	require.Contains(t, table.String(), "livelock does not begin")
	require.NoError(t, report.WriteJSON(&encoded))
	require.NoError(t, json.Unmarshal(encoded.Bytes(), &Report{}))
}

func TestRunStopsWhenAsked(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Run(ctx, Options{Mode: ZeroCopy, Frame: 64, Cores: []int{1}, Rates: []float64{10}, Costs: &fixed})
	require.ErrorIs(t, err, context.Canceled)
}

func TestSpread(t *testing.T) {
	for _, test := range [][4]int{{4, 0, 4, 1}, {4, 8, 4, 2}, {4, 6, 4, 2}, {8, 2, 2, 1}, {1, 16, 1, 16}} {
		busy, each := spread(test[0], test[1])
		require.Equal(t, [2]int{test[2], test[3]}, [2]int{busy, each}, "%d cores, %d queues", test[0], test[1])
	}
}

func TestMeasureFindsSomething(t *testing.T) {
	c, err := Measure(ZeroCopy, 64)
	require.NoError(t, err)
	for _, i := range append(c.Measured, c.Assumed...) {
		require.Positive(t, i.NS, i.Name)
		require.NotEmpty(t, i.How)
	}
	require.Greater(t, c.Receive, c.Door)
	require.Positive(t, c.Forward)
	require.Positive(t, c.Transmit)
	require.Positive(t, c.Kick)

	copied := compose(Copy, c.Measured, c.Assumed)
	require.Greater(t, copied.Receive, c.Receive)
	require.Greater(t, copied.Transmit, c.Transmit)
	require.Equal(t, copied.Forward, c.Forward)
}

func TestCommandUsage(t *testing.T) {
	for _, args := range [][]string{
		{"--frame", "63"}, {"--frame", "1519"}, {"--cores", "0"}, {"--rates", "0"}, {"--rates", "401"}, {"--rates", "NaN"},
		{"--queues", "-1"}, {"--mode", "magic"},
	} {
		var out, log bytes.Buffer
		require.Equal(t, 2, Main(t.Context(), args, &out, &log), "%v: %s", args, &log)
		require.Empty(t, out.String())
	}
	var out, log bytes.Buffer
	require.Equal(t, 0, Main(t.Context(), []string{"--cores", "1", "--rates", "400", "--json"}, &out, &log), "%s", &log)
	require.NoError(t, json.Unmarshal(out.Bytes(), &Report{}))
}
