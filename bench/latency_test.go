package bench

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestQuantile(t *testing.T) {
	var v []time.Duration
	require.Zero(t, quantile(v, 0.5))
	for i := range 100 {
		v = append(v, time.Duration(i+1))
	}
	require.Equal(t, time.Duration(51), quantile(v, 0.5))
	require.Equal(t, time.Duration(100), quantile(v, 0.99))
	require.Equal(t, time.Duration(100), quantile(v, 1))
}

func TestEchoAnswers(t *testing.T) {
	e := &echoes{id: 0x1234}
	reply := append(make([]byte, 20), 0, 0, 0, 0, 0x12, 0x34, 0, 7)
	reply[0] = 0x45
	require.True(t, e.answers(reply, 7))
	require.False(t, e.answers(reply, 8), "another's turn")
	require.False(t, e.answers(reply[:27], 7), "too short")
	for _, i := range []int{0, 20, 24} { // header length, type, id
		other := bytes.Clone(reply)
		other[i]++
		require.False(t, e.answers(other, 7))
	}
	_, err := stampOf(nil)
	require.ErrorContains(t, err, "no time stamp")
}

func TestLatencyTable(t *testing.T) {
	var r LatencyResult
	for number := range 3 {
		for _, c := range []struct {
			dut    string
			median float64
		}{{"weir", 20}, {"weir poller.mode=interrupt", 10}} {
			r.Trials = append(r.Trials, LatencyTrial{
				Trial:  Trial{Placement: Pipeline, Rate: "0.05x", Asked: 20_000, DUT: c.dut, Number: number + 1},
				Median: c.median + float64(number), P99: 4 * c.median, Echoes: Count{Sent: 1000, Received: 999},
			})
		}
	}
	r.Trials = append(r.Trials, LatencyTrial{Trial: Trial{Placement: Outranking, DUT: "weir", Invalid: "others"}})
	var b bytes.Buffer
	r.WriteTable(&b)
	require.Contains(t, b.String(), "placement pipeline, 20k packets per second beside the echoes\n")
	require.Contains(t, b.String(), "21.0 (20.0–22.0)           80.0 (80.0–80.0)    0.10 %      3\n")
	require.Contains(t, b.String(), "weir by weir poller.mode=interrupt: median 1.91, 99 % 2.00\n")
	require.Contains(t, b.String(), "void: others used the CPUs in every trial\n")
}
