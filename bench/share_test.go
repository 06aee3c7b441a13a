package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/engine"
)

// TestShareRows: medians of what is valid; the error is the worst of the trials.
func TestShareRows(t *testing.T) {
	trial := func(number int, limit, hog float64, invalid string) ShareTrial {
		return ShareTrial{Trial: Trial{Rate: "4x", Number: number, Invalid: invalid}, ShareLoad: ShareLoad{"socket", false, 60}, Limit: limit, Hog: hog}
	}
	r := ShareResult{Trials: []ShareTrial{
		trial(1, 25, 0.75, ""), trial(2, 25, 0.74, ""), trial(3, 25, 0.755, ""), trial(3, 25, 0.2, "disturbed"), trial(1, 100, 0.01, ""),
	}}
	rows := r.Rows()
	require.Len(t, rows, 2)
	require.Equal(t, 3, rows[0].Trials)
	require.InDelta(t, 0.75, rows[0].Hog.Median, 1e-9)
	require.InDelta(t, -1, rows[0].Error, 1e-9)
	var table strings.Builder
	r.WriteTable(&table)
	require.Contains(t, table.String(), "HOLDS")
	r.Trials = append(r.Trials, trial(4, 25, 0.70, ""))
	table.Reset()
	r.WriteTable(&table)
	require.Contains(t, table.String(), "FAILS in 1 of 1 lines: the process is at worst 5.0 points")
}

// TestShareAccount: the worker's own figures, as parts of the time.
func TestShareAccount(t *testing.T) {
	stats := func(used uint64, asleep int64) engine.Stats {
		return engine.Stats{
			Workers:   []engine.WorkerStats{{Share: engine.ShareStats{UsedNS: used, AsleepNS: asleep}}},
			Ownership: []engine.OwnershipStats{{Port: "out0", Means: "off", Owned: true}, {Port: inPort, Means: "socket", Owned: true}},
		}
	}
	var trial ShareTrial
	trial.account(stats(1e9, 1e9), stats(2e9, 4e9), 4)
	require.InDelta(t, 0.25, trial.Used, 1e-9)
	require.InDelta(t, 0.75, trial.Asleep, 1e-9)
	require.Equal(t, "socket", trial.Owned)
}

func TestLoads(t *testing.T) {
	loads := Share{Means: []string{"socket", "kthread"}, V6: []bool{false, true}, Sizes: []int{60, 1514}}.loads()
	require.Len(t, loads, 8)
	require.Equal(t, ShareLoad{"socket", true, leastSize6}, loads[2])
}

func TestHogSince(t *testing.T) {
	start := time.Now()
	clock, work := hogReading{start.Add(2 * time.Second), 2 * time.Second, 150}.since(hogReading{start, time.Second, 50}, 100)
	require.InDelta(t, 0.5, clock, 1e-9)
	require.InDelta(t, 0.5, work, 1e-9)
}

func TestLongestGap(t *testing.T) {
	ms := int64(time.Millisecond)
	require.Equal(t, 30*time.Millisecond, longestGap([]int64{10 * ms, 40 * ms, 50 * ms}, 0, 60*ms))
	require.Equal(t, 50*time.Millisecond, longestGap([]int64{10 * ms}, 0, 60*ms), "up to the last that was sent")
	require.Equal(t, 60*time.Millisecond, longestGap(nil, 0, 60*ms))
}

func TestGroupOf(t *testing.T) {
	require.Equal(t, "/autogroup-7 nice 0\n", groupOf("/autogroup-7 nice 0\n"))
	require.Equal(t, "1:cpu:/\n0::/\n", groupOf("3:cpuset:/x\n2:cpuacct:/x\n1:cpu:/\n0::/\n"))
}
