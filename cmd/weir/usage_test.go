package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUsage: what is no command of weir's is refused with exit code 2 and one line; help is data and a success.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "expected one of"},
		{[]string{"forward"}, "unexpected argument forward"},
		{[]string{"run", "r0", "r1"}, "unexpected argument r0"},
		{[]string{"run", "--port"}, "--port"},
		{[]string{"run", "--cpus", "one", "--port", "r0"}, "--cpus"},
		{[]string{"run", "--port", "r0", "--set", "poller.quota"}, "key=value"},
		{[]string{"run", "--port", "r0", "--mechanisms", "none"}, `"on","off" but got "none"`},
		{[]string{"check", "--port", "r0", "--mechanisms", "none"}, `"on","off" but got "none"`},
		{[]string{"run", "--port", "r0", "--without", "share,luck"}, `"feedback","share","quota","discard","ownership" but got "luck"`},
		{[]string{"check", "--port", "r0", "--without", "luck"}, `"feedback","share","quota","discard","ownership" but got "luck"`},
		{[]string{"run", "--port", "r0", "--without"}, "--without: missing value"},
		{[]string{"bench", "overload", "--trials", "0"}, "--trials 0"},
		{[]string{"bench", "overload", "--duration", "1ms"}, "--duration 1ms"},
		{[]string{"bench", "overload", "--warm-up=-1s"}, "--warm-up -1s"},
		{[]string{"bench", "overload", "--max-others", "0"}, "--max-others 0"},
		{[]string{"bench", "overload", "--rates", "0.5,fast"}, "--rates: rate \"fast\""},
		{[]string{"bench", "overload", "--rate", "2x"}, "--rate: rate \"2x\""},
		{[]string{"bench", "overload", "--rate", "max", "--rates", "2,max"}, "rate max is asked for twice"},
		{[]string{"bench", "overload", "--reverse=-1"}, "--reverse -1"},
		{[]string{"bench", "overload", "--variant", "poller.quota"}, "\"poller.quota\" is no key=value"},
		{[]string{"bench", "overload", "--dut", "weir,weir"}, "weir is compared twice"},
		{[]string{"bench", "overload", "--placement", "nowhere"}, "--placement"},
		{[]string{"bench", "latency", "--load", "none"}, "rate \"none\""},
		{[]string{"bench", "step", "--from", "x"}, "--from: rate"},
		{[]string{"bench", "step", "--to", "max"}, "--to max"},
		{[]string{"bench", "queues", "--queues", "1"}, "--queues 1"},
		{[]string{"bench", "queues", "--light", "0"}, "--light 0"},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), c.args, &stdout, &stderr), "%v", c.args)
		require.Empty(t, stdout.String())
		require.Contains(t, oneLine(t, stderr.String()), c.says)
	}
	for _, args := range [][]string{{"--help"}, {"run", "--help"}, {"bench", "overload", "--help"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), args, &stdout, &stderr), "%v", args)
		require.Contains(t, stdout.String(), "Usage: weir")
		require.Empty(t, stderr.String())
	}
}
