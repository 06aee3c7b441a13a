package poller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

func limited(limit float64, strict bool) func(*Config) {
	return func(c *Config) { c.Share = Share{Limit: limit, Period: 10 * ms, Strict: strict} }
}

func TestShareStopsInputAndNotOutput(t *testing.T) {
	r := newRig(t, limited(50, false))
	out := &box{name: "out", rate: 5}
	src := &ring{name: "in", waiting: 1 << 20, sink: out}
	id := r.receive(src, ReceiverConfig{})
	r.transmit(out)

	rounds := 0
	for ; src.gate == 0; rounds++ {
		require.Equal(t, Again, r.step(ms).Do)
	}
	require.Equal(t, 6, rounds, "the sixth millisecond passes the limit of five")
	require.Equal(t, CPUShare, src.gate)

	for out.n > out.rate {
		require.Equal(t, Again, r.step(time.Microsecond).Do, "output goes on")
	}
	next := r.step(time.Microsecond)
	require.Equal(t, Next{Sleep, int64(10 * ms)}, next)
	require.Equal(t, CPUShare, src.gate)

	r.wake(time.Duration(next.UntilNS - r.now))
	require.Zero(t, src.gate)
	c := r.Counters()
	require.EqualValues(t, 1, c.ShareExhausted)
	require.EqualValues(t, 1, c.ShareReopenedPeriod)
	require.EqualValues(t, ms, c.ShareOverrunNS)
	require.EqualValues(t, 1, r.status(id).Counters.GateOpened[CPUShare.Index()])
}

func TestShareBeginsAtMultiplesOfItsPeriod(t *testing.T) {
	r := newRig(t, limited(10, true))
	src := &ring{name: "in", waiting: 1 << 20}
	r.receive(src, ReceiverConfig{})
	r.now = int64(57 * ms)
	next := r.step(2 * ms)
	require.Equal(t, Next{Sleep, int64(60 * ms)}, next)
	r.now = int64(60 * ms)
	r.Woke(r.now)
	r.Round(r.now)
	r.now += int64(25 * ms) // a round over several periods is charged to the one it ends in
	next = r.Settle(r.now, int64(25*ms))
	require.Equal(t, Next{Sleep, int64(90 * ms)}, next)
}

func TestShareIsWorkConservingUnlessStrict(t *testing.T) {
	for _, strict := range []bool{false, true} {
		r := newRig(t, limited(10, strict))
		src := &ring{name: "in", waiting: 1 << 20}
		r.receive(src, ReceiverConfig{})
		require.Equal(t, Sleep, r.step(2*ms).Do)
		r.wake(ms)
		require.Equal(t, CPUShare, src.gate, "waking alone opens nothing")
		r.Idle(r.now)
		if strict {
			require.Equal(t, CPUShare, src.gate)
			continue
		}
		require.Zero(t, src.gate)
		require.EqualValues(t, 1, r.Counters().ShareReopenedIdle)
		require.Equal(t, Again, r.step(ms/2).Do, "the account was cleared")
	}
}

func TestFullShareNeverCloses(t *testing.T) {
	r := newRig(t, limited(100, true))
	src := &ring{name: "in", waiting: 1 << 20}
	r.receive(src, ReceiverConfig{})
	for range 100 {
		require.Equal(t, Again, r.step(ms).Do)
	}
	require.Zero(t, src.gate)
	require.EqualValues(t, 100*ms, r.Counters().ShareUsedNS)
}

func TestNewSourceMeetsAUsedUpShare(t *testing.T) {
	r := newRig(t, limited(10, true))
	r.receive(&ring{name: "in", waiting: 1 << 20}, ReceiverConfig{})
	r.step(2 * ms)
	late := &ring{name: "late"}
	r.receive(late, ReceiverConfig{})
	require.Equal(t, CPUShare, late.gate)
}
