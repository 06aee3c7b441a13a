package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/engine/fib"
	"weir/poller"
	"weir/queues"
	"weir/queues/ringtest"
	"weir/xdpprog"
)

// rig is a worker with two ports, portIn and portOut of testTable, on scripted kernels and driven by hand, with a clock that the script
// moves. Its parts are wired by the same functions as the engine's.
//
//	arrive ─► door (PlainDoor) ─► ringtest ─► worker ─► ringtest ─► left
type rig struct {
	t      testing.TB
	worker *worker
	table  scriptedTable
	ports  [2]*rigPort
	now    int64 // the clock
	next   poller.Next
	one    [1][]byte // a frame that arrives
}

// rigPort is one port of a rig.
type rigPort struct {
	kernel  *ringtest.Kernel // both ports have the same one, unless the rig is split
	wire    *ringtest.Port
	umem    *queues.UMEM
	sock    *queues.Socket
	door    *xdpprog.PlainDoor
	source  *source
	egress  *egress
	corrupt uint64 // descriptors injected beside the door
	pupil   *scriptedSocket
}

// scriptedTable is a table that does not change by itself and remembers what it was asked for.
type scriptedTable struct {
	snapshot *fib.Snapshot
	asked    []fib.Request
	calls    int
	looked   func() // called for each Snapshot, if not nil
}

func (s *scriptedTable) Snapshot() *fib.Snapshot {
	if s.looked != nil {
		s.looked()
	}
	return s.snapshot
}

func (s *scriptedTable) Resolve(r []fib.Request) {
	s.asked = append(s.asked, r...)
	s.calls++
}

// rigOptions are the choices in a rig; the zero value is the ordinary one.
type rigOptions struct {
	kernel    ringtest.Config
	split     bool // each port has a UMEM of its own, as zero-copy beside copy has
	frames    int  // of each UMEM; 0 is what the engine would take
	offloads  bool // the ports are veths
	noDiscard bool
	corrupt   bool // the script misuses frames; otherwise misuse is a panic
	thread    bool // the worker will run on its own thread, see start
	config    func(*Config)
}

// rigConfig has small rings, so that a script comes to their ends soon.
func rigConfig() Config {
	return Config{
		Ports:    []PortConfig{{Name: "in", Quota: poller.Common}, {Name: "out", Quota: poller.Common}},
		Poller:   poller.Default(),
		Feedback: Feedback{High: 0.75, Low: 0.25, Timeout: time.Millisecond},
		UMEM:     UMEMConfig{FrameSize: 2048},
		Rings:    Rings{RX: 128, TX: 32, Fill: 128, Completion: 32, FillDepth: 128, Backlog: 32},
	}
}

func newRig(t testing.TB, o rigOptions) *rig {
	t.Helper()
	c := rigConfig()
	if o.config != nil {
		o.config(&c)
	}
	if o.noDiscard {
		c.EarlyDiscard = DiscardRing
	}
	r := &rig{t: t, table: scriptedTable{snapshot: testTable()}}
	r.worker = newWorker(0, 0, len(r.ports), &r.table)
	sched, err := poller.New(c.Poller)
	require.NoError(t, err)
	r.worker.sched = sched
	if o.thread {
		cpus, err := usableCPUs()
		require.NoError(t, err)
		r.worker.cpu = cpus[len(cpus)-1]
		require.NoError(t, r.worker.driver.init())
		t.Cleanup(func() {
			r.worker.driver.end()
			require.NoError(t, r.worker.driver.close())
		})
	}

	e := &Engine{config: c, plan: plan{cpus: []int{0}}}
	for i := range r.ports {
		e.ports = append(e.ports, &port{index: i, config: c.Ports[i], queues: queueCount{rx: 1, tx: 1}})
		if o.offloads {
			e.ports[i].driver = "veth"
		}
	}
	for i, p := range e.ports {
		rp := &rigPort{door: xdpprog.NewDoor()}
		r.ports[i] = rp
		if i > 0 && !o.split {
			rp.kernel, rp.umem = r.ports[0].kernel, r.ports[0].umem
		} else {
			rp.kernel = ringtest.New(o.kernel)
			frames := o.frames
			if frames == 0 {
				frames = e.framesNeeded(0)
			}
			rp.umem, err = queues.NewUMEM(queues.UMEMConfig{NumFrames: frames, FrameSize: c.UMEM.FrameSize, Kernel: rp.kernel, PanicOnMisuse: !o.corrupt})
			require.NoError(t, err)
			if i == 0 {
				r.worker.groups.copy = rp.umem
			} else {
				r.worker.groups.zerocopy = rp.umem
			}
		}
		rp.sock, err = rp.umem.Open(queues.SocketConfig{
			Interface: c.Ports[i].Name, Ifindex: i + 1,
			NumRX: c.Rings.RX, NumTX: c.Rings.TX, NumFill: c.Rings.Fill, NumCompletion: c.Rings.Completion, FillDepth: c.Rings.FillDepth,
		})
		require.NoError(t, err)
		rp.wire = rp.kernel.Port(rp.sock)
		require.NoError(t, r.worker.addEgress(p, rp.sock, rp.umem, c.Rings.Backlog, c.Feedback))
		require.NoError(t, r.worker.addSource(p, rp.sock, rp.umem, &rp.door.Door, c))
		rp.source, rp.egress = r.worker.sources[i], r.worker.egresses[i]
	}
	r.check()
	return r
}

