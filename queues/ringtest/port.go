package ringtest

import (
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"weir/queues"
)

// kernelBatch is how many packets one Kick sends without a budget.
const kernelBatch = 32

// Port is the kernel's half of one socket.
type Port struct {
	kernel     *Kernel
	fd         int
	rings      queues.Rings
	registered bool
	txBudget   int

	ifindex, queue int
	bound          bool
	pendingError   error

	fill       queues.Consumer[uint64]
	rx         queues.Producer[queues.Desc]
	tx         queues.Consumer[queues.Desc]
	completion queues.Producer[uint64]

	received []uint64 // taken from Fill by TakeFill, not yet delivered
	inFlight []uint64 // taken from TX, not yet completed

	sent        [][]byte
	sink        func([]byte)
	statistics  queues.Statistics
	kicks       int
	wakes       int
	script      []unix.Errno
	wakeScript  []unix.Errno
	kickErrno   unix.Errno
	kickLimit   int
	holdBack    bool
	transmitted int
}

func newPort(k *Kernel, spec queues.SocketSpec) *Port {
	p := &Port{
		kernel:     k,
		fd:         k.nextFD,
		registered: spec.Area != nil,
		kickLimit:  kernelBatch,
		rings: queues.Rings{
			Fill:       ring[uint64](k.config.FirstIndex, spec.NumFill),
			Completion: ring[uint64](k.config.FirstIndex, spec.NumCompletion),
			RX:         ring[queues.Desc](k.config.FirstIndex, spec.NumRX),
		},
	}
	p.fill = queues.NewConsumer(p.rings.Fill)
	p.completion = queues.NewProducer(p.rings.Completion)
	p.rx = queues.NewProducer(p.rings.RX)
	if spec.NumTX > 0 {
		p.rings.TX = ring[queues.Desc](k.config.FirstIndex, spec.NumTX)
		p.rings.TX.Flags.Store(unix.XDP_RING_NEED_WAKEUP) // always so in copy mode
		p.tx = queues.NewConsumer(p.rings.TX)
		if k.config.TXBudget && spec.NumTX >= kernelBatch {
			p.txBudget, p.kickLimit = spec.NumTX, spec.NumTX
		}
		p.inFlight = make([]uint64, 0, spec.NumTX+spec.NumCompletion)
	}
	return p
}

func ring[T any](first uint32, size int) queues.Ring[T] {
	r := queues.Ring[T]{
		Producer: new(atomic.Uint32),
		Consumer: new(atomic.Uint32),
		Flags:    new(atomic.Uint32),
		Entries:  make([]T, size),
	}
	r.Producer.Store(first)
	r.Consumer.Store(first)
	return r
}

// Inject lets packets arrive, in order, and returns how many reached RX. The others
// are dropped and counted as the kernel counts them: Fill empty, RX full, or too
// large for a frame.
func (p *Port) Inject(frames ...[]byte) int {
	k := p.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	delivered := 0
	for _, f := range frames {
		if p.deliver(f) {
			delivered++
		}
	}
	return delivered
}

func (p *Port) deliver(frame []byte) bool {
	if !p.bound || len(frame) > p.kernel.frame-queues.RXHeadroom {
		p.statistics.RXDropped++
		return false
	}
	if p.rx.Room() == 0 {
		p.statistics.RXRingFull++
		return false
	}
	addr, ok := p.takeFill()
	if !ok {
		return false
	}
	addr += queues.RXHeadroom
	copy(p.kernel.area[addr:], frame)
	p.produce(queues.Desc{Addr: addr, Len: uint32(len(frame))})
	return true
}

// takeFill takes the next usable frame from Fill; the kernel skips the others.
func (p *Port) takeFill() (uint64, bool) {
	for {
		first, n := p.fill.Peek(1)
		if n == 0 {
			p.statistics.RXFillRingEmptyDescs++
			p.statistics.RXDropped++
			return 0, false
		}
		addr := p.fill.At(first)
		p.fill.Release(1)
		if p.kernel.number(addr) < 0 {
			p.statistics.RXInvalidDescs++
			continue
		}
		p.kernel.borrow(addr, lentFill)
		return addr &^ uint64(p.kernel.frame-1), true
	}
}

// produce puts a descriptor into RX, whatever it says.
func (p *Port) produce(d queues.Desc) bool {
	at, n := p.rx.Reserve(1)
	if n == 0 {
		return false
	}
	p.kernel.giveBack(d.Addr)
	*p.rx.At(at) = d
	p.rx.Submit(1)
	return true
}

