package engine

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/engine/fib"
	"weir/internal/nettest"
	"weir/queues"
	"weir/queues/ringtest"
)

// The first byte of a script chooses the rig.
const (
	scriptSplit = 1 << iota
	scriptWrap
	scriptBudget
	scriptNoDiscard
	scriptNoFeedback
	scriptOffloads
	scriptFewFrames
	scriptRemoval // devices may be removed
)

// script drives a rig: each byte is an operation in its low half and an argument in its high half. After each one the rig checks that no
// frame and no packet is lost.
type script struct {
	*rig
	rest    []byte
	removal bool
	removed [2]bool
	cases   []forwardCase
	tables  [2]*fib.Snapshot // as it is, and with portOut down
	back    []byte           // a frame from portOut to portIn
	there   []byte
}

func newScript(t testing.TB, b []byte) *script {
	flags := b[0]
	o := rigOptions{split: flags&scriptSplit != 0, noDiscard: flags&scriptNoDiscard != 0, offloads: flags&scriptOffloads != 0}
	o.corrupt = true
	o.kernel.TXBudget = flags&scriptBudget != 0
	if flags&scriptWrap != 0 {
		o.kernel = ringtest.Config{FirstIndex: math.MaxUint32 - 30, TXBudget: o.kernel.TXBudget}
	}
	if flags&scriptFewFrames != 0 {
		o.frames = 320
	}
	o.config = func(c *Config) { c.Feedback.Off = flags&scriptNoFeedback != 0 }
	h := nettest.NewIP(nettest.AddrD0, nettest.AddrS0)
	s := &script{
		rig: newRig(t, o), rest: b[1:], removal: flags&scriptRemoval != 0, cases: scriptCases(),
		back:  nettest.Ethernet(nettest.MACr1, nettest.MACd0, udp(h)),
		there: toRouter(udp(probe(nettest.AddrD0.String()))),
	}
	for _, p := range s.ports {
		p.wire.SetSink(func([]byte) {})
	}
	s.tables = scriptTables()
	return s
}

// What all scripts share, made once.
var (
	scriptCases  = sync.OnceValue(forwardCases)
	scriptTables = sync.OnceValue(func() [2]*fib.Snapshot {
		l := testLiteral()
		up := fib.NewSnapshot(l)
		l.Ports[portOut].Up = false
		return [2]*fib.Snapshot{up, fib.NewSnapshot(l)}
	})
)

// next takes a byte of the script.
func (s *script) next() byte {
	if len(s.rest) == 0 {
		return 0
	}
	b := s.rest[0]
	s.rest = s.rest[1:]
	return b
}

func (s *script) operation() {
	b := s.next()
	arg := int(b >> 4)
	p := s.ports[arg&1]
	switch b & 15 {
	case 0, 1:
		for range 2 * (arg + 1) {
			if b&1 == 0 {
				s.arrive(portIn, s.there)
			} else {
				s.arrive(portOut, s.back)
			}
		}
	case 2:
		if c := s.cases[int(s.next())%len(s.cases)]; len(c.frame) > 0 {
			s.arrive(arg&1, c.frame)
		}
	case 3:
		s.round()
	case 4:
		s.step()
	case 5:
		s.steps(arg)
	case 6:
		p.wire.HoldCompletions(arg&2 != 0)
	case 7:
		p.wire.Complete(arg)
	case 8:
		errnos := []unix.Errno{0, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENOMEM, unix.EINTR, unix.EINVAL, ringtest.Woken}
		p.wire.SetKickErrno(errnos[arg>>1])
	case 9:
		p.wire.SetKickLimit(1 + 4*arg)
	case 10:
		p.kernel.SetDown(1+arg&1, arg&2 != 0)
	case 11:
		p.wire.SetNeedWakeup(arg&2 != 0, arg&4 != 0)
	case 12:
		p.wire.Transmit(arg)
	case 13:
		p.wire.ScriptWakes([]unix.Errno{0, unix.EINTR, unix.EAGAIN, unix.ENOBUFS, unix.EINVAL, unix.ENETDOWN, 0, 0}[arg>>1])
	case 14:
		s.table.snapshot = s.tables[arg&1]
	case 15:
		s.odd(p, arg)
	}
	s.check()
}

// odd is what should never happen.
func (s *script) odd(p *rigPort, arg int) {
	switch {
	case arg < 8:
		if p.wire.InjectDesc(queues.Desc{Addr: math.MaxUint64 >> arg, Len: 60}) {
			p.corrupt++
		}
	case arg < 14:
		frame, ok := p.wire.TakeFill()
		if !ok || p.wire.InjectDesc(queues.Desc{Addr: frame + 256, Len: uint32(arg-8) * 700, Options: uint32(arg) & 2}) {
			p.corrupt++ // an empty Fill ring counts as a drop
		}
	case s.removal:
		s.removed[arg&1] = true
		p.kernel.RemoveDevice(1 + arg&1)
		p.sock.Check()
	}
}

// end lets everything come to rest and gives back every frame.
func (s *script) end() {
	s.table.snapshot = s.tables[0]
	for i, p := range s.ports {
		p.wire.SetKickErrno(0)
		p.wire.SetKickLimit(32)
		p.wire.SetNeedWakeup(true, false)
		p.kernel.SetDown(1+i, false)
		p.wire.HoldCompletions(false)
	}
	for range 2000 {
		for _, p := range s.ports {
			p.wire.Complete(32)
		}
		s.step()
		if s.worker.inFlight() == 0 {
			break
		}
	}
	if s.removed == [2]bool{} && s.worker.broken() == nil {
		require.Zero(s.t, s.worker.inFlight())
	}
	s.close()
}

func runScript(t testing.TB, b []byte) {
	if len(b) == 0 || len(b) > 4096 {
		return
	}
	s := newScript(t, b)
	for len(s.rest) > 0 {
		s.operation()
	}
	s.end()
}

func FuzzWorker(f *testing.F) {
	for flags := 0; flags < 256; flags += 5 {
		r := rand.New(rand.NewPCG(uint64(flags), 1))
		b := []byte{byte(flags)}
		for range 60 {
			b = append(b, byte(r.Uint32()))
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) { runScript(t, b) })
}

// The same, longer than a fuzzer would make them.
func TestRandomScripts(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		b := []byte{byte(r.Uint32())}
		for range 1000 {
			b = append(b, byte(r.Uint32()))
		}
		runScript(t, b)
	}
}
