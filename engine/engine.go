package engine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weir/engine/fib"
	"weir/internal/host"
	"weir/poller"
	"weir/queues"
	"weir/xdpprog"
)

const (
	// maxQueues is how many receive queues of a port the program can tell apart.
	maxQueues = 64
	// drainTime bounds how long Close lets the workers finish what they have begun.
	drainTime = 200 * time.Millisecond
)

// Engine forwards between its ports from Start to Close. Its methods may be called from any goroutine.
type Engine struct {
	config Config
	table  *fib.Table
	ports  []*port
	plan   plan

	mu       sync.Mutex // guards workers' reconfiguration and closing
	workers  []*worker
	closed   bool
	warnings []string

	guard    *guard
	livelock atomic.Pointer[Livelock]
	events   chan string

	stop    context.CancelFunc
	watcher sync.WaitGroup
	failed  chan error
}

// Start checks the ports, attaches the programs, opens the sockets and starts the workers, all in the current network namespace. When
// it returns an error, nothing is left behind. When it returns an Engine, a packet that arrives is forwarded.
func Start(ctx context.Context, c Config) (_ *Engine, err error) {
	e := &Engine{config: c, failed: make(chan error, 1), events: make(chan string, maxEvents)}
	e.livelock.Store(&Livelock{})
	defer func() {
		if err != nil {
			_ = e.Close() // the first error is the one that says what is wrong
		}
	}()
	if err := e.preflight(); err != nil {
		return nil, err
	}
	if err := e.findPorts(); err != nil {
		return nil, err
	}
	ctx, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	if err := e.watchTable(ctx); err != nil {
		return nil, err
	}
	if err := e.attachPorts(); err != nil {
		return nil, err
	}
	if err := e.openWorkers(); err != nil {
		return nil, err
	}
	if err := e.openGuard(); err != nil {
		return nil, err
	}
	if err := e.startWorkers(); err != nil {
		return nil, err
	}
	e.follow(ctx)
	return e, nil
}

func (e *Engine) portNames() []string {
	names := make([]string, len(e.config.Ports))
	for i, p := range e.config.Ports {
		names[i] = p.Name
	}
	return names
}

func (e *Engine) findPorts() error {
	for i, c := range e.config.Ports {
		p, err := newPort(i, c, e.config.UMEM)
		if err != nil {
			return err
		}
		e.ports = append(e.ports, p)
	}
	return nil
}

func (e *Engine) attachPorts() error {
	s := e.table.Snapshot()
	for i, p := range e.ports {
		if err := p.attach(s.Port(i).MAC, localPrefixes(s), e.config.UMEM.maxFrame()); err != nil {
			return err
		}
		if why := p.program.NativeRefused(); why != nil {
			e.warn("port %s: native XDP refused, generic attached: %v", p.config.Name, why)
		}
		if p.program.Mode() == xdpprog.AttachGeneric {
			e.warn("port %s: in generic mode packets that the device or its peer has merged are too long to be forwarded: "+
				"ethtool -K %s gro off lro off (on a veth: tso off gso off at its peer)", p.config.Name, p.config.Name)
		}
		if mode, err := host.ReversePathFilter(p.config.Name); err != nil {
			return err
		} else if mode != 0 {
			e.warn("port %s: rp_filter is %d, but weir does not check sources against routes: filter before it, or set "+
				"net.ipv4.conf.{all,%s}.rp_filter to 0 to say that you know", p.config.Name, mode, p.config.Name)
		}
		if !p.program.SeesTags() {
			e.warn("port %s: VLAN tags that the device strips cannot be seen here, and such frames would be routed as untagged: "+
				"ethtool -K %s rx-vlan-offload off (on a veth: tx-vlan-offload off at its peer)", p.config.Name, p.config.Name)
		}
	}
	return nil
}

func joinStringers[T fmt.Stringer](list []T) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = v.String()
	}
	return strings.Join(words, "; ")
}

// warn keeps a message for Warnings, once.
func (e *Engine) warn(format string, args ...any) {
	if message := fmt.Sprintf(format, args...); !slices.Contains(e.warnings, message) {
		e.warnings = append(e.warnings, message)
	}
}

// warnOfMTU warns of an MTU that was raised beyond what a packet buffer holds while weir ran. At a start it is refused.
func (e *Engine) warnOfMTU(p *port, mtu int) {
	if frame := mtu + ethHeaderLen; frame > e.config.UMEM.maxFrame() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.warn("port %s: MTU %d: frames beyond %d bytes do not fit a packet buffer and are dropped as door_too_long: lower the MTU, or "+
			"restart weir", p.config.Name, mtu, e.config.UMEM.maxFrame())
	}
}

// watchTable begins to follow the kernel's tables.
func (e *Engine) watchTable(ctx context.Context) error {
	refs := make([]fib.PortRef, len(e.ports))
	for i, p := range e.ports {
		refs[i] = fib.PortRef{Index: i, Ifindex: p.ifindex, Name: p.config.Name}
	}
	table, err := fib.Watch(ctx, fib.Config{Ports: refs})
	if err != nil {
		return err
	}
	if err := followable(e.ports, table.Snapshot()); err != nil {
		return errors.Join(err, table.Close())
	}
	e.table = table
	return nil
}

