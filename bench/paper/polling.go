package paper

import (
	"time"

	"weir/poller"
)

// polling is the modified kernel. Interrupts only wake a thread, and the thread
// is package poller's scheduler with this driver around it: what engine is in
// production, with the machine's clock for a clock.
type polling struct {
	m      *machine
	screen *screen // or nil
	s      *poller.Scheduler

	awake  bool
	wakeAt int64
	gate   poller.Reason

	// The control experiment: feedback is looked at only between turns.
	late   bool
	id     poller.ReceiverID
	reopen int64
}

// newPolling builds the scheduler for one trial.
func newPolling(m *machine, scr *screen, setup Setup) (*polling, error) {
	k := &polling{m: m, screen: scr, wakeAt: int64(1) << 62}
	c := poller.Default()
	c.Mode = poller.Interrupt // receive work is never owned: there is no other context it could run in
	c.Quota = setup.Quota
	c.Share.Limit = 100
	if setup.Share != 0 {
		c.Share.Limit = setup.Share
	}
	c.Share.Period = time.Duration(float64(m.bed.PeriodTicks) * m.bed.TickEach * 1e3)
	var err error
	if k.s, err = poller.New(c); err != nil {
		return nil, err
	}
	if k.id, err = k.s.AddReceiver("in", k, poller.ReceiverConfig{Quota: poller.Common}); err != nil {
		return nil, err
	}
	if _, err = k.s.AddTransmitter("out", k); err != nil {
		return nil, err
	}
	switch setup.Feedback {
	case FeedbackInTurn:
		_, err = k.s.AddQueue("screen", scr, poller.QueueConfig{
			Capacity: m.bed.ScreenQueue, High: m.bed.ScreenHigh, Low: m.bed.ScreenLow,
			Timeout: time.Duration(m.bed.TickEach * 1e3),
		})
	case FeedbackBetweenTurns:
		k.late = true
	}
	return k, err
}

// clock is the time as the scheduler takes it.
func (k *polling) clock() int64 { return int64(k.m.now * 1e3) }

func (k *polling) receiveInterrupt() {
	k.m.spend(k.m.bed.Interrupt, atDevice)
	k.wake()
}

func (k *polling) transmitInterrupt() {
	k.m.spend(k.m.bed.Interrupt, atDevice)
	k.wake()
}

// wake schedules the thread. Interrupts stay masked until it sleeps.
func (k *polling) wake() {
	k.awake = true
	k.m.in.masked, k.m.out.masked = true, true
}

// tick ends the thread's sleep at the first clock tick after it is due.
func (k *polling) tick() {
	if !k.awake && k.clock() >= k.wakeAt {
		k.wake()
	}
}

// idle is the idle thread: with nobody else on the CPU, input that waits for its
// share goes on.
func (k *polling) idle() {
	if k.gate&poller.CPUShare == 0 {
		return
	}
	k.s.Idle(k.clock())
	if k.gate == 0 {
		k.wake()
	}
}

func (k *polling) runnable() bool { return k.awake }

func (k *polling) empty() bool { return k.screen == nil || k.screen.empty() }

// run is the polling thread.
func (k *polling) run() {
	m := k.m
	m.spend(m.bed.Dispatch, atThread)
	k.s.Woke(k.clock())
	for {
		start := k.clock()
		m.spend(m.bed.Loop, atThread)
		k.s.Round(k.clock())
		now := k.clock()
		if k.late {
			k.lateFeedback(now)
		}
		next := k.s.Settle(now, now-start)
		if next.Do == poller.Again {
			continue
		}
		if k.sleep(next.UntilNS) {
			return
		}
		k.s.Woke(k.clock())
	}
}

// sleep enables the interrupts that may wake the thread, and looks once more: a
// packet may have come since the last look, and no interrupt will tell of it.
// It reports false if the thread must stay awake.
func (k *polling) sleep(until int64) bool {
	m := k.m
	if m.out.finished > 0 || k.gate == 0 && m.in.waiting > 0 {
		return false
	}
	m.out.signal, m.out.masked = false, false
	if k.gate == 0 {
		m.in.signal, m.in.masked = false, false
	}
	k.wakeAt, k.awake = until, false
	if k.late && k.gate != 0 {
		k.wakeAt = k.reopen
	}
	return true
}

// dequeued is told when the screening process fetches a packet: at the low mark
// the scheduler must look at its queues again.
func (k *polling) dequeued() {
	if !k.awake && k.gate != 0 && k.screen.queue <= k.m.bed.ScreenLow {
		k.wake()
	}
}

// lateFeedback is what feedback would be without looking inside a turn.
func (k *polling) lateFeedback(now int64) {
	switch n := k.screen.Len(); {
	case k.gate == 0 && n >= k.m.bed.ScreenHigh:
		k.reopen = now + int64(k.m.bed.TickEach*1e3)
		_ = k.s.Close(k.id, poller.Screen)
	case k.gate != 0 && (n <= k.m.bed.ScreenLow || now >= k.reopen):
		_ = k.s.Open(k.id, poller.Screen)
	}
}

// Receive implements poller.Receiver: driver and IP, one packet at a time.
func (k *polling) Receive(max int) (taken int, more bool) {
	m := k.m
	for taken < max && m.in.waiting > 0 {
		m.in.waiting--
		taken++
		m.spend(m.bed.Receive, atThread)
		m.input(k.screen)
	}
	return taken, m.in.waiting > 0
}

// SetGate implements poller.Receiver; sleep and dequeued read it.
func (k *polling) SetGate(r poller.Reason) { k.gate = r }

// Grant implements poller.Receiver; the device has no door.
func (k *polling) Grant(int) {}

// Transmit implements poller.Transmitter.
func (k *polling) Transmit(int) (done int, more bool) {
	done = k.m.out.callback(atThread)
	return done, k.m.out.finished > 0
}

// Kick implements poller.Transmitter. The device starts by itself, and its
// interrupt tells of everything it finishes.
func (k *polling) Kick() (pending bool) { return false }
