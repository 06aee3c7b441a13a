package poller

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// still is a source and a queue whose callbacks cost next to nothing: what is
// left of a benchmark is the scheduler.
type still struct {
	taken int
	more  bool
}

func (s *still) Receive(max int) (int, bool)  { return min(s.taken, max), s.more }
func (s *still) SetGate(Reason)               {}
func (s *still) Grant(int)                    {}
func (s *still) Transmit(max int) (int, bool) { return s.taken, s.more }
func (s *still) Kick() bool                   { return false }
func (s *still) Len() int                     { return 0 }

func (s *still) SetShut(QueueID, bool) {}

func stillScheduler(t testing.TB, sources, transmitters, queues int, src *still, selective bool) *Scheduler {
	c := Default()
	c.Quota = Auto // the dearest
	s, err := New(c)
	require.NoError(t, err)
	var ids []ReceiverID
	for range sources {
		id, err := s.AddReceiver("in", src, ReceiverConfig{Quota: Common, Window: 256})
		require.NoError(t, err)
		ids = append(ids, id)
	}
	for range transmitters {
		_, err := s.AddTransmitter("out", src)
		require.NoError(t, err)
	}
	for range queues {
		qc := DefaultQueue(1024)
		qc.Selective = selective
		q, err := s.AddQueue("out", src, qc)
		require.NoError(t, err)
		for _, id := range ids {
			if selective {
				require.NoError(t, s.SetFeeds(id, q, true))
			}
		}
	}
	return s
}

// BenchmarkRound is a whole round, Settle included, over 8 receive sources.
func BenchmarkRound(b *testing.B) {
	for _, bench := range []struct {
		name                         string
		sources, transmitters, queue int
		src                          still
		selective                    bool
	}{
		{"8 empty", 8, 0, 0, still{}, false},
		{"8 empty, 2 egresses", 8, 2, 2, still{}, false},
		{"8 busy", 8, 0, 0, still{taken: 32, more: true}, false},
		{"8 busy, 2 egresses", 8, 2, 2, still{taken: 32, more: true}, false},
		{"8 busy, 8 egresses", 8, 8, 8, still{taken: 32, more: true}, false},
		{"8 busy, 2 egresses, selective", 8, 2, 2, still{taken: 32, more: true}, true},
		{"8 busy, 8 egresses, selective", 8, 8, 8, still{taken: 32, more: true}, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := stillScheduler(b, bench.sources, bench.transmitters, bench.queue, &bench.src, bench.selective)
			b.ReportAllocs()
			now := int64(0)
			for b.Loop() {
				now += 100
				s.Round(now)
				s.Settle(now, 50)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(bench.sources), "ns/turn")
		})
	}
}

// BenchmarkCallbacks is what the callbacks of 8 busy turns cost by themselves,
// to be taken off BenchmarkRound.
func BenchmarkCallbacks(b *testing.B) {
	src := &still{taken: 32, more: true}
	sources := make([]Receiver, 8)
	for i := range sources {
		sources[i] = src
	}
	sum := 0
	for b.Loop() {
		for _, r := range sources {
			r.Grant(32)
			n, _ := r.Receive(64)
			sum += n
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/8, "ns/turn")
}

// Nothing is allocated after New and Add, whatever ends a turn, a gate or a
// state.
func TestNoAllocations(t *testing.T) {
	c := Default()
	c.Share = Share{Limit: 30, Period: ms}
	c.Quota = Auto
	c.Own.HoldOff, c.Own.HoldOffMax = 50*us, 100*us
	r := newRig(t, func(cfg *Config) { *cfg = c })
	h := &handle{teaching: true}
	slow := &box{name: "slow", rate: 1}
	fast := &box{name: "fast", rate: 64}
	a := &ring{name: "a", sink: slow}
	b := &ring{name: "b", sink: fast}
	idA := r.receive(a, ReceiverConfig{Quota: Common, Window: 100, Owner: h})
	idB := r.receive(b, ReceiverConfig{Quota: 16})
	r.transmit(slow)
	r.transmit(fast)
	q := paperQueue
	q.Feeders = []ReceiverID{idA}
	r.queue(slow, q)
	r.queue(fast, DefaultQueue(256))

	d := &door{ring: ring{name: "d"}, shut: map[QueueID]bool{}, t: t}
	idD, err := r.AddReceiver("d", d, ReceiverConfig{Quota: 8})
	require.NoError(t, err)
	q.Feeders, q.Selective = []ReceiverID{idD}, true
	one, two := &box{name: "one"}, &box{name: "two"}
	queueOne, queueTwo := r.queue(one, q), r.queue(two, q)
	feedsBoth := true
	d.inReceive = func() {
		_ = r.SetFeeds(idD, queueOne, true)
		_ = r.SetFeeds(idD, queueTwo, feedsBoth)
	}

	rng := rand.New(rand.NewPCG(1, 2))
	n := 0
	allocs := testing.AllocsPerRun(20000, func() {
		n++
		if n%3000 < 1500 {
			a.waiting, b.waiting = 100, 20
		}
		b.refuses = n%7 == 0
		d.waiting = n / 200 % 2 * 100
		one.n, two.n = n/40%2*24, n/80%2*24
		feedsBoth = n/500%2 == 0
		h.away = rng.IntN(8) == 0
		slow.pending = n%5 == 0
		h.ownErr, h.freeErr = nil, nil
		if rng.IntN(2) == 0 {
			h.ownErr, h.freeErr = errFake, errFake
		}
		if n%997 == 0 {
			_ = r.Close(idB, Admin)
			_ = r.Lost(idA)
			h.learned = false
		}
		if n%997 == 100 {
			_ = r.Open(idB, Admin)
		}
		if next := r.step(7 * us); next.Do != Again {
			r.wake(50 * us)
			if n%2 == 0 {
				r.Idle(r.now)
			}
		}
	})
	require.Zero(t, allocs)

	sa, sb := r.status(idA).Counters, r.status(idB).Counters
	for e := range TurnEnd(NumTurnEnds) {
		require.Positive(t, sa.Turns[e]+sb.Turns[e], "turn end %v not reached", e)
	}
	for m := range Move(NumMoves) {
		if m == MoveLearnTimedOut || m == MoveLearnRetried || m == MoveLearnAbandoned || m == MoveReleasedGate || m == MoveLostLearning || m == MoveLostReleasing || m == MoveRestedWork || m == MoveReleasedCalm {
			continue // reached by the random scripts, and by TestCalm
		}
		require.Positive(t, sa.Moves[m], "move %v not reached", m)
	}
	require.Greater(t, d.told, 100)
	require.Greater(t, r.status(idD).Counters.GateClosed[Feedback.Index()], uint64(100))
	require.Positive(t, r.Counters().ShareExhausted)
	require.Positive(t, r.Queues(nil)[0].Counters.OpenedLow)
}

func ExampleReason() {
	fmt.Println(Feedback | EgressDown)
	// Output: feedback+egress_down
}
