package napi

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestReleaseDelay measures what docs/adr/0020 reports: how late a worker that has blocked hears of a packet, by what it did with its NAPI
// before. It takes a minute and asserts nothing but that every packet came, so it runs only when asked for:
//
//	WEIR_MEASURE=1 go test -run TestReleaseDelay -v -count=1 ./internal/napi
//
// The worker is on the last CPU: it owns the NAPI, releases it (or not), blocks in poll on a UDP socket of in0. The peer is on CPU 0. It
// sends one packet at a random moment after that, and a second one some time after the first has been received.
func TestReleaseDelay(t *testing.T) {
	if os.Getenv("WEIR_MEASURE") != "1" {
		t.Skip("a measurement: WEIR_MEASURE=1 runs it")
	}
	if runtime.NumCPU() < 2 {
		t.Skip("needs two CPUs, one for each end")
	}
	m := newMeasurement(t)
	const long, longer, short = 20 * time.Millisecond, 200 * time.Millisecond, 200 * time.Microsecond
	type releases []func() error
	prefer := func() error { return m.socket.SetPrefer(false) }
	keep := func() error { return m.socket.SetPrefer(true) }
	unmask := func() error { return m.client.SetMasking(m.id, 0, 0) }
	shorten := func() error { return m.client.SetMasking(m.id, 1, short) }
	drive := m.socket.Drive
	variants := []*variant{
		{name: "never owned", every: 1},
		{name: "owned, not released", flush: short, every: 1},
		{name: "owned, not released", flush: 2 * time.Millisecond, every: 1},
		{name: "owned, not released", flush: long, every: 1},
		{name: "owned, not released", flush: longer, every: 8},
		{name: "prefer off", flush: long, every: 1, release: releases{prefer}},
		{name: "prefer off, Drive", flush: long, every: 1, release: releases{prefer, drive}},
		{name: "prefer off, masking 0/0", flush: long, every: 1, release: releases{prefer, unmask}},
		{name: "prefer off, masking 0/0, Drive", flush: long, every: 1, release: releases{unmask, prefer, drive}},
		{name: "prefer off, masking 0/0, Drive", flush: longer, every: 1, release: releases{unmask, prefer, drive}},
		{name: "prefer off, masking 1/200µs, Drive", flush: long, every: 1, release: releases{shorten, prefer, drive}},
		{name: "prefer on, masking 1/200µs, Drive", flush: long, every: 1, release: releases{shorten, keep, drive}},
	}
	const rounds = 200
	for round := range rounds {
		for _, v := range variants {
			if round%v.every == 0 {
				m.sample(t, v)
			}
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| before blocking | flush timeout | samples | first packet, µs: median | p90 | p99 | max | second: median | p99 | release, µs: median | p99 |\n")
	for _, v := range variants {
		fmt.Fprintf(&table, "| %s | %v | %d | %s | %s |", v.name, v.flush, len(v.first), quantiles(v.first, .5, .9, .99, 1), quantiles(v.second, .5, .99))
		fmt.Fprintf(&table, " %s |\n", quantiles(v.cost, .5, .99))
	}
	t.Log("\n" + table.String())
	t.Logf("own: masking %s, prefer %s, drive %s (µs, median | p99)", quantiles(m.ownCost[0], .5, .99), quantiles(m.ownCost[1], .5, .99),
		quantiles(m.ownCost[2], .5, .99))
	for i, name := range []string{"SetMasking", "SetPrefer", "Drive"} {
		t.Logf("release, %s: %s µs (median | p99)", name, quantiles(m.stepCost[i], .5, .99))
	}
}

// variant is one thing to do before blocking.
type variant struct {
	name    string
	flush   time.Duration // while owned; 0: never owned
	every   int           // rounds per sample: few samples of what is slow
	release []func() error

	first, second, cost []time.Duration
}

// measurement is the worker's end and the peer's.
type measurement struct {
	*cable
	id       int
	socket   *Socket
	data     int // the UDP socket the worker waits on
	ownCost  [3][]time.Duration
	stepCost [3][]time.Duration // of the release in full
	gap      chan time.Duration // to the peer: send after this
	sent     chan time.Time
}

const dataPort = 7

func newMeasurement(t *testing.T) *measurement {
	m := &measurement{cable: newCable(t), gap: make(chan time.Duration, 1), sent: make(chan time.Time, 1)}
	require.NoError(t, m.ns.Addr("in0", here.String()+"/24"))
	m.socket = m.taught(t)
	_, err := m.socket.SetBudget(32)
	require.NoError(t, err)
	m.id, err = m.socket.ID()
	require.NoError(t, err)
	require.NoError(t, m.ns.Do(func() (err error) {
		m.data, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Bind(m.data, &unix.SockaddrInet4{Port: dataPort})
	}))
	t.Cleanup(func() { require.NoError(t, unix.Close(m.data)) })

	var home unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &home))
	runtime.LockOSThread()
	pin(t, runtime.NumCPU()-1)
	t.Cleanup(func() {
		require.NoError(t, unix.SchedSetaffinity(0, &home))
		runtime.UnlockOSThread()
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with its affinity
		pin(t, 0)
		frame := nettest.Ethernet(m.mac, m.mac, nettest.NewIP(peer, here).UDP(dataPort, dataPort, []byte("first")))
		for gap := range m.gap {
			time.Sleep(gap)
			now := time.Now()
			if err := m.out.Send(frame); err != nil {
				t.Error(err)
			}
			m.sent <- now
		}
	}()
	t.Cleanup(func() {
		close(m.gap)
		<-ended
	})
	return m
}

func pin(t *testing.T, cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(err)
	}
}

