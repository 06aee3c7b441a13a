package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/bench"
	"weir/internal/nettest"
)

// benchTimeout bounds a tiny measurement, and others that have the machine before it.
const benchTimeout = 2 * time.Minute

// startBench starts `weir bench` with trials so short that their figures mean nothing, and on whatever machine.
func startBench(t *testing.T, args ...string) *process {
	t.Helper()
	nettest.RequirePrivilege(t)
	args = append([]string{"bench"}, args...)
	return start(t, nil, weir(append(args, "--wait", "--max-others", "2", "--warm-up", "60ms", "--duration", "100ms", "--trials", "1")...))
}

// TestBenchOverload: every device in every placement gets traffic through, and the result says so in every form.
func TestBenchOverload(t *testing.T) {
	table := filepath.Join(t.TempDir(), "trials.csv")
	p := startBench(t, "overload", "--rate", "max", "--csv", table, "--json", "--reverse", "100",
		"--dut", "weir,plain,kernel")
	require.Zero(t, p.wait(t, benchTimeout), "exit code; stderr: %s", &p.stderr)
	require.Empty(t, p.stderr.String(), "no progress where nobody watches")
	require.Empty(t, namespacesOf(p.cmd.Process.Pid))
	var result bench.Result
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), &result))
	seen := map[string]int{}
	for _, trial := range result.Trials {
		seen[string(trial.Placement)+" "+trial.DUT]++
		require.NotZero(t, trial.Offered, "%+v", trial)
		require.Empty(t, trial.Changed, "%s in %s changed the placement", trial.DUT, trial.Placement)
		require.Equal(t, trial.DUT != "plain", trial.Reverse != nil)
	}
	require.Len(t, seen, 3*3)
	require.Len(t, result.Verdicts, 3*3)
	require.NotEmpty(t, result.Machine.Kernel)

	f, err := os.Open(table)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+len(result.Trials))
}

// TestBenchMeasurements: the smaller measurements give figures.
func TestBenchMeasurements(t *testing.T) {
	t.Run("latency", func(t *testing.T) {
		var result bench.LatencyResult
		runBench(t, &result, "latency", "--load", "20k")
		require.NotEmpty(t, result.Trials)
		for _, trial := range result.Trials {
			require.NotZero(t, trial.Echoes.Sent)
		}
	})
	t.Run("step", func(t *testing.T) {
		var result bench.StepResult
		runBench(t, &result, "step", "--from", "max", "--to", "20k", "--dut", "off", "--variant", "poller.quota=16 --without=feedback")
		require.Len(t, result.Trials, 2)
		for _, trial := range result.Trials {
			require.Greater(t, trial.Before, trial.After)
			require.NotEmpty(t, trial.Bins)
		}
	})
	t.Run("queues", func(t *testing.T) {
		var result bench.QueuesResult
		runBench(t, &result, "queues")
		require.NotEmpty(t, result.Trials)
		for _, trial := range result.Trials {
			require.Len(t, trial.Alone, 3, "flows to the queues that are not flooded")
			require.Len(t, trial.Flooded, 3)
		}
	})
}

// TestBenchEgress: every variant of a second egress that is down gives figures.
func TestBenchEgress(t *testing.T) {
	var result bench.FeedbackResult
	runBench(t, &result, "feedback", "--measure", "curves", "--egress", "down", "--rates", "20k", "--rate", "20k")
	seen := map[string]bool{}
	for _, trial := range result.Trials {
		seen[trial.Variant] = true
		require.NotZero(t, trial.Offered)
		require.Zero(t, trial.Second, "it is down")
	}
	require.Len(t, seen, 3)
}

// TestBenchShare: the process runs beside weir, in its scheduling group, and light traffic of every kind is sent.
func TestBenchShare(t *testing.T) {
	var result bench.ShareResult
	runBench(t, &result, "share", "--measure", "process,light", "--limits", "25", "--rates", "20k", "--light-rate", "20k")
	require.NotZero(t, result.WorkPerSecond)
	require.NotEmpty(t, result.Trials)
	for _, trial := range result.Trials {
		require.InDelta(t, 0.5, trial.Hog, 0.51, "a part of the CPU")
	}
	require.NotEmpty(t, result.Beats)
	for _, trial := range result.Beats {
		require.Len(t, trial.Beats, 6, "three kinds by two ports")
		for _, beat := range trial.Beats {
			require.NotZero(t, beat.Sent, beat.Name)
		}
	}
}

// runBench runs a measurement and reads its JSON.
func runBench(t *testing.T, result any, args ...string) {
	t.Helper()
	p := startBench(t, append(args, "--json", "--placement", "same-core")...)
	require.Zero(t, p.wait(t, benchTimeout), "exit code; stderr: %s", &p.stderr)
	require.Empty(t, namespacesOf(p.cmd.Process.Pid))
	require.NoError(t, json.Unmarshal([]byte(p.stdout.String()), result))
}

// TestBenchBusy: a second lab is told who has the machine.
func TestBenchBusy(t *testing.T) {
	nettest.RequirePrivilege(t)
	lock, err := bench.Lock(t.Context(), true)
	require.NoError(t, err)
	defer lock.Close()
	code, p := execute(t, nil, weir("bench", "overload", "--rate", "max"))
	require.Equal(t, exitFailure, code)
	require.Contains(t, oneLine(t, p.stderr.String()), "another lab measures on this machine: process ")
}
