package poller

import "time"

// autoQuota chooses the quota of every source whose quota is Auto. The rule and
// the reasons for its numbers are in docs/adr/0010-quota-auto.md.
//
// While at least half of the turns of these sources end by their quota, it
// compares the quota in force with its neighbours on the ladder, in interleaved
// windows (ours, trial, ours, trial), by packets delivered per time. A smaller
// quota is taken if it delivers as much, because its turns are shorter; a
// larger one only if it delivers clearly more. When neither neighbour is better
// it rests, twice as long each time, until the load changes.
type autoQuota struct {
	quota    int // in force now
	rung     int // of the quota held to be right
	windowNS int64

	turns, full uint64 // of auto sources in this window; full: ended by quota
	started     int64
	sent        uint64 // Counters.Delivered at its beginning

	phase    int     // 0 and 2: our windows; 1 and 3: the trial's
	up       bool    // the trial is the rung above
	doneDown bool    // the rung below is known to be no better
	doneUp   bool    // the rung above is known to be no better
	ours     float64 // packets per ns, summed over this comparison
	trial    float64
	best     float64 // best rate seen, slowly forgotten

	rest     int // windows still to rest
	restNext int // length of the next rest
	restRate float64
}

// ladder holds the quotas tried: AutoMin to AutoMax by doubling.
var ladder = [...]int{AutoMin, 8, 16, 32, 64, 128, AutoMax}

const (
	autoStart   = 4    // rung it begins on: 64
	autoRestMin = 8    // windows
	autoRestMax = 256  // windows
	autoLose    = 0.99 // a smaller quota may deliver this much of ours …
	autoLoseAll = 0.97 // … and of the best rate seen, so that small losses do not add up
	autoGain    = 1.03 // a larger quota must deliver this much of ours
	autoForget  = 1.0 / 64
	autoChange  = 0.2 // a rate this far off ends a rest

	autoWindow = 20 * time.Millisecond
)

func (a *autoQuota) init(c Config) {
	a.rung = autoStart
	a.quota = ladder[a.rung]
	// Delivery under a share comes in periods; a window must hold whole ones.
	a.windowNS = int64(max(autoWindow, 2*c.Share.Period))
	a.restNext = autoRestMin
}

func (a *autoQuota) noteTurn(r *receiver, end TurnEnd) {
	if r.quota != Auto {
		return
	}
	a.turns++
	if end == EndQuota {
		a.full++
	}
}

// tuneQuota ends a window when it is due and acts on it.
func (s *Scheduler) tuneQuota() {
	a := &s.auto
	if a.turns == 0 || s.now-a.started < a.windowNS {
		return
	}
	rate := float64(s.c.Delivered-a.sent) / float64(s.now-a.started)
	saturated := 2*a.full >= a.turns
	a.started, a.sent, a.turns, a.full = s.now, s.c.Delivered, 0, 0

	switch {
	case !saturated:
		if a.phase != 0 {
			s.c.AutoDiscarded++
		}
		a.phase, a.ours, a.trial = 0, 0, 0
	case a.rest > 0:
		a.rest--
		if rate < a.restRate*(1-autoChange) || rate > a.restRate*(1+autoChange) {
			a.rest, a.restNext, a.best = 0, autoRestMin, 0
		}
		return
	case a.phase == 0, a.phase == 2:
		a.ours += rate
		a.phase++
	case a.phase == 1:
		a.trial += rate
		a.phase++
	default:
		a.trial += rate
		s.c.AutoTrials++
		if a.decide() {
			s.c.AutoSteps++
		}
		a.phase, a.ours, a.trial = 0, 0, 0
	}
	a.quota = ladder[a.rung]
	if a.phase%2 == 1 {
		a.quota = ladder[a.neighbour()]
	}
}

// neighbour is the rung of the trial.
func (a *autoQuota) neighbour() int {
	if a.up {
		return a.rung + 1
	}
	return a.rung - 1
}

// decide ends a comparison: take the trial's rung or not, and choose what to
// try next. It tells whether the rung changed.
func (a *autoQuota) decide() (stepped bool) {
	a.best = max(a.best*(1-autoForget), a.ours)
	if a.up {
		stepped = a.trial > a.ours*autoGain
	} else {
		stepped = a.trial >= a.ours*autoLose && a.trial >= a.best*autoLoseAll
	}
	if stepped {
		a.rung = a.neighbour()
		a.restNext = autoRestMin
		a.doneDown, a.doneUp = a.up, !a.up // the side we came from
	} else if a.up {
		a.doneUp = true
	} else {
		a.doneDown = true
	}
	a.choose()
	return stepped
}

// choose says which neighbour is tried next, or that it is time to rest.
func (a *autoQuota) choose() {
	down := a.rung > 0 && !a.doneDown
	up := a.rung < len(ladder)-1 && !a.doneUp
	if !down && !up {
		a.rest = a.restNext
		a.restNext = min(2*a.restNext, autoRestMax)
		a.restRate = a.ours / 2
		a.doneDown, a.doneUp = false, false
		down = a.rung > 0
	}
	a.up = !down
}
