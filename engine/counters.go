package engine

import "sync/atomic"

// counters is a set of counters with one writer. The worker adds to live with plain stores and publishes once per round; any goroutine
// may read what was published. Counters only rise.
type counters struct {
	live  []uint64
	shown []atomic.Uint64
}

func newCounters(n int) counters {
	return counters{live: make([]uint64, n), shown: make([]atomic.Uint64, n)}
}

// publish makes the live values visible. Unchanged ones are not stored, so that an idle round dirties no cache line.
func (c *counters) publish() {
	for i, v := range c.live {
		if c.shown[i].Load() != v {
			c.shown[i].Store(v)
		}
	}
}

// read returns the published value of counter i.
func (c *counters) read(i int) uint64 { return c.shown[i].Load() }
