package poller

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// curve is a world in which delivery depends on the length of turns alone.
type curve struct {
	rate  func(quota float64) float64 // packets/s delivered at a quota
	noise float64
	rng   *rand.Rand
	sent  float64
	asked int
	full  bool
}

func (c *curve) Receive(max int) (int, bool) {
	c.asked = max
	if !c.full {
		return 1, false
	}
	return max, true
}
func (c *curve) SetGate(Reason) {}
func (c *curve) Grant(int)      {}
func (c *curve) Transmit(int) (int, bool) {
	n := int(c.sent)
	c.sent -= float64(n)
	return n, false
}
func (c *curve) Kick() bool { return false }

func (c *curve) pass(d time.Duration) {
	rate := c.rate(float64(c.asked)) * (1 + c.noise*(2*c.rng.Float64()-1))
	c.sent += rate * d.Seconds()
}

func autoAfter(t *testing.T, c *curve, span time.Duration) int {
	c.rng = rand.New(rand.NewPCG(1, 2))
	r := newRig(t, func(cfg *Config) { cfg.Quota = Auto })
	id, err := r.AddReceiver("in", c, ReceiverConfig{Quota: Common})
	require.NoError(t, err)
	_, err = r.AddTransmitter("out", c)
	require.NoError(t, err)
	for r.now < int64(span) {
		r.step(100 * time.Microsecond)
		c.pass(100 * time.Microsecond)
	}
	require.LessOrEqual(t, r.status(id).Quota, AutoMax)
	return ladder[r.auto.rung] // what is held, not what is tried at this moment
}

func TestAutoQuota(t *testing.T) {
	for _, test := range []struct {
		name     string
		rate     func(float64) float64
		min, max int
	}{
		{"flat: the shortest turn", func(float64) float64 { return 1e6 }, 5, 5},
		{"overhead per turn: where longer turns stop to pay", func(q float64) float64 { return 1e6 * q / (q + 4) }, 64, 128},
		{"large overhead: the longest turn", func(q float64) float64 { return 1e6 * q / (q + 100) }, 256, 256},
		{"long turns lose: as in figure 6-5", func(q float64) float64 { return 5e3 * math.Min(1, 8/q) }, 5, 8},
		{"a hump", func(q float64) float64 { return 1e6 * math.Exp(-math.Pow(math.Log2(q/32), 2)/8) }, 32, 32},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := autoAfter(t, &curve{rate: test.rate, full: true}, 3*time.Second)
			require.GreaterOrEqual(t, got, test.min)
			require.LessOrEqual(t, got, test.max)
		})
	}
}

func TestAutoQuotaInNoiseStaysNearTheBest(t *testing.T) {
	rate := func(q float64) float64 { return 1e6 * math.Exp(-math.Pow(math.Log2(q/32), 2)/8) }
	got := autoAfter(t, &curve{rate: rate, full: true, noise: 0.5}, 20*time.Second)
	require.GreaterOrEqual(t, rate(float64(got)), 0.8e6)
}

func TestAutoQuotaLeavesLightLoadAlone(t *testing.T) {
	got := autoAfter(t, &curve{rate: func(float64) float64 { return 1e6 }}, 3*time.Second)
	require.Equal(t, 64, got)
}

func TestAutoQuotaFollowsAChange(t *testing.T) {
	best := 16.0
	c := &curve{full: true}
	c.rate = func(q float64) float64 { return 1e6 * math.Exp(-math.Pow(math.Log2(q/best), 2)/4) }
	c.rng = rand.New(rand.NewPCG(1, 2))
	r := newRig(t, func(cfg *Config) { cfg.Quota = Auto })
	_, err := r.AddReceiver("in", c, ReceiverConfig{Quota: Common})
	require.NoError(t, err)
	_, err = r.AddTransmitter("out", c)
	require.NoError(t, err)
	run := func(span time.Duration) {
		for end := r.now + int64(span); r.now < end; {
			r.step(100 * time.Microsecond)
			c.pass(100 * time.Microsecond)
		}
	}
	run(10 * time.Second)
	require.Equal(t, 16, ladder[r.auto.rung])
	best = 128
	run(3 * time.Second)
	require.Contains(t, []int{64, 128, 256}, ladder[r.auto.rung])
	require.Positive(t, r.Counters().AutoSteps)
	require.Positive(t, r.Counters().AutoTrials)
}
