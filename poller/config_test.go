package poller

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestKnobsAtTheirEdges(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		says   string // "" is accepted
	}{
		{"default", func(*Config) {}, ""},
		{"quota 0", func(c *Config) { c.Quota = 0 }, "poller quota: setting refused: a turn must be able to handle a packet (0): give at least 1, auto or inf"},
		{"quota below the words", func(c *Config) { c.Quota = -4 }, "poller quota"},
		{"quota common for all", func(c *Config) { c.Quota = Common }, "poller quota"},
		{"quota 1", func(c *Config) { c.Quota = 1 }, ""},
		{"quota auto", func(c *Config) { c.Quota = Auto }, ""},
		{"quota inf", func(c *Config) { c.Quota = Unlimited }, ""},
		{"quota over 32 bits", func(c *Config) { c.Quota = math.MaxInt32 + 1 }, "poller quota"},
		{"share 0", func(c *Config) { c.Share.Limit = 0 }, "poller cpu_share.limit: setting refused: not a share of one CPU (0): give more than 0 % and at most 100 %"},
		{"share over 100", func(c *Config) { c.Share.Limit = 100.1 }, "(100.1): give more than 0 % and at most 100 %"},
		{"share negative", func(c *Config) { c.Share.Limit = -1 }, "cpu_share.limit"},
		{"share not a number", func(c *Config) { c.Share.Limit = math.NaN() }, "cpu_share.limit"},
		{"share 100", func(c *Config) { c.Share.Limit = 100 }, ""},
		{"period 0", func(c *Config) { c.Share.Period = 0 }, "poller cpu_share.period: setting refused: no time at all (0s): give at least the clock's resolution, 1µs"},
		{"period below resolution", func(c *Config) { c.Share.Period = 999 }, "poller cpu_share.period: setting refused: below the clock's resolution (999ns): give at least 1µs"},
		{"period at resolution", func(c *Config) { c.Share.Period = time.Microsecond }, ""},
		{"resolution 0", func(c *Config) { c.Resolution = 0 }, "clock resolution"},
		{"drain 0", func(c *Config) { c.Drain = 0 }, "poller drain"},
		{"watchdog 0", func(c *Config) { c.Watchdog = 0 }, "poller watchdog"},
		{"retry 0", func(c *Config) { c.Retry = 0 }, "poller retry"},
		{"retry crossed", func(c *Config) { c.RetryMax = c.Retry - 1 }, "poller retry_max"},
		{"backlog 0", func(c *Config) { c.Own.Backlog = 0 }, "poller own.backlog"},
		{"learn timeout 0", func(c *Config) { c.Own.LearnTimeout = 0 }, "poller own.learn_timeout"},
		{"learn tries 0", func(c *Config) { c.Own.LearnTries = 0 }, "poller own.learn_tries"},
		{"pause 0", func(c *Config) { c.Own.Pause = 0 }, ""},
		{"pause negative", func(c *Config) { c.Own.Pause = -1 }, "poller own.pause: setting refused: no time at all (-1ns): give at least the clock's resolution, 1µs, or 0 for none"},
		{"pause below resolution", func(c *Config) { c.Own.Pause = 999 }, "poller own.pause: setting refused: below the clock's resolution (999ns): give at least 1µs, or 0 for none"},
		{"pause at resolution", func(c *Config) { c.Own.Pause = time.Microsecond }, ""},
		{"pause as long as drain", func(c *Config) { c.Own.Pause = c.Drain }, ""},
		{"pause over drain", func(c *Config) { c.Own.Pause = c.Drain + 1 }, "poller own.pause: setting refused: over drain of 1ms (1.000001ms): give at most that"},
		{"hold-off 0", func(c *Config) { c.Own.HoldOff = 0 }, "poller own.hold_off"},
		{"hold-off crossed", func(c *Config) { c.Own.HoldOffMax = c.Own.HoldOff - 1 }, "poller own.hold_off_max"},
		{"mode", func(c *Config) { c.Mode = 3 }, "poller mode: setting refused: no such mode (mode(3)): give hybrid, interrupt or poll"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := Default()
			test.change(&c)
			s, err := New(c)
			if test.says == "" {
				require.NoError(t, err)
				require.Equal(t, c, s.Config())
				return
			}
			require.ErrorIs(t, err, ErrKnob)
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestQueueKnobsAtTheirEdges(t *testing.T) {
	s, err := New(Default())
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		change func(*QueueConfig)
		says   string
	}{
		{"default", func(*QueueConfig) {}, ""},
		{"marks equal", func(c *QueueConfig) { c.Low = c.High }, "poller q marks: setting refused: high and low are equal"},
		{"marks crossed", func(c *QueueConfig) { c.Low = c.High + 1 }, "poller q marks: setting refused: they are crossed (high 24, low 25): put low below high"},
		{"high 0", func(c *QueueConfig) { c.High = 0 }, "poller q high"},
		{"high over capacity", func(c *QueueConfig) { c.High = 33 }, "(33): give 1 to the capacity, 32"},
		{"low negative", func(c *QueueConfig) { c.Low = -1 }, "poller q low"},
		{"low 0", func(c *QueueConfig) { c.Low = 0 }, ""},
		{"high is capacity", func(c *QueueConfig) { c.High = 32 }, ""},
		{"capacity 0", func(c *QueueConfig) { c.Capacity = 0 }, "poller q capacity"},
		{"timeout 0", func(c *QueueConfig) { c.Timeout = 0 }, "poller q timeout: setting refused: no time at all"},
		{"timeout negative", func(c *QueueConfig) { c.Timeout = -1 }, "poller q timeout"},
		{"timeout below resolution", func(c *QueueConfig) { c.Timeout = 1 }, "poller q timeout: setting refused: below the clock's resolution"},
	} {
		t.Run(test.name, func(t *testing.T) {
			qc := DefaultQueue(32)
			test.change(&qc)
			_, err := s.AddQueue("q", &box{}, qc)
			if test.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrKnob)
			require.ErrorContains(t, err, test.says)
		})
	}
	_, err = s.AddQueue("q", &box{}, QueueConfig{Capacity: 8, High: 6, Low: 2, Timeout: time.Millisecond, Feeders: []ReceiverID{99}})
	require.ErrorIs(t, err, ErrNotFound)
}

func TestReceiverKnobsAtTheirEdges(t *testing.T) {
	s, err := New(Default())
	require.NoError(t, err)
	_, err = s.AddReceiver("eth0/0", &ring{}, ReceiverConfig{})
	require.ErrorIs(t, err, ErrKnob)
	require.EqualError(t, err, "poller eth0/0 quota: setting refused: a turn must be able to handle a packet (0): give at least 1, auto or inf, or common")
	_, err = s.AddReceiver("eth0/0", &ring{}, ReceiverConfig{Quota: 5, Window: -1})
	require.ErrorIs(t, err, ErrKnob)
}

func TestDefaultMarksOfTinyQueues(t *testing.T) {
	s, err := New(Default())
	require.NoError(t, err)
	for capacity := 1; capacity < 100; capacity++ {
		_, err := s.AddQueue("q", &box{}, DefaultQueue(capacity))
		require.NoError(t, err, "capacity %d", capacity)
	}
}

func TestReasonNames(t *testing.T) {
	require.Equal(t, "open", Reason(0).String())
	require.Equal(t, "feedback+admin", (Feedback | Admin).String())
	require.Equal(t, "cpu_share+unknown", (CPUShare | 1<<9).String())
	require.Equal(t, Reason(1), Feedback, "the receive program counts by these bits")
	require.Equal(t, Reason(16), Admin)
}
