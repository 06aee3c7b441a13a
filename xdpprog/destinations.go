package xdpprog

import (
	"encoding/binary"
	"net/netip"
)

// Feedback across egresses. When one egress is congested and the others are not, the gate would refuse too much. Instead the worker tells
// the door for each packet that has met a congested egress where its destination leads, and which egresses are shut:
//
//	worker   Learn(dst, egress) ──► slot[hash(dst)] = dst, egress        SetShut(1 << egress)
//	program  shut ≠ 0 ?  slot[hash(dst)] holds dst and its egress is shut: dropped, DroppedEgress
//
// A destination has one slot, and the last one learnt keeps it. What is not there costs a packet the way to its egress, where it is
// dropped after all; nothing that was not learnt is ever refused.

// numSlots is how many destinations a queue's door knows at most: NUM_SLOTS in the program.
const numSlots = 1024

// NumEgresses is how many egresses a door can tell apart: Learn and SetShut know 0 to NumEgresses-1.
const NumEgresses = 64

// Parts of a slot's tag. The rest, from bit 8, is the number of the write, which makes every tag unique.
const (
	tagEgress = NumEgresses - 1
	tagIPv6   = 1 << 6
	tagNumber = 8
)

// SetShut says which egresses are congested, bit e for egress e: frames to destinations learnt for one of them are dropped and counted as
// DroppedEgress. 0, as at first, spares the program the search. It keeps out neither frames for the kernel nor lessons.
func (d *Door) SetShut(egresses uint64) {
	d.mem.shut.Store(egresses)
}

// Learn says that packets to dst leave by an egress, 0 to NumEgresses-1. It is meant for every packet that meets a congested egress: what
// is known already costs a comparison, and one that replaces another destination four stores. An invalid dst or an egress out of range is
// not learnt; a zone is ignored. An IPv4-mapped IPv6 address is one of IPv6. Where the packet is at hand, Learn4 and Learn6 cost half.
func (d *Door) Learn(dst netip.Addr, egress int) {
	if !dst.IsValid() {
		return
	}
	high, low, family := split(dst)
	d.learn(high, low, family, egress)
}

// Learn4 is Learn for an IPv4 destination as it is on the wire.
func (d *Door) Learn4(dst [4]byte, egress int) {
	d.learn(0, uint64(binary.LittleEndian.Uint32(dst[:])), 0, egress)
}

// Learn6 is Learn for an IPv6 destination as it is on the wire: it reads the packet, through dst, and keeps no pointer to it.
func (d *Door) Learn6(dst *[16]byte, egress int) {
	d.learn(binary.LittleEndian.Uint64(dst[:8]), binary.LittleEndian.Uint64(dst[8:]), tagIPv6, egress)
}

func (d *Door) learn(high, low, family uint64, egress int) {
	if uint(egress) >= NumEgresses || d.destinations == nil {
		return
	}
	s := &d.destinations.slots[hash(high, low)]
	kind := family | uint64(egress)
	if tag := s.tag.Load(); tag&(1<<tagNumber-1) == kind && tag > d.mem.forgotten.Load() && s.addr[0].Load() == high && s.addr[1].Load() == low {
		return
	}
	d.writes++
	s.tag.Store(0)
	s.addr[0].Store(high)
	s.addr[1].Store(low)
	s.tag.Store(d.writes<<tagNumber | kind)
}

// Forget makes everything learnt void, because routes have changed. It is one store.
func (d *Door) Forget() {
	d.mem.forgotten.Store(d.writes<<tagNumber | (1<<tagNumber - 1))
}

// split returns an address as the program loads it, and its family's part of the tag.
func split(a netip.Addr) (high, low, family uint64) {
	if a.Is4() {
		b := a.As4()
		return 0, uint64(binary.LittleEndian.Uint32(b[:])), 0
	}
	b := a.As16()
	return binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:]), tagIPv6
}

// hash returns the slot of a destination, as hash in the program does.
func hash(high, low uint64) uint64 {
	h := high*0xff51afd7ed558ccd + low
	return (h ^ h>>32) * 0xa0761d6478bd642f >> 54
}
