package fib

import (
	"net/netip"
	"slices"
)

// link applies an update of a link. A port belongs to the link with its number; when that is deleted, to the next link of its name.
func (s *state) link(u linkUpdate) {
	old, existed := s.links[u.ifindex]
	if u.deleted {
		s.deleteLink(u.ifindex)
		return
	}
	s.links[u.ifindex] = u
	if existed && (old.up != u.up || old.mtu != u.mtu) {
		// The kernel drops, revives and changes routes of the link without a word.
		s.todo.routes = [2]bool{true, true}
	}
	i, ok := s.byLink[u.ifindex]
	if !ok {
		i = slices.IndexFunc(s.ports, func(p portState) bool { return p.info.Ifindex == 0 && p.name == u.name })
		if i < 0 {
			return
		}
		s.bind(i, u.ifindex)
	}
	info := &s.ports[i].info
	if info.Up != u.up || info.MTU != u.mtu || info.MAC != u.mac {
		info.Up, info.MTU, info.MAC = u.up, u.mtu, u.mac
		s.dirty.ports = true
	}
}

func (s *state) deleteLink(ifindex int) {
	if _, ok := s.links[ifindex]; !ok {
		return
	}
	delete(s.links, ifindex)
	s.todo.routes = [2]bool{true, true}
	if i, ok := s.byLink[ifindex]; ok {
		s.unbind(i)
	}
}

// readLinks takes over the links as read from the kernel.
func (s *state) readLinks(list []linkUpdate) {
	there := map[int]bool{}
	for _, u := range list {
		there[u.ifindex] = true
	}
	for ifindex := range s.links {
		if !there[ifindex] {
			s.deleteLink(ifindex)
		}
	}
	for _, u := range list {
		s.link(u)
	}
}

// bind gives port i a link. What was said of neighbours and addresses of the link before it was a port's is not kept, so all is read again.
func (s *state) bind(i, ifindex int) {
	s.byLink[ifindex] = i
	s.ports[i].info.Ifindex = ifindex
	s.todo.all = true
	s.dirty.ports = true
	s.recompile()
}

// unbind takes the link from port i.
func (s *state) unbind(i int) {
	delete(s.byLink, s.ports[i].info.Ifindex)
	s.ports[i].info = PortInfo{Name: s.ports[i].name}
	s.dirty.ports = true
	for _, c := range s.cells {
		if c.key.port == i {
			s.forget(c)
		}
	}
	s.recompile()
}

// addr applies an update of an address.
func (s *state) addr(u addrUpdate) {
	if u.deleted {
		// Routes that prefer it as their source go without a word.
		s.todo.routes[familyIndex(u.addr.Addr())] = true
	}
	i, ok := s.byLink[u.ifindex]
	if !ok {
		return
	}
	info := &s.ports[i].info
	at := slices.Index(info.Addrs, u.addr)
	switch want := u.usable && !u.deleted; {
	case want == (at >= 0):
		return
	case want:
		info.Addrs = append(slices.Clip(info.Addrs), u.addr) // clipped: snapshots share what is there
	default:
		info.Addrs = slices.Concat(info.Addrs[:at], info.Addrs[at+1:])
	}
	s.dirty.ports = true
}

// readAddrs takes over the addresses as read from the kernel.
func (s *state) readAddrs(list []addrUpdate) {
	byPort := make([][]netip.Prefix, len(s.ports))
	for _, u := range list {
		if i, ok := s.byLink[u.ifindex]; ok && u.usable {
			byPort[i] = append(byPort[i], u.addr)
		}
	}
	for i, addrs := range byPort {
		if info := &s.ports[i].info; !slices.Equal(info.Addrs, addrs) {
			info.Addrs = addrs
			s.dirty.ports = true
		}
	}
}

func familyIndex(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// setRules takes over the policy rules that are not the kernel's own.
func (s *state) setRules(foreign []Rule) {
	if !slices.Equal(s.rules, foreign) {
		s.rules = foreign
		s.dirty.rules = true
	}
}
