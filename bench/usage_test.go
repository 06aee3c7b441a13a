package bench

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseThread(t *testing.T) {
	line := "4711 (a (b) c) S 1 1 1 0 -1 4194560 0 0 0 0 150 50 0 0 20 0 1 0 987 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0"
	key, use, err := parseThread([]byte(line))
	require.NoError(t, err)
	require.Equal(t, threadKey{tid: 4711, started: "987"}, key)
	require.Equal(t, threadUse{name: "a (b) c", cpu: 1, ran: 2 * time.Second}, use)
	for _, bad := range []string{"", "1 (x) S", "x (y) S" + line[len("4711 (a (b) c) S"):]} {
		_, _, err := parseThread([]byte(bad))
		require.Error(t, err, "%q", bad)
	}
}

// TestReadUsage: this very thread is among those read, and its time rises.
func TestReadUsage(t *testing.T) {
	u, err := readUsage()
	require.NoError(t, err)
	require.Len(t, u.cpus, len(labCPUs))
	var mine time.Duration
	for _, use := range u.threads {
		if use.pid == os.Getpid() {
			mine += use.ran
		}
	}
	require.NotZero(t, mine)
}

// TestShares: whose time counts as foreign, on which CPU.
func TestShares(t *testing.T) {
	start := time.Now()
	who := participants{device: 10, lab: 20}
	reading := func(second int, idle, steal float64, threads map[int]threadUse) usage {
		u := usage{at: start.Add(time.Duration(second) * time.Second), threads: map[threadKey]threadUse{}, cpus: map[int]cpuUse{}}
		for tid, use := range threads {
			u.threads[threadKey{tid, "1"}] = use
		}
		for _, cpu := range labCPUs {
			u.cpus[cpu] = cpuUse{idle: idle, stolen: steal}
		}
		return u
	}
	device := threadUse{pid: 10, name: "weir", cpu: 1}
	ran := func(t threadUse, d time.Duration) threadUse {
		t.ran = d
		return t
	}
	for _, c := range []struct {
		name          string
		before, after map[int]threadUse
		idle, steal   float64
		want          CPUShare
	}{
		{name: "the device alone", before: map[int]threadUse{1: device}, after: map[int]threadUse{1: ran(device, 2*time.Second)}},
		{
			name:   "lab, NAPI threads and ksoftirqd belong to it",
			before: map[int]threadUse{},
			after: map[int]threadUse{
				1: {20, "lab", 1, time.Second}, 2: {30, "napi/in0-8", 1, time.Second / 2}, 3: {31, "ksoftirqd/1", 1, time.Second / 2},
			},
		},
		{
			name:   "another process",
			before: map[int]threadUse{1: device, 2: {40, "make", 1, 5 * time.Second}},
			after:  map[int]threadUse{1: ran(device, 1900*time.Millisecond), 2: {40, "make", 1, 5100 * time.Millisecond}},
			want:   CPUShare{Foreign: 0.05, By: []string{"make"}},
		},
		{
			name:   "one that moved counts on both",
			before: map[int]threadUse{1: device, 2: {40, "make", 1, 0}},
			after:  map[int]threadUse{1: ran(device, 1900*time.Millisecond), 2: {40, "make", 0, 100 * time.Millisecond}},
			want:   CPUShare{Foreign: 0.05, By: []string{"make"}},
		},
		{
			name:   "one on the other CPU does not",
			before: map[int]threadUse{1: device, 2: {40, "make", 0, 0}},
			after:  map[int]threadUse{1: ran(device, 2*time.Second), 2: {40, "make", 0, time.Second}},
		},
		{
			name:   "one that came and went",
			before: map[int]threadUse{1: device},
			after:  map[int]threadUse{1: ran(device, time.Second)},
			idle:   0.5,
			want:   CPUShare{Foreign: 0.24},
		},
		{
			name:   "the hypervisor",
			before: map[int]threadUse{1: device},
			after:  map[int]threadUse{1: ran(device, time.Second)},
			steal:  1,
			want:   CPUShare{Stolen: 0.5},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := who.shares(reading(0, 0, 0, c.before), reading(2, c.idle, c.steal, c.after), 1)
			require.InDelta(t, c.want.Foreign, got.Foreign, 1e-9)
			require.InDelta(t, c.want.Stolen, got.Stolen, 1e-9)
			require.Equal(t, c.want.By, got.By)
		})
	}
	require.Zero(t, who.shares(reading(1, 0, 0, nil), reading(1, 0, 0, nil), 1))
}
