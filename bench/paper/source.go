package paper

import "math/rand/v2"

// source is the host that sends a trial's packets: nearly regular gaps, a rate
// that wanders a little, and pauses in which it does something else. The rate
// asked for is the mean over all of that.
type source struct {
	traffic Traffic
	rng     *rand.Rand
	gap     float64 // mean between pauses
	least   float64 // the wire allows no shorter one

	left    int     // packets to come, this one included
	at      float64 // when the next arrives
	factor  float64 // of the gap, drift
	driftAt float64
	pauseAt float64
}

func newSource(bed *Testbed, rate, begin float64, rng *rand.Rand) source {
	s := source{
		traffic: bed.Traffic, rng: rng, least: bed.Wire,
		left: bed.Packets, at: begin, driftAt: begin, pauseAt: never,
		gap: 1e6 / rate,
	}
	if s.traffic.Pause > 0 {
		s.gap *= 1 - s.traffic.Pause/s.traffic.PauseEvery
		s.pauseAt = begin + s.traffic.PauseEvery*rng.Float64()
	}
	return s
}

// advance schedules the arrival after the one that is due.
func (s *source) advance() {
	s.left--
	if s.left == 0 {
		s.at = never
		return
	}
	if s.at >= s.driftAt {
		s.factor = 1 + s.traffic.Drift*(2*s.rng.Float64()-1)
		s.driftAt += s.traffic.DriftEach
	}
	gap := 1 - s.traffic.Jitter
	if s.traffic.Jitter > 0 {
		gap += s.traffic.Jitter * s.rng.ExpFloat64()
	}
	s.at += max(s.gap*s.factor*gap, s.least)
	if s.at >= s.pauseAt {
		s.at += s.traffic.Pause
		s.pauseAt = s.at + s.traffic.PauseEvery*(0.5+s.rng.Float64())
	}
}
