package poller

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// ErrKnob is wrapped by every error that refuses a setting.
var ErrKnob = errors.New("setting refused")

// refuse says which knob was refused, why, and what would be accepted.
func refuse(knob string, value any, cause, remedy string) error {
	return fmt.Errorf("poller %s: %w: %s (%v): %s", knob, ErrKnob, cause, value, remedy)
}

// Quota is the most packets a source may handle in one turn: a number from 1
// up, or one of the words below.
type Quota int

const (
	Auto      Quota = -1 // adapts between AutoMin and AutoMax; docs/adr/0010
	Unlimited Quota = -2 // "inf": no bound; for experiments
	Common    Quota = -3 // for one source: what Config.Quota says

	AutoMin = 5   // the paper's best quota; shorter turns only add overhead
	AutoMax = 256 // no turn longer than this is worth its latency

	maxQuota = math.MaxInt32 // what Unlimited passes to Receive
)

// String returns the quota as a configuration file would write it.
func (q Quota) String() string {
	switch q {
	case Auto:
		return "auto"
	case Unlimited:
		return "inf"
	case Common:
		return "common"
	}
	return strconv.Itoa(int(q))
}

func (q Quota) check(knob string) error {
	if q >= 1 && q <= maxQuota || q == Auto || q == Unlimited {
		return nil
	}
	return refuse(knob, q, "a turn must be able to handle a packet", "give at least 1, auto or inf")
}

// Mode says how receive work is woken.
type Mode int

const (
	Hybrid    Mode = iota // interrupts at low load, ownership on persistent backlog of receive work that competes
	Interrupt             // never own; block whenever a round finds nothing
	Poll                  // own from the first packet; keep it, and never block, while every source is owned, or none has an Owner
)

// String returns the mode's name in a configuration file.
func (m Mode) String() string {
	switch m {
	case Hybrid:
		return "hybrid"
	case Interrupt:
		return "interrupt"
	case Poll:
		return "poll"
	}
	return "mode(" + strconv.Itoa(int(m)) + ")"
}

// Config is everything a scheduler is told once. Start from Default; a zero
// value is refused, because a zero is not a sensible value of most knobs.
type Config struct {
	Mode  Mode
	Quota Quota // of every source that has none of its own

	Share Share
	Own   Own

	// Drain is how long every owned source must have been empty before owned
	// receive work is released, whatever the others do. Too short: ownership flaps at moderate load.
	// Too long: after every burst an idle worker looks in vain that long,
	// once per Own.Pause.
	Drain time.Duration

	// Retry is the first wait before looking again at a transmitter that had
	// work left but made no progress; it doubles up to RetryMax and starts
	// again with the next progress.
	Retry, RetryMax time.Duration

	// Watchdog is the window in which receive must not advance while
	// delivery stands still with work before it.
	Watchdog time.Duration

	// Resolution is that of the driver's clock. Durations below it are
	// refused, because they could only be kept by chance.
	Resolution time.Duration
}

// Share is the part of a CPU that packet work may use.
type Share struct {
	// Limit in percent of one CPU, over 0 and at most 100; 100 is no limit.
	Limit float64
	// Period over which the limit holds; periods start at multiples of it.
	Period time.Duration
	// Strict keeps input closed until the period ends even if the CPU has
	// nothing else to run. Otherwise Idle opens it again, as in the paper.
	Strict bool
}