// arrive lets frames arrive at a port: at its door, and behind it in the ring. It returns how many reached the ring.
func (r *rig) arrive(port int, frames ...[]byte) int {
	p := r.ports[port]
	n := 0
	for _, f := range frames {
		if payload, port := p.door.Lesson(f); port != 0 {
			p.pupil.deliver(port, payload)
			continue
		}
		if p.door.Admit() {
			n += p.wire.Inject(f)
		}
	}
	return n
}

// round is one round of the driver's loop: ten microseconds, half of them worked.
func (r *rig) round() {
	r.worker.sched.Round(r.now)
	r.now += 10_000
	r.next = r.worker.sched.Settle(r.now, 5_000)
	r.worker.publish()
}

// step is a round and, if it found nothing to do, the wait that follows: as long as the scheduler says, at most maxBlock.
func (r *rig) step() {
	r.round()
	if r.next.Do != poller.Again {
		r.now = max(r.now, min(r.next.UntilNS, r.now+maxBlock))
		r.worker.sched.Woke(r.now)
	}
	r.check()
}

func (r *rig) steps(n int) {
	for range n {
		r.step()
	}
}

// rest steps until the scheduler has nothing to do but wait for an event.
func (r *rig) rest() {
	r.t.Helper()
	for range 1000 {
		r.step()
		if r.next.Do == poller.Block && r.next.UntilNS-r.now > maxBlock {
			return
		}
	}
	require.Fail(r.t, "the worker does not come to rest")
}

// drops returns the drops of a source by reason.
func (p *rigPort) drops() map[Reason]uint64 {
	drops := map[Reason]uint64{}
	for reason := forwarded + 1; reason < numReasons; reason++ {
		if n := p.source.live[reason]; n > 0 {
			drops[reason] = n
		}
	}
	return drops
}

// doorCounters are what the door of a port counted.
func (p *rigPort) doorCounters() (c xdpprog.Counters) {
	p.door.Counters(&c)
	return c
}

// check asserts what must hold after every step: each frame has one owner by our books and by the kernel's, and each packet is
// counted under exactly one name.
func (r *rig) check() {
	r.t.Helper()
	if err := r.audit(); err != nil {
		require.NoError(r.t, err)
	}
}

func (r *rig) audit() error {
	balance := func(what string, got, want uint64) error {
		if got != want {
			return fmt.Errorf("%s: %d, but the sum of its parts is %d", what, got, want)
		}
		return nil
	}
	var toEgresses, fromSources uint64
	for i, p := range r.ports {
		if i == 0 || p.umem != r.ports[0].umem {
			l := p.umem.Ledger()
			if l.Sum() != l.Total {
				return fmt.Errorf("UMEM of port %d: %+v", i, l)
			}
			if err := p.umem.Audit(); err != nil {
				return err
			}
			if err := p.kernel.Audit(l); err != nil {
				return err
			}
			held := 0
			for _, q := range r.ports {
				if q.umem == p.umem {
					held += q.egress.backlog.len()
				}
			}
			if l.Held != held {
				return fmt.Errorf("UMEM of port %d: %d frames are held, backlogs have %d", i, l.Held, held)
			}
		}
		s, e := p.source.live, p.egress.live
		ends := s[forwarded]
		for reason := forwarded + 1; reason < numReasons; reason++ {
			ends += s[reason]
		}
		if err := balance("received", s[sourceReceived], ends); err != nil {
			return err
		}
		lost, err := p.sock.Statistics()
		if err != nil {
			return err
		}
		unpublished := p.sock.Counters().RXInvalid - s[DropBadDescriptor]
		arrived := s[sourceReceived] - s[sourceLessons] + unpublished + uint64(p.sock.Pending()) + lost.RXDropped + lost.RXRingFull
		door := p.doorCounters()
		if err := balance("let in", door.Redirected+p.corrupt, arrived); err != nil {
			return err
		}
		if err := balance("seen", door.Seen, door.Sum()); err != nil {
			return err
		}
		if p.pupil != nil {
			if err := balance("lessons", door.Lessons, s[sourceLessons]+uint64(len(p.pupil.waiting))+p.pupil.lost); err != nil {
				return err
			}
		}
		if err := balance("sent", e[egressSent], e[egressCompleted]+uint64(p.sock.TXLen())); err != nil {
			return err
		}
		fromSources += s[forwarded]
		toEgresses += e[egressSent] + e[egressDropDown] + uint64(p.egress.backlog.len())
	}
	return balance("forwarded", fromSources, toEgresses)
}

// close closes the sockets, after which every frame is free again.
func (r *rig) close() {
	r.t.Helper()
	for _, p := range r.ports {
		for n := p.egress.backlog.len(); n > 0; n = p.egress.backlog.len() {
			p.egress.dropBacklog()
		}
		require.NoError(r.t, p.sock.Close())
	}
	for _, p := range r.ports {
		require.Equal(r.t, p.umem.NumFrames(), p.umem.NumFree())
		require.NoError(r.t, p.umem.Audit())
	}
}
