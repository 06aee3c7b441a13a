package bench

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFill: rates over the measured time, loss until all has come out.
func TestFill(t *testing.T) {
	start := time.Now()
	o := observed{
		first:   reading{at: start, offered: 1000, delivered: 900, user: 1, system: 2},
		second:  reading{at: start.Add(2 * time.Second), offered: 5000, delivered: 2900, user: 1.5, system: 3},
		last:    reading{at: start.Add(3 * time.Second), offered: 5400, delivered: 3100, user: 9, system: 9},
		changes: []string{"something"},
	}
	var got Trial
	got.fill(o, participants{})
	require.Equal(t, Trial{Offered: 2000, Delivered: 1000, Lost: 0.5, User: 0.25, System: 0.5, Changed: []string{"something"}}, got)

	o.last.delivered = 6000 // what waited at the first reading came out after it
	got.fill(o, participants{})
	require.Zero(t, got.Lost)
}

// TestJudge: what makes a trial invalid, and what says of a rate that the generator cannot reach it.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name   string
		trial  Trial
		says   string
		missed bool
	}{
		{name: "undisturbed", trial: Trial{Asked: 1000, Offered: 990}},
		{name: "as fast as it goes", trial: Trial{Offered: 1}},
		{name: "at the limit", trial: Trial{CPUs: [2]CPUShare{{Foreign: 0.02, Stolen: 0.02}, {Foreign: 0.02, Stolen: 0.02}}}},
		{name: "missed", trial: Trial{Asked: 1000, Offered: 989}, says: "the generator reached 98.9 % of its rate", missed: true},
		{
			name:  "foreign",
			trial: Trial{CPUs: [2]CPUShare{1: {Foreign: 0.25, By: []string{"make", "cc"}}}},
			says:  "others took 25 % of CPU 1 (make, cc)",
		},
		{name: "came and went", trial: Trial{CPUs: [2]CPUShare{{Foreign: 0.25}}}, says: "others took 25 % of CPU 0"},
		{name: "stolen", trial: Trial{CPUs: [2]CPUShare{{Stolen: 0.03}}}, says: "the hypervisor took 3 % of CPU 0"},
		{
			name:  "disturbed and missed",
			trial: Trial{Asked: 1000, Offered: 500, CPUs: [2]CPUShare{{Foreign: 0.5}}},
			says:  "others took 50 % of CPU 0; the generator reached 50.0 % of its rate",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.trial.judge(DefaultMaxOthers)
			require.Equal(t, c.says, c.trial.Invalid)
			require.Equal(t, c.missed, c.trial.Missed)
			require.Equal(t, c.says == "", c.trial.Valid())
		})
	}
}

// TestUntilValid: how often a trial is made, and that everybody is told of each.
func TestUntilValid(t *testing.T) {
	valid := Trial{}
	disturbed := Trial{Invalid: "others"}
	missed := Trial{Invalid: "the generator", Missed: true}
	for _, c := range []struct {
		name   string
		trials []Trial
		want   int
	}{
		{"valid at once", []Trial{valid}, 1},
		{"valid in the end", []Trial{disturbed, missed, disturbed, valid}, 4},
		{"never valid", []Trial{disturbed}, maxAttempts},
		{"never reached", []Trial{missed}, maxMissed},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []Trial
			last, err := untilValid(7, func() (Trial, error) {
				return c.trials[min(len(told), len(c.trials)-1)], nil
			}, func(t Trial) error {
				told = append(told, t)
				return nil
			})
			require.NoError(t, err)
			require.Len(t, told, c.want)
			require.Equal(t, told[c.want-1], last)
			require.Equal(t, [2]int{7, c.want}, [2]int{last.Number, last.Attempt})
		})
	}
	broken := errors.New("broken")
	_, err := untilValid(1, func() (Trial, error) { return valid, broken }, nil)
	require.ErrorIs(t, err, broken)
	_, err = untilValid(1, func() (Trial, error) { return disturbed, nil }, func(Trial) error { return broken })
	require.ErrorIs(t, err, broken)
}
