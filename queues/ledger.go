package queues

import "fmt"

// owner is a frame's mark: who has it. The low two bits are the kind, the others
// the slot of the socket that lent it to the kernel. Only we write it; the kernel
// never sees it.
type owner uint16

const (
	ownerFree     owner = iota // on the free stack
	ownerHeld                  // in the caller's hands
	ownerReceive               // lent for receiving: Fill, RX, or the kernel in between
	ownerTransmit              // lent for sending: TX, Completion, or the kernel in between

	ownerKind = 3
	ownerBits = 2
	maxSlots  = 1 << (16 - ownerBits)
)

// lent returns the mark of a frame that the socket in slot lent to the kernel.
func lent(kind owner, slot int) owner { return kind | owner(slot)<<ownerBits }

// Ledger says where every frame of a UMEM is. Sum always equals Total.
type Ledger struct {
	Free     int // on the free stack
	Held     int // in the caller's hands
	Receive  int // Fill, RX, and the kernel in between
	Transmit int // TX, Completion, and the kernel in between
	Stranded int // lent through a socket whose device is gone; Close of the socket frees them
	Total    int
	Misused  uint64 // frames and descriptors refused since the beginning; not frames, and not in the sum
}

// Sum adds up the frames by owner.
func (l Ledger) Sum() int { return l.Free + l.Held + l.Receive + l.Transmit + l.Stranded }

// Ledger returns where the frames are now. It reads a few counters of each socket. Like
// everything of a UMEM it belongs to its goroutine, which hands the value on to others.
func (u *UMEM) Ledger() Ledger {
	l := Ledger{Free: len(u.free), Held: u.held, Total: len(u.owners), Misused: u.misused}
	for _, s := range u.sockets {
		switch {
		case s == nil:
		case s.state == StateGone:
			l.Stranded += s.receiving + s.transmitting
		default:
			l.Receive += s.receiving
			l.Transmit += s.transmitting
		}
	}
	return l
}

// Audit walks all frames and compares their marks with the counters of Ledger and
// with the free stack. It returns nil when every frame is accounted for, else what
// differs. It costs time per frame and allocates: for tests and for shutdown.
func (u *UMEM) Audit() error {
	marks := make(map[owner]int)
	for _, o := range u.owners {
		marks[o]++
	}
	expect := func(what string, o owner, count int) error {
		found := marks[o]
		delete(marks, o)
		if found != count {
			return fmt.Errorf("audit UMEM: %s: %d frames are marked so, %d are counted", what, found, count)
		}
		return nil
	}
	if err := expect("free", ownerFree, len(u.free)); err != nil {
		return err
	}
	if err := expect("held", ownerHeld, u.held); err != nil {
		return err
	}
	for slot, s := range u.sockets {
		if s == nil {
			continue
		}
		if err := expect(s.object()+": receive", lent(ownerReceive, slot), s.receiving); err != nil {
			return err
		}
		if err := expect(s.object()+": transmit", lent(ownerTransmit, slot), s.transmitting); err != nil {
			return err
		}
	}
	for o, n := range marks {
		return fmt.Errorf("audit UMEM: %d frames marked %#x belong to no open socket", n, uint16(o))
	}
	onStack := make([]bool, len(u.owners))
	for _, frame := range u.free {
		if onStack[frame] || u.owners[frame] != ownerFree {
			return fmt.Errorf("audit UMEM: frame %d is on the free stack twice or not free", frame)
		}
		onStack[frame] = true
	}
	return nil
}
