package bench

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// played is a trial of 300 ms before and 300 ms after the step, at 1000 and 100 packets per ms, of a device that delivers 100 per ms before
// and loses on for lossy ms after it, while it also delivers backlog packets that had been queued.
func played(lossy int, backlog uint64) (samples []sample, last sample) {
	start := time.Now()
	var s sample
	queued := backlog
	for ms := range 600 {
		s.at = start.Add(time.Duration(ms) * time.Millisecond)
		samples = append(samples, s)
		switch {
		case ms < 300:
			s.high += 900
			s.offered += 1000
			s.delivered += 100
		case ms < 300+lossy:
			s.offered += 100
			s.delivered += 50
		default:
			s.offered += 100
			s.delivered += 100
			more := min(queued, 100)
			queued -= more
			s.delivered += more
		}
	}
	s.delivered += queued
	return samples, s
}

func TestEvaluateStep(t *testing.T) {
	for _, c := range []struct {
		name    string
		lossy   int
		backlog uint64
		atLeast float64
		atMost  float64
	}{
		{"at once", 0, 0, 0, 1},
		{"loses on for 50 ms", 50, 0, 46, 51},
		{"a backlog to be delivered first", 0, 2000, 17, 21},
		{"both", 50, 2000, 66, 71},
	} {
		t.Run(c.name, func(t *testing.T) {
			samples, last := played(c.lossy, c.backlog)
			var trial StepTrial
			require.NoError(t, trial.evaluate(samples, last))
			require.InDelta(t, 1e6, trial.Before, 1e-3)
			require.InDelta(t, 1e5, trial.After, 1e-3)
			require.GreaterOrEqual(t, trial.Recovery, c.atLeast)
			require.LessOrEqual(t, trial.Recovery, c.atMost)
			require.Len(t, trial.Bins, 100+300)
			require.Equal(t, Bin{At: 0, Offered: 1000, Delivered: 100}, trial.Bins[100])
			require.Equal(t, uint64(100), trial.Bins[101].Offered)
		})
	}
	// One that loses to the end never recovers; the last sample alone proves nothing.
	samples, last := played(300, 0)
	var trial StepTrial
	require.NoError(t, trial.evaluate(samples, last))
	require.Greater(t, trial.Recovery, 290.)
	last.delivered -= 1000 // lost after the last sample
	require.NoError(t, trial.evaluate(samples, last))
	require.Equal(t, -1., trial.Recovery)

	require.Error(t, trial.evaluate(nil, last))
	require.Error(t, trial.evaluate(samples[:300], last), "no step")
}

func TestStepResult(t *testing.T) {
	r := StepResult{Trials: []StepTrial{
		{Placement: SameCore, DUT: "weir", Number: 1, Before: 4e6, After: 2e5, Recovery: 3, Bins: []Bin{{At: -1, Offered: 7, Delivered: 8}}},
		{Placement: SameCore, DUT: "weir", Number: 2, Before: 4e6, After: 2e5, Recovery: 5},
		{Placement: SameCore, DUT: "plain", Number: 1, Before: 4e6, After: 2e5, Recovery: -1},
		{Placement: SameCore, DUT: "plain", Number: 2, Before: 4e6, After: 2e5, Recovery: 9},
	}}
	var b bytes.Buffer
	r.WriteTable(&b)
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, []string{"same-core", "weir", "4.000", "0.200", "4.0", "(3.0–5.0)"}, strings.Fields(lines[1]))
	require.Contains(t, lines[2], "9.0 (9.0–9.0), not while observed in 1 of 2 trials")
	b.Reset()
	require.NoError(t, r.WriteCSV(&b))
	require.Equal(t, "placement,dut,number,ms,offered,delivered\nsame-core,weir,1,-1.000,7,8\n", b.String())
}