// TakeFill takes a frame from Fill and keeps it, as a driver does with its receive
// buffers, until InjectDesc names it or the socket is closed.
func (p *Port) TakeFill() (addr uint64, ok bool) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	if addr, ok = p.takeFill(); ok {
		p.received = append(p.received, addr)
	}
	return addr, ok
}

// InjectDesc puts a descriptor into RX as it is, corrupt or not; false when RX is full.
func (p *Port) InjectDesc(d queues.Desc) bool {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	frame := d.Addr &^ uint64(p.kernel.frame-1)
	if i := slices.Index(p.received, frame); i >= 0 {
		p.received = slices.Delete(p.received, i, i+1)
	}
	return p.produce(d)
}

// kick is sendto.
func (p *Port) kick() unix.Errno {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.kicks++
	if errno := p.condition(); errno != 0 {
		return errno
	}
	errno := p.kickErrno
	if len(p.script) > 0 {
		errno, p.script = p.script[0], p.script[1:]
	}
	switch errno {
	case 0:
	case Woken:
		return 0
	case unix.EBUSY:
		p.transmit(1, true) // the device refused it: dropped, and it completes
		return errno
	default:
		return errno
	}
	p.transmit(p.kickLimit, false)
	if p.tx.Waiting() > 0 {
		return unix.EAGAIN
	}
	return 0
}

// condition is what the kernel checks first in every call.
func (p *Port) condition() unix.Errno {
	switch {
	case !p.bound:
		return unix.ENXIO
	case p.kernel.down[p.ifindex]:
		return unix.ENETDOWN
	}
	return 0
}

// transmit takes up to limit descriptors from TX.
func (p *Port) transmit(limit int, drop bool) int {
	for n := range limit {
		// A place in Completion is taken first: without one the kernel does not send.
		if p.completion.Room() <= len(p.inFlight) {
			return n
		}
		d, ok := p.takeTX()
		if !ok {
			return n
		}
		p.kernel.borrow(d.Addr, lentTX)
		if !drop {
			p.emit(p.kernel.area[d.Addr:][:d.Len])
		}
		p.inFlight = append(p.inFlight, d.Addr)
		if !p.holdBack {
			p.complete(1)
		}
	}
	return limit
}

// takeTX takes the next valid descriptor from TX; the kernel skips the others, and
// their frames never complete.
func (p *Port) takeTX() (queues.Desc, bool) {
	for {
		at, n := p.tx.Peek(1)
		if n == 0 {
			p.statistics.TXRingEmptyDescs++
			return queues.Desc{}, false
		}
		d := p.tx.At(at)
		p.tx.Release(1)
		offset := int(d.Addr) & (p.kernel.frame - 1)
		if p.kernel.number(d.Addr) < 0 || d.Len == 0 || d.Options != 0 || offset+int(d.Len) > p.kernel.frame {
			p.statistics.TXInvalidDescs++
			continue
		}
		return d, true
	}
}

// emit hands a packet to whoever watches.
func (p *Port) emit(frame []byte) {
	p.transmitted++
	if p.sink != nil {
		p.sink(frame)
		return
	}
	p.sent = append(p.sent, slices.Clone(frame))
}

// complete moves the oldest packets in flight to Completion.
func (p *Port) complete(n int) int {
	n = min(n, len(p.inFlight))
	first, n := p.completion.Reserve(n)
	for i, addr := range p.inFlight[:n] {
		*p.completion.At(first + uint32(i)) = addr
		p.kernel.giveBack(addr)
	}
	p.completion.Submit(n)
	p.inFlight = slices.Delete(p.inFlight, 0, n)
	return n
}

// wake is recvfrom.
func (p *Port) wake() unix.Errno {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.wakes++
	if errno := p.condition(); errno != 0 {
		return errno
	}
	var errno unix.Errno
	if len(p.wakeScript) > 0 {
		errno, p.wakeScript = p.wakeScript[0], p.wakeScript[1:]
	}
	return errno
}

// Transmit takes up to n packets from TX without being kicked, as a driver in
// zero-copy mode does, and returns how many.
func (p *Port) Transmit(n int) int {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	return p.transmit(n, false)
}

