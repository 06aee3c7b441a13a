package ringtest

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"weir/queues"
)

// Config says what the scripted kernel is like.
type Config struct {
	// FirstIndex is where all ring indices start; near 2^32 they wrap soon.
	FirstIndex uint32
	// TXBudget makes the kernel know XDP_MAX_TX_SKB_BUDGET: one Kick sends a ring.
	TXBudget bool
	// ZeroCopy makes it grant zero copy when asked for it or for Auto.
	ZeroCopy bool
}

// Kernel is a scripted kernel. It implements queues.Kernel for one UMEM.
type Kernel struct {
	config Config

	mu       sync.Mutex // guards all of Kernel and of its Ports
	area     []byte
	frame    int // bytes
	lent     []lender
	faults   []error // what Audit reports
	ports    []*Port
	nextFD   int
	zeroCopy bool // granted to the registered UMEM
	down     map[int]bool
	removed  map[int]bool

	registrations int  // UMEM registrations so far
	copyOnly      bool // see GrantCopyOnly

	failSockets, failBinds, failCloses []error
}

// lender says through which of our hands a frame passes, besides the rings.
type lender uint8

const (
	notLent lender = iota
	lentFill
	lentTX
)

// New returns a kernel without any socket.
func New(c Config) *Kernel {
	return &Kernel{config: c, nextFD: 1 << 20, down: make(map[int]bool), removed: make(map[int]bool)}
}

// Map implements queues.Kernel.
func (k *Kernel) Map(size int) ([]byte, string, error) { return make([]byte, size), "plain", nil }

// Unmap implements queues.Kernel.
func (k *Kernel) Unmap([]byte) error { return nil }

// Socket implements queues.Kernel.
func (k *Kernel) Socket(spec queues.SocketSpec) (queues.Conn, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := next(&k.failSockets); err != nil {
		return nil, err
	}
	if spec.Area != nil {
		k.registrations++
		k.area = spec.Area
		k.frame = spec.FrameSize
		if k.lent == nil {
			k.lent = make([]lender, len(spec.Area)/spec.FrameSize)
		}
	}
	k.nextFD++
	p := newPort(k, spec)
	k.ports = append(k.ports, p)
	return conn{p}, nil
}

// Port returns the kernel's half of an open socket, nil when it is none of ours.
func (k *Kernel) Port(s *queues.Socket) *Port {
	return k.find(func(p *Port) bool { return p.fd == s.FD() })
}

// PortAt returns the kernel's half of the socket on a queue of an interface, nil
// when there is none.
func (k *Kernel) PortAt(ifindex, queue int) *Port {
	return k.find(func(p *Port) bool { return p.bound && p.ifindex == ifindex && p.queue == queue })
}

func (k *Kernel) find(match func(*Port) bool) *Port {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.ports {
		if match(p) {
			return p
		}
	}
	return nil
}

// FailSockets makes the next calls of Socket fail, one for each error; nil is success.
func (k *Kernel) FailSockets(errs ...error) { k.script(&k.failSockets, errs) }

// FailBinds makes the next binds fail, one for each error; nil is success.
func (k *Kernel) FailBinds(errs ...error) { k.script(&k.failBinds, errs) }

// FailCloses makes the next closes fail, one for each error; nil is success.
func (k *Kernel) FailCloses(errs ...error) { k.script(&k.failCloses, errs) }

func (k *Kernel) script(list *[]error, errs []error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*list = append(*list, errs...)
}

func next(list *[]error) error {
	if len(*list) == 0 {
		return nil
	}
	err := (*list)[0]
	*list = (*list)[1:]
	return err
}

// GrantCopyOnly makes binds that ask for zero copy succeed and get copy.
func (k *Kernel) GrantCopyOnly() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.copyOnly = true
}

// NumSockets returns how many sockets are open.
func (k *Kernel) NumSockets() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.ports)
}

// NumRegistrations returns how often a UMEM was registered.
func (k *Kernel) NumRegistrations() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.registrations
}

// SetDown takes a device down or up: down, its sockets answer ENETDOWN.
func (k *Kernel) SetDown(ifindex int, down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down[ifindex] = down
}

// RemoveDevice deletes a device: its sockets are unbound, have a pending error, and
// answer ENXIO. A device with the same index never comes back.
func (k *Kernel) RemoveDevice(ifindex int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.removed[ifindex] = true
	for _, p := range k.ports {
		if p.bound && p.ifindex == ifindex {
			p.bound = false
			p.pendingError = unix.ENETDOWN
		}
	}
}

// Audit compares the kernel's books with the ledger of the UMEM: every frame lent to
// it is in exactly one of its hands (Fill, RX, TX, Completion, or in between), and
// their number is what the ledger says. Call it while nobody works on the rings.
func (k *Kernel) Audit(l queues.Ledger) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.faults) > 0 {
		return errors.Join(k.faults...)
	}
	seen := make([]bool, len(k.lent))
	count := 0
	mark := func(where string, addr uint64) error {
		f := k.number(addr)
		if f < 0 {
			return nil // a corrupt descriptor of the script's, not a frame
		}
		if seen[f] {
			return fmt.Errorf("ringtest: frame %d is lent twice, once in %s", f, where)
		}
		seen[f] = true
		count++
		return nil
	}
	for f, by := range k.lent {
		if by != notLent {
			seen[f] = true
			count++
		}
	}
	for _, p := range k.ports {
		if err := p.eachInRings(mark); err != nil {
			return err
		}
	}
	if lent := l.Receive + l.Transmit + l.Stranded; count != lent {
		return fmt.Errorf("ringtest: the kernel has %d frames, the ledger says %d", count, lent)
	}
	return nil
}

// number returns the number of the frame addr lies in, -1 when in none.
func (k *Kernel) number(addr uint64) int {
	if addr >= uint64(len(k.area)) {
		return -1
	}
	return int(addr / uint64(k.frame))
}

// borrow enters a frame into the books.
func (k *Kernel) borrow(addr uint64, by lender) {
	f := k.number(addr)
	if k.lent[f] != notLent {
		k.faults = append(k.faults, fmt.Errorf("ringtest: frame %d was lent twice", f))
	}
	k.lent[f] = by
}

// giveBack takes a frame out of the books.
func (k *Kernel) giveBack(addr uint64) {
	if f := k.number(addr); f >= 0 {
		k.lent[f] = notLent
	}
}