// followable says what of the kernel's tables weir cannot follow: a port that is gone, and policy rules, under which the main table is
// not what the kernel would use; nil if it can.
func followable(ports []*port, s *fib.Snapshot) error {
	if rules := s.ForeignRules(); len(rules) > 0 {
		return fmt.Errorf("policy routing (%s): only the main table is followed: remove it (ip rule)", joinStringers(rules))
	}
	for i, p := range ports {
		if s.Port(i).Ifindex != p.ifindex {
			return fmt.Errorf("port %s: the interface was removed: start weir again when it is back", p.config.Name)
		}
	}
	return nil
}

// localPrefixes are the destinations that are the kernel's: the host's addresses and subnet broadcasts.
func localPrefixes(s *fib.Snapshot) []netip.Prefix { return slices.Concat(s.Locals(), s.Broadcasts()) }

// applyTable brings what the door knows of the host up to date: local addresses and the ports' own MAC.
func (e *Engine) applyTable() error {
	s := e.table.Snapshot()
	if err := followable(e.ports, s); err != nil {
		return err
	}
	for i, p := range e.ports {
		e.warnOfMTU(p, s.Port(i).MTU)
		err := errors.Join(p.program.SetLocal(localPrefixes(s)), p.program.SetMAC(s.Port(i).MAC))
		if err != nil {
			return fmt.Errorf("tell the door of port %s the host's addresses: %w", p.config.Name, err)
		}
	}
	return nil
}

// openWorkers plans the workers and opens their sockets; none runs yet.
func (e *Engine) openWorkers() error {
	usable, err := usableCPUs()
	if err != nil {
		return err
	}
	counts := make([]queueCount, len(e.ports))
	for i, p := range e.ports {
		counts[i] = p.queues
	}
	e.plan, err = planWorkers(e.config.CPUs, usable, counts, e.portNames())
	if err != nil {
		return err
	}
	for id, cpu := range e.plan.cpus {
		w, err := e.openWorker(id, cpu)
		if w != nil {
			e.workers = append(e.workers, w)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// openWorker opens a worker's sockets on every port. The worker is returned even with an error, so that it can be closed.
func (e *Engine) openWorker(id, cpu int) (*worker, error) {
	w := newWorker(id, cpu, len(e.ports), e.table)
	frameCount := e.config.UMEM.NumFrames
	if frameCount == 0 {
		frameCount = e.framesNeeded(id)
	}
	w.groups.config = queues.UMEMConfig{NumFrames: frameCount, FrameSize: e.config.UMEM.FrameSize}
	if err := w.driver.init(); err != nil {
		return w, err
	}
	sched, err := poller.New(e.config.Poller)
	if err != nil {
		return w, err
	}
	w.sched, w.nice = sched, e.config.WorkerNice
	for _, p := range e.ports {
		if err := e.openQueues(w, p); err != nil {
			return w, err
		}
	}
	return w, nil
}

// framesNeeded is what all rings of worker id can hold at once, rounded up to what a UMEM takes.
func (e *Engine) framesNeeded(id int) int {
	r := e.config.Rings
	n := 0
	for _, p := range e.ports {
		for q := range p.queues.rx {
			if e.plan.serves(id, q) {
				n += r.FillDepth + batchSize
			}
		}
		// The kernel never holds more sent frames than Completion has room for.
		n += r.TX + r.Completion + e.config.backlog(p.index)
	}
	return (n + 63) &^ 63
}

// openQueues opens worker w's sockets on port p: one to receive on each queue it serves, the one on its transmit queue also to transmit.
func (e *Engine) openQueues(w *worker, p *port) error {
	r := e.config.Rings
	for q := range max(p.queues.rx, w.id+1) {
		transmits, receives := q == w.id, q < p.queues.rx && e.plan.serves(w.id, q)
		if !transmits && !receives {
			continue
		}
		c := queues.SocketConfig{Queue: q, NumRX: r.RX, NumFill: r.Fill, NumCompletion: r.Completion}
		if receives {
			c.FillDepth = r.FillDepth
		}
		if transmits {
			c.NumTX = r.TX
		}
		sock, umem, err := p.openSocket(&w.groups, c)
		if err != nil {
			return err
		}
		if transmits {
			if err := w.addEgress(p, sock, umem, e.config.backlog(p.index), e.config.feedback(p.index)); err != nil {
				return err
			}
		}
		if receives {
			if err := w.addSource(p, sock, umem, p.program.Door(q), e.config); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *worker) addEgress(p *port, sock *queues.Socket, umem *queues.UMEM, backlog int, feedback Feedback) error {
	out := newEgress(p.config.Name, sock, umem, backlog)
	w.egresses[p.index] = out
	if _, err := w.sched.AddTransmitter(p.config.Name, out); err != nil {
		return err
	}
	return out.setFeedback(w.sched, feedback)
}

func (w *worker) addSource(p *port, sock *queues.Socket, umem *queues.UMEM, door *xdpprog.Door, c Config) error {
	s := &source{
		worker: w, port: p.index, sock: sock, umem: umem, door: door,
		partial: p.partialChecksums(), discard: c.EarlyDiscard == DiscardXDP, counters: newCounters(numSourceCounters),
		fill: newFillDepth(c.Rings.fillMin(c.EarlyDiscard), c.Rings.FillDepth), maxFrame: c.UMEM.maxFrame(),
	}
	s.door.SetUnlimited(!s.discard)
	s.door.SetCPU(w.cpu)
	s.slot = w.driver.watch(sock.FD())
	rc := poller.ReceiverConfig{Quota: p.config.Quota, Window: s.window()}
	if c.owns() {
		s.owner = newOwner(s, c.Ownership, c.Poller.Share)
		rc.Owner = s.owner
	}
	id, err := w.sched.AddReceiver(fmt.Sprintf("%s/%d", p.config.Name, sock.Queue()), s, rc)
	if err != nil {
		return err
	}
	s.id = id
	s.setFill()
	w.sources = append(w.sources, s)
	return nil
}

// startWorkers starts the threads, and then lets the program redirect to the sockets.
func (e *Engine) startWorkers() error {
	for _, w := range e.workers {
		pinned := make(chan error, 1)
		w.driver.running = true
		go w.run(pinned)
		if err := <-pinned; err != nil {
			return err
		}
	}
	for _, w := range e.workers {
		for _, s := range w.sources {
			p := e.ports[s.port]
			if err := p.program.SetSocket(s.sock.Queue(), s.sock.FD()); err != nil {
				return fmt.Errorf("put the socket of %s queue %d into the program's map: %w", p.config.Name, s.sock.Queue(), err)
			}
		}
	}
	return nil
}

// follow keeps the doors current, and turns the end of a worker into a failure of the engine.
func (e *Engine) follow(ctx context.Context) {
	e.watcher.Go(func() { e.guard.run(ctx) })
	e.watcher.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-e.table.Changes():
				if err := e.applyTable(); err != nil {
					e.fail(err)
					return
				}
			}
		}
	})
	for _, w := range e.workers {
		e.watcher.Go(func() {
			select {
			case <-ctx.Done():
			case err := <-w.driver.failed:
				e.fail(err)
			}
		})
	}
}

// maxEvents is how many events wait for whoever reads Events; more are dropped, the counters have them all.
const maxEvents = 64

// Events delivers what happens while packets flow and is worth a line in a log. Nobody has to read it.
func (e *Engine) Events() <-chan string { return e.events }

func (e *Engine) notice(format string, args ...any) {
	select {
	case e.events <- fmt.Sprintf(format, args...):
	default:
	}
}

func (e *Engine) fail(err error) {
	select {
	case e.failed <- err:
	default: // the first failure is the one to report
	}
}

// Healthy reports whether every worker still gets to the end of a round; nil if so. It takes up to a second for each that does not.
func (e *Engine) Healthy() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return errors.New("weir is stopping")
	}
	for _, w := range e.workers {
		if !w.driver.call(func() {}) {
			return w.stuck()
		}
	}
	return nil
}