// Own are the knobs of the ownership state machine.
type Own struct {
	// Backlog is how many turns in a row must end with packets left before
	// receive work is owned.
	Backlog int
	// Gather is how many packets a round with owned sources must take for the
	// next one to follow at once; after fewer the worker waits Pause. 0 waits
	// only after rounds that found nothing, and switches Calm off. A worker
	// that polled without end for a packet or two would use a whole CPU, be
	// preempted for it by whoever else wants the CPU, and lose what comes
	// meanwhile beyond the device's ring.
	Gather int
	// Calm is how long every turn of an owned source must have taken less
	// than a quarter of Gather before it is given back although packets come.
	Calm time.Duration
	// LearnTimeout is how long one lesson may take, LearnTries how many are
	// given before learning has failed.
	LearnTimeout time.Duration
	LearnTries   int
	// Pause is how long the worker waits before it looks again at owned
	// sources that were all empty, until Drain has passed; 0 looks again at
	// once. It lets packets gather, and it lets others run: whoever polled
	// the device when it was taken may have been preempted while it did, and
	// holds it until it runs again. At most Drain, or they would be given
	// back after a single look. Too long: the device's ring overflows in the
	// meantime.
	Pause time.Duration
	// HoldOff is how long a source stays in interrupt after a failure; it
	// doubles with each failure in a row up to HoldOffMax.
	HoldOff, HoldOffMax time.Duration
}

// Default returns the settings weir starts with. Quota, marks, timeout and
// period are the paper's or from the measurements named in docs/adr.
func Default() Config {
	return Config{
		Mode:  Hybrid,
		Quota: 64,
		Share: Share{Limit: 90, Period: 10 * time.Millisecond},
		Own: Own{
			Backlog:      4,
			Calm:         10 * time.Millisecond,
			LearnTimeout: 10 * time.Millisecond,
			LearnTries:   5,
			Pause:        50 * time.Microsecond,
			HoldOff:      100 * time.Millisecond,
			HoldOffMax:   10 * time.Second,
		},
		Drain:      time.Millisecond,
		Retry:      50 * time.Microsecond,
		RetryMax:   10 * time.Millisecond,
		Watchdog:   time.Second,
		Resolution: time.Microsecond,
	}
}

// ReceiverConfig is what one receive source may have of its own.
type ReceiverConfig struct {
	// Quota of this source; Common for the scheduler's.
	Quota Quota
	// Window is how many packets may be past the door and not yet taken:
	// the size of the receive ring, for instance. 0 grants no credits at
	// all (a source without a door). SetWindow changes it.
	Window int
	// Owner, or nil if this source's receive work cannot be owned.
	Owner Owner
}

// QueueConfig says when a downstream queue closes the gates of what feeds it.
//
// They close when it holds High packets and open when it has drained to Low, or
// when Timeout passes first. After a timeout one more packet is let in, and a
// queue still at its high mark closes again, as in the paper. Each timeout in a
// row in which it did not move at all lets in twice as many, up to what its
// capacity has above the high mark, so that a stage that hangs does not starve
// whatever else its sources feed.
type QueueConfig struct {
	Capacity  int           // most packets it can hold
	High, Low int           // marks, in packets: 0 ≤ Low < High ≤ Capacity
	Timeout   time.Duration // longest time it may keep gates closed
	Feeders   []ReceiverID  // the sources that feed it; nil means every source, present and future
	// Selective closes the gate of a source that is a Shutter only while all
	// the selective queues are closed that it feeds by its own word (SetFeeds);
	// otherwise it is told which are, and goes on. Every other source is
	// treated as one that feeds the queue. While a source feeds several, the
	// allowance of a timeout does not bound its turns, and is spent by all
	// that it takes.
	Selective bool
}

// DefaultQueue returns marks of 75 and 25 percent and a timeout of 1 ms for a
// queue of the given capacity, fed by every source.
func DefaultQueue(capacity int) QueueConfig {
	return QueueConfig{
		Capacity: capacity,
		High:     capacity - capacity/4,
		Low:      capacity / 4,
		Timeout:  time.Millisecond,
	}
}

