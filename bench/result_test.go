package bench

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// trialsAt makes a trial of each number, from 1, that delivered so many thousand packets.
func trialsAt(p Placement, rate Point, dut string, offered float64, delivered ...float64) []Trial {
	var list []Trial
	for i, d := range delivered {
		list = append(list, Trial{
			Placement: p, Rate: rate.String(), DUT: dut, Number: i + 1, Attempt: 1, Asked: rate.PPS, Offered: offered * 1e3, Delivered: d * 1e3,
		})
	}
	return list
}

// sampleResult is weir that holds its peak, a plain loop in livelock and a kernel that loses some.
func sampleResult() (Result, []DUT) {
	half, twice := Point{Multiple: 0.5, PPS: 200_000}, Point{Multiple: 2, PPS: 800_000}
	r := Result{MLFRRs: []MLFRR{{Placement: Outranking, DUT: "weir", PPS: 400_000}}}
	for _, trials := range [][]Trial{
		trialsAt(Outranking, half, "weir", 200, 200, 200, 200),
		trialsAt(Outranking, half, "plain", 200, 200, 200, 200),
		trialsAt(Outranking, half, "kernel", 200, 200, 200, 200),
		trialsAt(Outranking, twice, "weir", 800, 410, 400, 390),
		trialsAt(Outranking, twice, "plain", 800, 20, 10, 30),
		trialsAt(Outranking, twice, "kernel", 800, 700, 700, 700),
		trialsAt(Outranking, MaxPoint, "weir", 5000, 380, 380, 400),
		trialsAt(Outranking, MaxPoint, "plain", 5000, 10, 10, 10),
		trialsAt(Outranking, MaxPoint, "kernel", 5000, 350, 350, 350),
	} {
		r.Trials = append(r.Trials, trials...)
	}
	duts := []DUT{DUTWeir("weir"), DUTPlain("plain"), DUTKernel("kernel")}
	return r, duts
}

func TestMedian(t *testing.T) {
	require.Zero(t, median(nil))
	require.Equal(t, 3., median([]float64{1, 3, 9}))
	require.Equal(t, 2., median([]float64{1, 1, 3, 9}))
	require.Equal(t, Spread{Median: 2, Min: 1, Max: 9}, spreadOf([]float64{9, 1, 2}))
	require.Zero(t, spreadOf(nil))
}

func TestVerdicts(t *testing.T) {
	r, duts := sampleResult()
	r.Summarize(duts)
	require.Len(t, r.Cells, 9)
	require.Equal(t, []string{
		"outranking, weir: FLAT: peak 0.400 Mpps at 2x, worst beyond the MLFRR 95 % at max, 38.00 of the plain loop at max, 1.09 of the kernel at max",
		"outranking, plain: LIVELOCK: peak 0.200 Mpps at 0.5x, worst beyond the MLFRR 5 % at max, 1.00 of the plain loop at max, 0.03 of the kernel at max",
		"outranking, kernel: FALLS: peak 0.700 Mpps at 2x, worst beyond the MLFRR 50 % at max, 35.00 of the plain loop at max, 1.00 of the kernel at max",
	}, []string{r.Verdicts[0].String(), r.Verdicts[1].String(), r.Verdicts[2].String()})

	// Without an MLFRR, what lies beyond the peak's own rate counts.
	r.MLFRRs = nil
	r.Summarize(duts)
	require.Equal(t, VerdictLivelock, r.Verdicts[1].Verdict)
	require.Equal(t, "max", r.Verdicts[0].WorstAt)

	// One that is offered little and delivers all of it is not blamed for its peak elsewhere.
	r = Result{MLFRRs: []MLFRR{{Placement: SameCore, DUT: "weir", PPS: 100_000}}}
	r.Trials = append(trialsAt(SameCore, Point{Multiple: 1.25, PPS: 125_000}, "kernel", 125, 125), trialsAt(SameCore, MaxPoint, "kernel", 5000, 700)...)
	r.Summarize(duts)
	require.Equal(t, VerdictFlat, r.Verdicts[0].Verdict)
}

