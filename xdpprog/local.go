package xdpprog

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// SetLocal replaces the set of destinations that belong to the host: the addresses of all its interfaces, subnet broadcast addresses,
// and prefixes if there are local routes that are no host routes. Frames to them go to the kernel as ClassLocal.
//
// Additions are made first, then removals, so that an address that stays is recognised throughout. Loopback addresses (127.0.0.0/8, ::1)
// are left out, since they must never come in from a wire: the engine drops such packets. Multicast prefixes are left out because the
// program recognises them by itself. Room is for 4096 host addresses and 1024 prefixes per address family; a larger set is refused
// and changes nothing. After any other error the set is a mixture of old and new, and a further call goes on from there.
func (p *Port) SetLocal(prefixes []netip.Prefix) error {
	want := make(map[netip.Prefix]struct{}, len(prefixes))
	for _, pfx := range prefixes {
		if !pfx.IsValid() {
			return fmt.Errorf("local addresses of port %s: invalid prefix", p.name)
		}
		pfx = pfx.Masked()
		if addr := pfx.Addr(); addr.IsLoopback() || addr.IsMulticast() {
			continue
		}
		want[pfx] = struct{}{}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.fits(want); err != nil {
		return err
	}
	if p.local == nil {
		p.local = make(map[netip.Prefix]struct{}, len(want))
	}
	for pfx := range want {
		if _, ok := p.local[pfx]; ok {
			continue
		}
		m, key := p.localKey(pfx)
		if err := m.Put(key, uint8(0)); err != nil {
			return fmt.Errorf("local address %s of port %s: %w", pfx, p.name, err)
		}
		p.local[pfx] = struct{}{}
		p.countPrefixes(pfx, 1)
	}
	for pfx := range p.local {
		if _, ok := want[pfx]; ok {
			continue
		}
		m, key := p.localKey(pfx)
		if err := m.Delete(key); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("local address %s of port %s: %w", pfx, p.name, err)
		}
		delete(p.local, pfx)
		p.countPrefixes(pfx, ^uint32(0))
	}
	return nil
}

// fits checks a set against the room in the maps, which have twice what they promise, for old and new.
func (p *Port) fits(want map[netip.Prefix]struct{}) error {
	num := make(map[*ebpf.Map]int, 4)
	for pfx := range want {
		m, _ := p.localKey(pfx)
		num[m]++
		if most := int(m.MaxEntries() / 2); num[m] > most {
			return fmt.Errorf("local addresses of port %s: more than %d of the kind of %s: %w", p.name, most, pfx, unix.E2BIG)
		}
	}
	return nil
}

// localKey returns the map that pfx belongs into and its key there.
func (p *Port) localKey(pfx netip.Prefix) (*ebpf.Map, any) {
	addr, bits := pfx.Addr(), uint32(pfx.Bits())
	switch {
	case addr.Is4() && pfx.IsSingleIP():
		return p.maps.Local4, local4Key{addr.As4()}
	case addr.Is4():
		return p.maps.Local4Prefixes, prefix4Key{bits, local4Key{addr.As4()}}
	case pfx.IsSingleIP():
		return p.maps.Local6, local6Key{addr.As16()}
	default:
		return p.maps.Local6Prefixes, prefix6Key{bits, local6Key{addr.As16()}}
	}
}

// countPrefixes tells the program how many prefixes there are, so that it looks them up only if there are any.
func (p *Port) countPrefixes(pfx netip.Prefix, delta uint32) {
	switch {
	case pfx.IsSingleIP():
	case pfx.Addr().Is4():
		p.shared.elems[0].numPrefixes4.Add(delta)
	default:
		p.shared.elems[0].numPrefixes6.Add(delta)
	}
}
