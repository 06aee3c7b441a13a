package paper

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/poller"
)

// quiet is a testbed without chance: no noise, no traffic but what a test
// brings, no clock that matters.
func quiet() *Testbed {
	bed := DEC1996()
	bed.Noise, bed.Daemons, bed.Jitter, bed.Drift, bed.Pause = 0, 0, 0, 0, 0
	return &bed
}

// scripted is a kernel that notes what is done to it.
type scripted struct {
	m    *machine
	log  []string
	wake bool
}

func (k *scripted) receiveInterrupt() {
	k.log = append(k.log, "receive")
	k.m.spend(10, atDevice)
	k.log = append(k.log, "receive over")
}
func (k *scripted) transmitInterrupt() { k.log = append(k.log, "transmit") }
func (k *scripted) tick()              { k.log = append(k.log, "tick") }
func (k *scripted) idle()              {}
func (k *scripted) runnable() bool     { return k.wake }
func (k *scripted) run()               {}
func (k *scripted) empty() bool        { return true }

func newScripted() *scripted {
	bed := quiet()
	m := &machine{bed: bed, rng: rand.New(rand.NewPCG(1, 1)), tickAt: never}
	m.source.at = never
	m.in.size = 32
	m.out = transmitter{m: m, size: 8, queueMax: 50, doneAt: never}
	m.users.m = m
	k := &scripted{m: m}
	m.kernel = k
	m.schedule()
	return k
}

func TestHigherLevelsTakeTheirTimeFirst(t *testing.T) {
	k := newScripted()
	m := k.m
	m.tickAt = 50
	m.source = newSource(m.bed, 10000, 30, m.rng)
	m.source.left = 1
	m.schedule()
	m.spend(100, atThread)
	require.Equal(t, []string{"receive", "receive over", "tick"}, k.log)
	require.InDelta(t, 100+10+m.bed.Tick, m.now, 1e-9)
}

func TestInterruptsDoNotInterruptEachOther(t *testing.T) {
	k := newScripted()
	m := k.m
	m.in.signal, m.out.signal = true, true
	m.spend(1, atThread)
	require.Equal(t, []string{"receive", "receive over", "transmit"}, k.log, "receive goes first")
	k.log = nil
	m.in.signal, m.in.masked = true, true
	m.spend(1, atThread)
	require.Empty(t, k.log, "masked")
	m.spend(1, atDevice)
	require.Empty(t, k.log)
}

func TestUserModeStopsForAThread(t *testing.T) {
	k := newScripted()
	k.wake = true
	require.Equal(t, 100.0, k.m.spendUser(100))
	require.Zero(t, k.m.now)
	k.wake = false
	require.Zero(t, k.m.spendUser(100))
	require.Equal(t, 100.0, k.m.now)
}

// The transmit policy of 1996: a call frees what is finished, refills, and does
// not look again.
func TestTransmitCallbackLooksOnce(t *testing.T) {
	k := newScripted()
	m := k.m
	for range 70 {
		m.out.output(atThread)
	}
	require.Equal(t, 8, m.out.flying+m.out.finished, "the ring is full")
	require.Equal(t, 50, m.out.queue)
	require.Equal(t, 12, m.out.dropped)
	for m.out.finished < 8 {
		m.now = m.next
		m.deliver()
	}
	require.Equal(t, 8, m.out.callback(atThread))
	require.Equal(t, 42, m.out.queue, "no more than the ring holds")
	require.Positive(t, m.out.finished, "some went out meanwhile and wait for the next call")
}

// Every packet offered is sent or lost in one place.
func TestPacketsAreConserved(t *testing.T) {
	for _, c := range setups {
		for _, rate := range []float64{1000, 5000, 12000} {
			bed := DEC1996()
			m, err := newMachine(&bed, c.Setup, rate, 1)
			require.NoError(t, err)
			m.run()
			lost := m.in.dropped + m.out.dropped
			switch k := m.kernel.(type) {
			case *unmodified:
				lost += k.dropped
			case *polling:
			}
			for _, p := range m.users.processes {
				if s, ok := p.(*screen); ok {
					lost += s.dropped
				}
			}
			require.Equal(t, bed.Packets, m.out.sent+lost, "%s at %g", c, rate)
		}
	}
}

func TestSourceKeepsItsRate(t *testing.T) {
	bed := DEC1996()
	for _, rate := range []float64{500, 5000, 12000} {
		s := newSource(&bed, rate, 0, rand.New(rand.NewPCG(1, 1)))
		last := 0.0
		for s.left > 0 {
			last = s.at
			s.advance()
		}
		require.InDelta(t, rate, float64(bed.Packets-1)/last*1e6, 0.04*rate)
	}
}

// The idle thread's part: with nobody else on the CPU a share limit costs
// nothing.
func TestShareIsWorkConserving(t *testing.T) {
	bed := DEC1996()
	free, err := Trial(&bed, polls(5), 8000, 1)
	require.NoError(t, err)
	limited, err := Trial(&bed, Setup{Polling: true, Quota: 5, Share: 25}, 8000, 1)
	require.NoError(t, err)
	require.Greater(t, limited.Output, 0.9*free.Output)
	shared, err := Trial(&bed, shares(25), 8000, 1)
	require.NoError(t, err)
	require.Less(t, shared.Output, 0.5*free.Output)
}

// The automatic quota finds its way from 64, where this router livelocks, to
// what serves it best.
func TestAutoQuotaServesTheOldRouter(t *testing.T) {
	bed := DEC1996()
	bed.Packets = 100000
	out := make(map[poller.Quota]float64)
	for _, q := range []poller.Quota{5, 64, poller.Auto} {
		o, err := Trial(&bed, polls(q), 9000, 1)
		require.NoError(t, err)
		out[q] = o.Output
	}
	require.Less(t, out[64], 0.3*out[5])
	require.Greater(t, out[poller.Auto], 0.9*out[5])
}
