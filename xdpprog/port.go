package xdpprog

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Port is one interface with the receive program attached. Its methods may be called by any goroutine, except that nothing may run
// beside or after Close but reading counters after it.
type Port struct {
	name          string
	mode          AttachMode // native or generic
	nativeRefused error
	programID     uint32
	seesTags      bool

	program *ebpf.Program
	maps    *rxMaps
	link    link.Link
	shared  *mapping[portMemory] // one element
	memory  *mapping[doorMemory] // one element per queue
	doors   []Door               // doors[q].mem = &memory.elems[q], and so on

	destinations *mapping[destinationsMemory] // one element per queue

	mu    sync.Mutex                // serialises changes of limits and addresses
	local map[netip.Prefix]struct{} // what the address maps hold
}

// Mode returns how the program is attached: AttachNative or AttachGeneric.
func (p *Port) Mode() AttachMode { return p.mode }

// NativeRefused returns why AttachAuto became generic, and nil if it did not.
func (p *Port) NativeRefused() error { return p.nativeRefused }

// ProgramID returns the kernel's id of the attached program, as bpftool prog lists it.
func (p *Port) ProgramID() uint32 { return p.programID }

// SeesTags says whether the program asks the driver for VLAN tags kept beside the frame (in native mode since Linux 6.8, as far as the
// driver answers; veth does). Otherwise such a frame looks untagged and is treated as if it were: where tagged frames can arrive, turn
// rx-vlan-offload off on the interface, and on a veth tx-vlan-offload on its peer. Tags inside the frame are always seen.
func (p *Port) SeesTags() bool { return p.seesTags }

// NumQueues returns the number of doors, PortConfig.MaxQueues.
func (p *Port) NumQueues() int { return len(p.doors) }

// Door returns the door of a queue, which must be in [0, NumQueues). It is the same on every call.
func (p *Port) Door(queue int) *Door { return &p.doors[queue] }

// SetSocket makes fd, an AF_XDP socket with a receive ring bound to this queue of this interface, the destination of the queue's frames.
// The kernel forgets the socket by itself when it is closed.
func (p *Port) SetSocket(queue, fd int) error {
	if queue < 0 || queue >= len(p.doors) {
		return fmt.Errorf("socket of port %s queue %d: there are %d queues", p.name, queue, len(p.doors))
	}
	if err := p.maps.Sockets.Put(uint32(queue), uint32(fd)); err != nil {
		return fmt.Errorf("socket of port %s queue %d: %w", p.name, queue, err)
	}
	return nil
}

// ClearSocket takes a queue's socket away: its frames to be forwarded go to the kernel as ClassNoSocket. A queue without one is left so.
func (p *Port) ClearSocket(queue int) error {
	if queue < 0 || queue >= len(p.doors) {
		return fmt.Errorf("socket of port %s queue %d: there are %d queues", p.name, queue, len(p.doors))
	}
	if err := p.maps.Sockets.Delete(uint32(queue)); err != nil {
		return fmt.Errorf("socket of port %s queue %d: %w", p.name, queue, err)
	}
	return nil
}

// SetMAC changes the MAC address that frames must be sent to, from one frame to the next.
func (p *Port) SetMAC(mac [6]byte) error {
	if mac[0]&1 != 0 {
		return fmt.Errorf("MAC of port %s: % x is a group address", p.name, mac)
	}
	var v uint64 // first byte lowest, as load_mac in the program
	for i, b := range mac {
		v |= uint64(b) << (8 * i)
	}
	p.shared.elems[0].mac.Store(v)
	return nil
}

// Counters returns the sum over all queues. It makes no system call and does not allocate.
func (p *Port) Counters() Counters {
	var sum, c Counters
	for i := range p.doors {
		p.doors[i].Counters(&c)
		sum.Add(&c)
	}
	shared := &p.shared.elems[0]
	passed, limited := shared.beyondPassed.Load(), shared.beyondLimited.Load()
	sum.Passed[ClassNoSocket] += passed
	sum.Limited[ClassNoSocket] += limited
	sum.Seen += passed + limited
	return sum
}

// QueueCounters returns the counters of one queue, which must be in [0, NumQueues).
func (p *Port) QueueCounters(queue int) Counters {
	var c Counters
	p.doors[queue].Counters(&c)
	return c
}

// Detach detaches the program: from the next frame on, the kernel gets everything. Doors and counters stay usable, so that who serves
// the sockets can finish what is in them before Close. Detaching twice is harmless.
func (p *Port) Detach() error {
	if p.link == nil {
		return nil
	}
	err := p.link.Close()
	p.link = nil
	if err != nil {
		return fmt.Errorf("detach from port %s: %w", p.name, err)
	}
	return nil
}

// Close detaches the program first, then unmaps the shared memory and unloads. Counters and doors keep the last values as private
// copies. Closing twice is harmless.
func (p *Port) Close() error {
	errs := []error{p.Detach()}
	if p.memory != nil {
		errs = append(errs, p.memory.close())
	}
	if p.destinations != nil {
		errs = append(errs, p.destinations.discard())
	}
	p.placeDoors()
	if p.shared != nil {
		errs = append(errs, p.shared.close())
	}
	if p.program != nil {
		errs = append(errs, p.program.Close(), p.maps.Close())
		p.program, p.maps = nil, nil
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close port %s: %w", p.name, err)
	}
	return nil
}

// placeDoors points every door at its memory.
func (p *Port) placeDoors() {
	for i := range p.doors {
		d := &p.doors[i]
		d.mem, d.destinations = &p.memory.elems[i], nil
		if p.destinations.elems != nil {
			d.destinations = &p.destinations.elems[i]
		}
	}
}
