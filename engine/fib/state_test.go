package fib

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The universe of the model: few of everything, so that things meet.
var (
	modelPrefixes = prefixes("0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/24", "10.0.0.0/32", "10.0.0.1/32", "10.1.0.0/16",
		"::/0", "2001:db8::/32", "2001:db8::/64", "2001:db8::1/128")
	modelAddrs = addrs("10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.1.1", "10.1.0.1", "10.2.0.1", "11.0.0.1",
		"2001:db8::1", "2001:db8::2", "2001:db8:1::1", "2002::1")
	modelVias  = addrs("10.0.0.2", "10.1.0.1", "fe80::1")
	modelPorts = []PortRef{{Index: 0, Name: "p0"}, {Index: 1, Name: "p1"}}
	modelSpecs = []hopSpec{
		{kind: Forward, ifindex: 2},
		{kind: Forward, ifindex: 2, via: modelVias[0]},
		{kind: Forward, ifindex: 3, via: modelVias[1], mtu: 1400},
		{kind: Forward, ifindex: 3, via: modelVias[2]},
		{kind: Forward, ifindex: 9},
		{kind: Local},
		{kind: Broadcast},
		{kind: Blackhole},
		{kind: noneKind},
		{kind: Unsupported, reason: Multipath},
	}
)

func prefixes(list ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// model is the naive twin of state: lists, searched from one end to the other.
type model struct {
	routes []modelRoute       // in the kernel's order within a prefix and metric
	ports  [2]int             // ifindex, 0 = none
	neighs map[cellKey]uint64 // word
	names  map[int]string     // links
}

type modelRoute struct {
	local       bool
	prefix      netip.Prefix
	metric      uint32
	conditional bool
	dead        bool
	ident       uint32 // index of modelSpecs
}

func (r modelRoute) sameRank(o modelRoute) bool {
	return r.local == o.local && r.prefix == o.prefix && r.metric == o.metric && r.conditional == o.conditional
}

// apply does to the model what u says.
func (m *model) apply(u routeUpdate) {
	r := modelRoute{u.local, u.prefix, u.metric, u.conditional, u.dead, u.ident}
	same := slices.IndexFunc(m.routes, func(o modelRoute) bool { return r.sameRank(o) && r.ident == o.ident })
	firstOf := slices.IndexFunc(m.routes, r.sameRank)
	switch {
	case u.deleted:
		if same >= 0 {
			m.routes = slices.Delete(m.routes, same, same+1)
		}
	case same >= 0:
		m.routes[same].dead = u.dead
	case firstOf >= 0 && u.at == replace:
		m.routes[firstOf] = r
	case firstOf >= 0 && u.at == first:
		m.routes = slices.Insert(m.routes, firstOf, r)
	default:
		m.routes = append(m.routes, r)
	}
}

// lookup asks table local, then main, for the longest prefix and there for the first of the lowest metric that is not dead.
func (m *model) lookup(dst netip.Addr) string {
	for _, local := range []bool{true, false} {
		var best *modelRoute
		for i := range m.routes {
			r := &m.routes[i]
			if r.local != local || r.dead || !r.prefix.Contains(dst) {
				continue
			}
			if best == nil || r.prefix.Bits() > best.prefix.Bits() ||
				r.prefix.Bits() == best.prefix.Bits() && (r.conditional && !best.conditional ||
					r.conditional == best.conditional && r.metric < best.metric) {
				best = r
			}
		}
		if best != nil {
			return m.describe(best)
		}
	}
	return "none"
}

func (m *model) describe(r *modelRoute) string {
	spec := modelSpecs[r.ident]
	if r.conditional {
		spec = hopSpec{kind: Unsupported, reason: ServiceType}
	}
	if spec.kind == noneKind {
		return "none"
	}
	route := Route{Kind: spec.kind, Reason: spec.reason, Egress: -1, Via: spec.via, MTU: spec.mtu}
	if spec.kind == Forward {
		if route.Egress = slices.Index(m.ports[:], spec.ifindex); route.Egress < 0 {
			route.Kind = NotAPort
		}
	}
	return describe(&route)
}

// script interprets bytes as updates and applies them to both.
type script struct {
	t   require.TestingT
	in  []byte
	s   *state
	m   *model
	old *Snapshot
	was []string // what old answered when it was new
}

func newScript(t require.TestingT, in []byte) *script {
	sc := &script{t: t, in: in, s: newState(modelPorts), m: &model{neighs: map[cellKey]uint64{}, names: map[int]string{}}}
	sc.old = sc.s.snapshot(false)
	sc.was = answers(sc.old)
	return sc
}

// next returns a number below n.
func (sc *script) next(n int) int {
	if len(sc.in) == 0 {
		return 0
	}
	b := sc.in[0]
	sc.in = sc.in[1:]
	return int(b) % n
}

func (sc *script) update() routeUpdate {
	u := routeUpdate{
		prefix: modelPrefixes[sc.next(len(modelPrefixes))],
		metric: uint32(sc.next(3)),
		ident:  uint32(sc.next(len(modelSpecs))),
	}
	flags := sc.next(256)
	u.local = flags&1 != 0
	u.dead = flags&6 == 6
	u.conditional = flags&0x38 == 0x38
	u.hop = modelSpecs[u.ident]
	if u.conditional {
		u.hop = hopSpec{kind: Unsupported, reason: ServiceType}
	}
	u.at = position(sc.next(3))
	return u
}

func (sc *script) step() {
	switch op := sc.next(16); {
	case op < 6:
		u := sc.update()
		sc.s.route(u)
		sc.m.apply(u)
	case op < 9:
		u := sc.update()
		if i := sc.next(8); i < len(sc.m.routes) { // one that exists, mostly
			r := sc.m.routes[i]
			u = routeUpdate{local: r.local, prefix: r.prefix, metric: r.metric, conditional: r.conditional, ident: r.ident}
		}
		u.deleted = true
		sc.s.route(u)
		sc.m.apply(u)
	case op < 11:
		sc.link()
	case op < 13:
		sc.neigh()
	case op == 13: // the kernel drops some in silence, and is read
		drop := sc.next(256)
		sc.m.routes = slices.DeleteFunc(sc.m.routes, func(modelRoute) bool {
			drop = drop*5 + 1
			return drop&0x30 == 0
		})
		sc.read()
	default:
		sc.old = sc.s.snapshot(sc.next(2) == 0)
		sc.was = answers(sc.old)
		sc.compare(sc.was)
	}
}

func (sc *script) link() {
	ifindex := 2 + sc.next(4) // 2 and 3 may be ports; 4 and 5 are other links, sometimes with a port's name
	name := []string{"p0", "p1", "p0", "p1"}[ifindex-2]
	if sc.next(2) == 0 {
		sc.s.link(linkUpdate{ifindex: ifindex, name: name, up: sc.next(2) == 0, mtu: 1500})
		sc.m.names[ifindex] = name
		i := slices.IndexFunc(modelPorts, func(p PortRef) bool { return p.Name == name })
		if sc.m.ports[i] == 0 {
			sc.m.ports[i] = ifindex
		}
		return
	}
	sc.s.link(linkUpdate{ifindex: ifindex, deleted: true})
	delete(sc.m.names, ifindex)
	if i := slices.Index(sc.m.ports[:], ifindex); i >= 0 {
		sc.m.ports[i] = 0
		for k := range sc.m.neighs {
			if k.port == i {
				delete(sc.m.neighs, k)
			}
		}
	}
}

func (sc *script) neigh() {
	u := neighUpdate{ifindex: 2 + sc.next(3), addr: modelVias[sc.next(len(modelVias))], deleted: sc.next(3) == 0}
	if !u.deleted && sc.next(3) > 0 {
		u.word = usable | uint64(sc.next(256))
	}
	sc.s.neigh(u)
	if port := slices.Index(sc.m.ports[:], u.ifindex); port >= 0 {
		if k := (cellKey{port, u.addr}); u.deleted {
			delete(sc.m.neighs, k)
		} else {
			sc.m.neighs[k] = u.word
		}
	}
}

// read gives the state what a reading of the model's routes would bring.
func (sc *script) read() {
	sc.s.v4.gen++
	sc.s.v6.gen++
	for _, r := range sc.m.routes {
		u := routeUpdate{local: r.local, prefix: r.prefix, metric: r.metric, conditional: r.conditional, dead: r.dead, ident: r.ident,
			hop: modelSpecs[r.ident], at: read}
		if r.conditional {
			u.hop = hopSpec{kind: Unsupported, reason: ServiceType}
		}
		sc.s.route(u)
	}
	sweepRoutes(sc.s, &sc.s.v4)
	sweepRoutes(sc.s, &sc.s.v6)
}

func answers(s *Snapshot) []string {
	var out []string
	for _, a := range modelAddrs {
		out = append(out, describe(s.Lookup(a)))
	}
	return out
}

// check compares state and model, and the state with itself.
func (sc *script) check() {
	snap := sc.s.snapshot(false)
	sc.compare(answers(snap))
	require.Equal(sc.t, sc.was, answers(sc.old), "a snapshot that was published changed")

	for port := range modelPorts {
		require.Equal(sc.t, sc.m.ports[port], snap.Port(port).Ifindex)
		for _, via := range modelVias {
			want, known := sc.m.neighs[cellKey{port, via}]
			n := snap.Neighbour(port, via)
			require.Equal(sc.t, known, n != nil)
			if known {
				require.Equal(sc.t, want, n.word.Load())
			}
		}
	}

	var counts [numKinds]int
	own := 0
	routes := slices.Collect(maps.Values(maps.Collect(snap.routes4.All())))
	routes = append(routes, slices.Collect(maps.Values(maps.Collect(snap.routes6.All())))...)
	for _, r := range routes {
		if r == nil {
			counts[noneKind]++
			continue
		}
		counts[r.Kind]++
		if r.Kind == Local || r.Kind == Broadcast {
			own++
		}
		if r.Next != nil {
			require.Same(sc.t, sc.s.cells[cellKey{r.Egress, r.Via}].n, r.Next, "one cell per neighbour")
			require.Equal(sc.t, sc.m.neighs[cellKey{r.Egress, r.Via}], r.Next.word.Load())
		}
	}
	require.Equal(sc.t, counts, snap.counts)
	require.Equal(sc.t, own, len(snap.Locals())+len(snap.Broadcasts()))

	refs := map[hopID]int{}
	countRefs(&sc.s.v4, refs)
	countRefs(&sc.s.v6, refs)
	cellRefs := map[*cell]int{}
	for id := range sc.s.hops.list {
		h := &sc.s.hops.list[id]
		require.Equal(sc.t, refs[hopID(id)], h.refs)
		if h.cell != nil {
			cellRefs[h.cell]++
		}
	}
	require.Len(sc.t, sc.s.hops.index, len(refs))
	for k, c := range sc.s.cells {
		require.Equal(sc.t, k, c.key)
		require.Equal(sc.t, cellRefs[c], c.hops)
		require.True(sc.t, c.known || c.hops > 0, "a cell that nobody needs")
	}
}

// compare compares answers with those of the model.
func (sc *script) compare(got []string) {
	for i, a := range modelAddrs {
		require.Equal(sc.t, sc.m.lookup(a), got[i], "%v with %+v", a, sc.m.routes)
	}
}

func countRefs[K ribKey](f *family[K], refs map[hopID]int) {
	for _, r := range []*rib[K]{&f.main, &f.local} {
		for k := range r.keys {
			for _, c := range r.get(k, nil) {
				refs[c.hop]++
			}
		}
	}
}

func (sc *script) run() {
	for len(sc.in) > 0 {
		sc.step()
		if sc.next(4) > 0 { // or several updates come before the next snapshot
			sc.check()
		}
	}
	sc.check()
}

func TestStateAgreesWithModel(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := make([]byte, 300)
		for i := range in {
			in[i] = byte(r.Uint32())
		}
		newScript(t, in).run()
	}
}

func FuzzState(f *testing.F) {
	f.Add([]byte{9, 0, 0, 1, 10, 1, 0, 0, 0, 3, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1000 {
			return
		}
		newScript(t, in).run()
	})
}