// Failed delivers at most one error: why the engine cannot go on. The caller then closes it.
func (e *Engine) Failed() <-chan error { return e.failed }

// Close hands the traffic back to the kernel, lets the workers finish what they hold for at most drainTime, and releases everything.
// A worker that does not come to the end of a round is an error after a second or two, and keeps what it uses. Close may be called more
// than once.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	if e.stop != nil {
		e.stop() // the guard first of all, so that it takes nothing back
	}
	err := e.disown()
	for _, p := range e.ports {
		err = errors.Join(err, p.detach())
	}
	e.drain()
	for _, w := range e.workers {
		if !w.driver.end() {
			// Its sockets and memory are in use; the end of the process releases them.
			return errors.Join(err, w.stuck())
		}
	}
	e.watcher.Wait()
	for _, p := range e.ports {
		err = errors.Join(err, p.closeSockets())
	}
	for _, w := range e.workers {
		err = errors.Join(err, w.groups.close(), w.driver.close())
	}
	if e.guard != nil {
		err = errors.Join(err, e.guard.close())
	}
	if e.table != nil {
		err = errors.Join(err, e.table.Close())
	}
	return err
}

// disown gives receive work back to the kernel while the workers still run; those that do not answer keep theirs until the flush timeout.
func (e *Engine) disown() error {
	var err error
	for _, w := range e.workers {
		give := func() {
			for _, s := range w.sources {
				if s.owner != nil {
					err = errors.Join(err, s.owner.close(), w.sched.Lost(s.id))
				}
			}
		}
		if !w.driver.running {
			give()
		} else {
			w.driver.call(give)
		}
	}
	return err
}

// drain waits until no worker holds a packet.
func (e *Engine) drain() {
	for deadline := time.Now().Add(drainTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		busy := 0
		for _, w := range e.workers {
			var n int
			if w.driver.running && w.driver.call(func() { n = w.inFlight() }) {
				busy += n
			}
		}
		if busy == 0 {
			return
		}
	}
}