// sample owns, releases as v says, blocks, and notes both delays. At the end nothing is owned.
func (m *measurement) sample(t *testing.T, v *variant) {
	t.Helper()
	if v.flush > 0 {
		for i, step := range []func() error{
			func() error { return m.client.SetMasking(m.id, 1, v.flush) },
			func() error { return m.socket.SetPrefer(true) },
			m.socket.Drive,
		} {
			m.ownCost[i] = append(m.ownCost[i], m.timed(t, step))
		}
		m.gap <- 0 // the interrupt that masks
		m.wait(t)
		for range 3 { // a busy time ends
			require.NoError(t, m.socket.Drive())
		}
		var cost time.Duration
		for i, step := range v.release {
			d := m.timed(t, step)
			cost += d
			if len(v.release) == 3 && strings.Contains(v.name, "0/0") {
				m.stepCost[i] = append(m.stepCost[i], d)
			}
		}
		if len(v.release) > 0 {
			v.cost = append(v.cost, cost)
		}
	}
	m.gap <- 100*time.Microsecond + rand.N(1900*time.Microsecond)
	v.first = append(v.first, m.wait(t))
	m.gap <- 100*time.Microsecond + rand.N(400*time.Microsecond)
	v.second = append(v.second, m.wait(t))

	require.NoError(t, m.client.SetMasking(m.id, 0, 0))
	require.NoError(t, m.socket.SetPrefer(false))
	require.NoError(t, m.socket.Drive())
	require.NoError(t, m.socket.Drive())
}

// wait blocks until the packet is there, and returns how long ago it was sent.
func (m *measurement) wait(t *testing.T) time.Duration {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(m.data), Events: unix.POLLIN}}
	var buf [64]byte
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		n, err := unix.Poll(fds, 5000)
		now := time.Now()
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		if n == 1 {
			_, err := unix.Read(m.data, buf[:])
			require.NoError(t, err)
			return now.Sub(<-m.sent)
		}
	}
	require.Fail(t, "no packet came")
	return 0
}

func (m *measurement) timed(t *testing.T, step func() error) time.Duration {
	t.Helper()
	start := time.Now()
	err := step()
	d := time.Since(start)
	require.NoError(t, err)
	return d
}

// quantiles returns quantiles in µs, as cells of a table.
func quantiles(all []time.Duration, at ...float64) string {
	if len(all) == 0 {
		return strings.Repeat("– | ", len(at)-1) + "–"
	}
	all = slices.Sorted(slices.Values(all))
	cells := make([]string, len(at))
	for i, q := range at {
		cells[i] = fmt.Sprintf("%.1f", float64(all[int(q*float64(len(all)-1))].Nanoseconds())/1000)
	}
	return strings.Join(cells, " | ")
}