// TestCells: only valid trials count; those that never got valid are void; a rate that is never reached has no figures.
func TestCells(t *testing.T) {
	trials := trialsAt(Pipeline, MaxPoint, "weir", 100, 50, 60, 70)
	trials[1].Invalid = "others"
	again := trials[1]
	again.Attempt, again.Delivered, again.Invalid = 2, 65e3, ""
	trials[2].Invalid = "others"
	trials = append(trials, again)
	for i := range trials {
		trials[i].Reverse = &Count{Sent: 100, Received: 99}
	}
	c := cellOf(trials)
	require.Equal(t, Spread{Median: 57.5e3, Min: 50e3, Max: 65e3}, c.Delivered)
	require.Equal(t, [2]int{2, 1}, [2]int{c.Valid, c.Void})
	require.Equal(t, &Count{Sent: 200, Received: 198}, c.Reverse)
	require.InDelta(t, 0.01, c.Reverse.Lost(), 1e-12)
	require.False(t, c.Unreached)

	missed := trialsAt(Pipeline, Point{PPS: 1000}, "kernel", 0.5, 0.5)
	missed[0].Invalid, missed[0].Missed = "the generator", true
	require.True(t, cellOf(missed).Unreached)
}

// TestRatio: pairs of one number, whatever happened to others.
func TestRatio(t *testing.T) {
	a := trialsAt(Pipeline, MaxPoint, "a", 100, 10, 20, 30, 40)
	b := trialsAt(Pipeline, MaxPoint, "b", 100, 10, 10, 10, 0)
	b[0].Invalid = "others"
	require.Equal(t, 2.5, ratio(a, b))
	require.Zero(t, ratio(a, nil))
}

func TestTable(t *testing.T) {
	r, duts := sampleResult()
	void := trialsAt(Outranking, Point{PPS: 900_000}, "weir", 900, 1)
	void[0].Invalid = "others"
	missed := trialsAt(Outranking, Point{PPS: 900_000}, "kernel", 90, 1)
	missed[0].Invalid, missed[0].Missed = "the generator", true
	changed := trialsAt(Outranking, Point{PPS: 900_000}, "plain", 900, 1)
	changed[0].Changed, changed[0].Livelocks, changed[0].Reverse = []string{"threaded of in0 is 0"}, 2, &Count{Sent: 100, Received: 90}
	r.Trials = append(append(append(r.Trials, void...), missed...), changed...)
	r.Summarize(duts)
	var b bytes.Buffer
	r.WriteTable(&b)
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, "placement outranking: MLFRR of weir 400k packets per second", lines[0])
	for _, line := range []string{
		"rate asked       device                             delivered Mpps  of peak  of plain  offered trials",
		"2x (800k)        weir                          0.400 (0.390–0.410)    100 %     20.50    0.800      3",
		"                 plain                         0.020 (0.010–0.030)     10 %      1.00    0.800      3",
		"900k             weir                     void: others used the CPUs in every trial",
		"                 kernel                   the generator does not reach this rate beside it: left out",
		"                 plain                         0.001 (0.001–0.001)      0 %      1.00    0.900      1  reverse lost 10.00 % of 100",
	} {
		require.Contains(t, lines, line)
	}
	require.Contains(t, b.String(), "; its watchdog fired 2 times; it changed the placement: threaded of in0 is 0")
	require.Equal(t, uint64(2), changed[0].Livelocked())
	changed[0].Control = true
	require.Zero(t, changed[0].Livelocked())

	b.Reset()
	require.NoError(t, r.WriteJSON(&b))
	var back Result
	require.NoError(t, json.Unmarshal(b.Bytes(), &back))
	require.Equal(t, r, back)
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	c, err := NewCSV(&b)
	require.NoError(t, err)
	one := trialsAt(SameCore, Point{Multiple: 2, PPS: 800_000}, "weir a=b", 800, 400)[0]
	one.CPUs[1].Foreign, one.Changed, one.Invalid = 0.03, []string{"x", "y"}, "others took 3 % of CPU 1 (a, b)"
	require.NoError(t, c.Write(one))
	one.Reverse, one.Changed, one.Invalid = &Count{Sent: 10, Received: 9}, nil, ""
	require.NoError(t, c.Write(one))
	lines := strings.Split(b.String(), "\n")
	require.Equal(t, []string{
		`same-core,2x,weir a=b,1,1,800000,800000,400000,0.000000,0.000,0.000,0.0000,0.0000,0.0300,0.0000,,,0,x; y,"others took 3 % of CPU 1 (a, b)"`,
		`same-core,2x,weir a=b,1,1,800000,800000,400000,0.000000,0.000,0.000,0.0000,0.0000,0.0300,0.0000,10,9,0,,`,
		``,
	}, lines[1:])
	require.Equal(t, strings.Count(lines[0], ","), strings.Count(lines[2], ","))
}