// Validate reports the first knob that cannot be honoured, wrapping ErrKnob.
func (c Config) Validate() error {
	if c.Mode < Hybrid || c.Mode > Poll {
		return refuse("mode", c.Mode, "no such mode", "give hybrid, interrupt or poll")
	}
	if err := c.Quota.check("quota"); err != nil {
		return err
	}
	if c.Resolution <= 0 {
		return refuse("clock resolution", c.Resolution, "a clock that stands still", "give the resolution of the driver's clock")
	}
	// Written so that a NaN is refused as well.
	if !(c.Share.Limit > 0 && c.Share.Limit <= 100) {
		return refuse("cpu_share.limit", c.Share.Limit, "not a share of one CPU", "give more than 0 % and at most 100 %")
	}
	if c.Own.Backlog < 1 {
		return refuse("own.backlog", c.Own.Backlog, "no turn would have to end with packets left", "give at least 1")
	}
	if c.Own.Gather < 0 {
		return refuse("own.gather", c.Own.Gather, "not a number of packets", "give 0 for no gathering, or more")
	}
	if c.Own.LearnTries < 1 {
		return refuse("own.learn_tries", c.Own.LearnTries, "nothing could be learned", "give at least 1")
	}
	for _, d := range []struct {
		knob  string
		value time.Duration
	}{
		{"cpu_share.period", c.Share.Period},
		{"own.calm", c.Own.Calm},
		{"own.learn_timeout", c.Own.LearnTimeout},
		{"own.hold_off", c.Own.HoldOff},
		{"drain", c.Drain},
		{"retry", c.Retry},
		{"watchdog", c.Watchdog},
	} {
		if err := c.checkDuration(d.knob, d.value); err != nil {
			return err
		}
	}
	if c.RetryMax < c.Retry {
		return refuse("retry_max", c.RetryMax, fmt.Sprintf("below retry of %v", c.Retry), "give at least that")
	}
	if c.Own.Pause != 0 {
		if err := c.checkDuration("own.pause", c.Own.Pause); err != nil {
			return fmt.Errorf("%w, or 0 for none", err)
		}
	}
	if c.Own.Pause > c.Drain {
		return refuse("own.pause", c.Own.Pause, fmt.Sprintf("over drain of %v", c.Drain), "give at most that")
	}
	if c.Own.HoldOffMax < c.Own.HoldOff {
		return refuse("own.hold_off_max", c.Own.HoldOffMax, fmt.Sprintf("below own.hold_off of %v", c.Own.HoldOff), "give at least that")
	}
	return nil
}

// checkDuration refuses what the driver's clock cannot tell from nothing.
func (c Config) checkDuration(knob string, d time.Duration) error {
	if d <= 0 {
		return refuse(knob, d, "no time at all", fmt.Sprintf("give at least the clock's resolution, %v", c.Resolution))
	}
	if d < c.Resolution {
		return refuse(knob, d, "below the clock's resolution", fmt.Sprintf("give at least %v", c.Resolution))
	}
	return nil
}

func (c Config) checkReceiver(name string, rc ReceiverConfig) error {
	if rc.Quota != Common {
		if err := rc.Quota.check(name + " quota"); err != nil {
			return fmt.Errorf("%w, or common", err)
		}
	}
	if rc.Window < 0 {
		return refuse(name+" window", rc.Window, "less than no credit", "give the size of the receive ring, or 0 for none")
	}
	return nil
}

func (c Config) checkQueue(name string, qc QueueConfig) error {
	switch {
	case qc.Capacity < 1:
		return refuse(name+" capacity", qc.Capacity, "holds nothing", "give at least 1")
	case qc.High < 1 || qc.High > qc.Capacity:
		return refuse(name+" high", qc.High, "not a fill level", fmt.Sprintf("give 1 to the capacity, %d", qc.Capacity))
	case qc.Low < 0:
		return refuse(name+" low", qc.Low, "not a fill level", "give at least 0")
	case qc.Low == qc.High:
		return refuse(name+" marks", qc.Low, "high and low are equal, so the gate would flap with every packet", "put low below high")
	case qc.Low > qc.High:
		return refuse(name+" marks", fmt.Sprintf("high %d, low %d", qc.High, qc.Low), "they are crossed", "put low below high")
	}
	return c.checkDuration(name+" timeout", qc.Timeout)
}
