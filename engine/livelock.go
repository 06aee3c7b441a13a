package engine

// Livelock is what the watch over livelock has seen.
type Livelock struct {
	// Now says that the last window was one.
	Now bool `json:"now"`
	// Windows of a second in which packets came and next to none were finished; Episodes are runs of them.
	Windows  uint64 `json:"windows"`
	Episodes uint64 `json:"episodes"`
}

const (
	// livelockLeast is how many packets must come in a window before it can be one.
	livelockLeast = 1000
	// livelockPart: a window in which less than one in so many packets is finished is livelock. Early discard at the door costs a tenth to
	// a fifth of forwarding, so a worker that forwards at its peak finishes more however much is offered.
	livelockPart = 50
)

// livelockWatch compares what comes to be forwarded with what is finished: delivered, or dropped by a decision about the packet.
type livelockWatch struct {
	came, finished uint64
	result         Livelock
}

// window ends a window; came and finished are totals. It reports whether an episode begins.
func (l *livelockWatch) window(came, finished uint64) (begins bool) {
	came = max(came, l.came) // two counters read one after the other may seem to have gone back
	newCame, newFinished := came-l.came, finished-l.finished
	l.came, l.finished = came, finished
	now := newCame >= livelockLeast && newFinished*livelockPart < newCame
	if now {
		l.result.Windows++
		if !l.result.Now {
			l.result.Episodes++
			begins = true
		}
	}
	l.result.Now = now
	return begins
}

func (g *guard) watchLivelock() {
	var came, finished uint64
	for _, p := range g.engine.ports {
		c := p.program.Counters()
		came += c.Seen
		for class := range c.Passed {
			came -= c.Passed[class] + c.Limited[class]
		}
	}
	for _, w := range g.engine.workers {
		for _, s := range w.sources {
			for r := forwarded + 1; r < numReasons; r++ {
				finished += s.read(int(r))
			}
			finished -= s.read(int(DropBacklogFull)) // refused late is not finished
		}
		for _, e := range w.egresses {
			finished += e.read(egressCompleted) + e.read(egressDropDown)
		}
	}
	begins := g.watch.window(came, finished)
	if begins {
		g.engine.notice("livelock: packets come, and fewer than one in %d is delivered or dropped by a decision", livelockPart)
	}
	result := g.watch.result
	g.engine.livelock.Store(&result)
}