// HoldCompletions makes packets stay in flight until Complete, or lets them complete
// at once again.
func (p *Port) HoldCompletions(hold bool) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.holdBack = hold
}

// Complete completes the n oldest packets in flight, and returns how many there were
// (and Completion had room for).
func (p *Port) Complete(n int) int {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	return p.complete(n)
}

// CompleteAddr puts an address into Completion as it is; false when that is full.
func (p *Port) CompleteAddr(addr uint64) bool {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	at, n := p.completion.Reserve(1)
	if n == 0 {
		return false
	}
	*p.completion.At(at) = addr
	p.completion.Submit(1)
	return true
}

// Transmitted returns the packets sent since it was last called, oldest first.
func (p *Port) Transmitted() [][]byte {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

// NumTransmitted returns how many packets were sent altogether.
func (p *Port) NumTransmitted() int {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	return p.transmitted
}

// SetSink makes every packet go to f instead of being kept for Transmitted; nil ends
// that. f must not keep the bytes, nor call the Port. With it nothing allocates.
func (p *Port) SetSink(f func(frame []byte)) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.sink = f
}

// Woken in a script of kicks is success without anything sent: in zero-copy mode a
// kick only wakes the driver, which sends later (see Transmit).
const Woken = ^unix.Errno(0)

// ScriptKicks makes the next kicks return these errnos, one each; 0 is an ordinary
// kick. EBUSY drops one packet, which completes; the others take nothing.
func (p *Port) ScriptKicks(errnos ...unix.Errno) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.script = append(p.script, errnos...)
}

// ScriptWakes makes the next wake-ups of Fill return these errnos, one each.
func (p *Port) ScriptWakes(errnos ...unix.Errno) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.wakeScript = append(p.wakeScript, errnos...)
}

// SetKickErrno makes every kick return errno that the script does not speak of; 0
// ends that.
func (p *Port) SetKickErrno(errno unix.Errno) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.kickErrno = errno
}

// SetKickLimit sets how many packets one kick takes; it returns EAGAIN when it stops
// there.
func (p *Port) SetKickLimit(n int) {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	p.kickLimit = n
}

// SetNeedWakeup sets the flags of the TX and the Fill ring. At first TX is set.
func (p *Port) SetNeedWakeup(tx, fill bool) {
	set := func(flags *atomic.Uint32, on bool) {
		switch {
		case flags == nil:
		case on:
			flags.Store(unix.XDP_RING_NEED_WAKEUP)
		default:
			flags.Store(0)
		}
	}
	set(p.rings.TX.Flags, tx)
	set(p.rings.Fill.Flags, fill)
}

// Kicks returns how often sendto was called.
func (p *Port) Kicks() int {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	return p.kicks
}

// Wakes returns how often recvfrom was called.
func (p *Port) Wakes() int {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	return p.wakes
}

// InFlight returns how many packets were taken from TX and have not completed.
func (p *Port) InFlight() int {
	p.kernel.mu.Lock()
	defer p.kernel.mu.Unlock()
	return len(p.inFlight)
}

// FillLen returns how many frames wait in Fill.
func (p *Port) FillLen() int { return length(p.rings.Fill) }

// TXLen returns how many packets wait in TX.
func (p *Port) TXLen() int {
	if p.rings.TX.Entries == nil {
		return 0
	}
	return length(p.rings.TX)
}

func length[T any](r queues.Ring[T]) int { return int(r.Producer.Load() - r.Consumer.Load()) }

// eachInRings calls f for every entry that lies in a ring.
func (p *Port) eachInRings(f func(where string, addr uint64) error) error {
	if err := each(p.rings.Fill, func(a uint64) error { return f("Fill", a) }); err != nil {
		return err
	}
	if err := each(p.rings.Completion, func(a uint64) error { return f("Completion", a) }); err != nil {
		return err
	}
	if err := each(p.rings.RX, func(d queues.Desc) error { return f("RX", d.Addr) }); err != nil {
		return err
	}
	if p.rings.TX.Entries == nil {
		return nil
	}
	return each(p.rings.TX, func(d queues.Desc) error { return f("TX", d.Addr) })
}

func each[T any](r queues.Ring[T], f func(T) error) error {
	mask := uint32(len(r.Entries) - 1)
	for i, end := r.Consumer.Load(), r.Producer.Load(); i != end; i++ {
		if err := f(r.Entries[i&mask]); err != nil {
			return err
		}
	}
	return nil
}
