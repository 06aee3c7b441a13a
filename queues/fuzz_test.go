package queues_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/queues/ringtest"
)

// FuzzOperations runs any sequence of operations of both sides on two sockets that
// share a UMEM, correct ones and abuse, and asserts after every step that no frame is
// lost, doubled or in two hands, by our books and by the kernel's.
//
// Two bytes are one step: what to do (and on which socket), and an argument.
func FuzzOperations(f *testing.F) {
	steps := func(s ...byte) []byte { return s }
	f.Add(uint32(0), steps(0, 8, 2, 8, 4, 8, 6, 0, 8, 0, 10, 8))
	f.Add(uint32(math.MaxUint32-3), steps(0, 255, 2, 255, 5, 255, 7, 0, 9, 0, 10, 0, 0, 9, 2, 9, 4, 9, 6, 1))
	f.Add(uint32(math.MaxUint32), steps(26, 1, 4, 7, 6, 0, 28, 3, 8, 0, 30, 0, 31, 0, 32, 0, 33, 0))
	f.Add(uint32(7), steps(12, 3, 14, 1, 16, 9, 18, 5, 20, 3, 22, 200, 24, 9, 25, 4, 34, 0, 4, 3, 6, 0, 35, 0))
	// A kernel gone mad never completes some packets; thousands of runs must not wait for it.
	f.Cleanup(queues.SetCloseLinger(0))
	f.Fuzz(func(t *testing.T, first uint32, script []byte) {
		script = script[:min(len(script), 400)]
		k := ringtest.New(ringtest.Config{FirstIndex: first})
		u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: 64, FrameSize: 2048, Kernel: k})
		require.NoError(t, err)
		m := &machine{t: t, kernel: k, umem: u, nextIfindex: 1}
		m.open(0)
		m.open(1)
		for ; len(script) >= 2; script = script[2:] {
			m.step(script[0], script[1])
			m.check()
		}
		for i := range m.sockets {
			m.close(i)
		}
		for _, d := range m.held {
			u.Free(d.Addr)
		}
		l := u.Ledger()
		require.Equal(t, queues.Ledger{Free: 64, Total: 64, Misused: l.Misused}, l)
		require.NoError(t, u.Audit())
		require.NoError(t, u.Close())
	})
}

// machine is both sides and what the caller of the package holds.
type machine struct {
	t           *testing.T
	kernel      *ringtest.Kernel
	umem        *queues.UMEM
	sockets     [2]*queues.Socket
	ports       [2]*ringtest.Port
	ifindexes   [2]int
	nextIfindex int
	held        []queues.Desc
	lost        bool // the script made the kernel deliver what it does not have: only our books count
}

func (m *machine) open(i int) {
	c := smallConfig(m.nextIfindex)
	c.FillDepth = min(c.FillDepth, m.umem.NumFree())
	s, err := m.umem.Open(c)
	require.NoError(m.t, err)
	m.sockets[i], m.ports[i], m.ifindexes[i] = s, m.kernel.Port(s), m.nextIfindex
	m.nextIfindex++
}

func (m *machine) close(i int) {
	m.ports[i].HoldCompletions(false)
	m.ports[i].Complete(64) // or Close waits for them
	require.NoError(m.t, m.sockets[i].Close())
}

func (m *machine) step(operation, argument byte) {
	i, n := int(operation&1), int(argument)
	s, p := m.sockets[i], m.ports[i]
	switch operation >> 1 % 20 {
	case 0:
		p.Inject(numbered(n % 40)...)
	case 1:
		got := make([]queues.Desc, n%40)
		m.held = append(m.held, got[:s.Receive(got)]...)
	case 2:
		m.held = m.held[s.Send(m.held[:min(len(m.held), n)]):]
	case 3:
		s.Kick()
	case 4:
		s.Reap()
	case 5:
		s.Refill()
	case 6:
		s.SetFillDepth(n % 20)
	case 7:
		p.HoldCompletions(n%2 == 0)
	case 8:
		p.Complete(n % 20)
	case 9:
		p.Transmit(n % 20)
	case 10:
		p.SetKickLimit(1 + n%20)
	case 11:
		errnos := []unix.Errno{unix.EINTR, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENETDOWN, unix.EINVAL}
		p.ScriptKicks(errnos[n%len(errnos)])
	case 12:
		p.SetNeedWakeup(n%2 == 0, n%3 == 0)
	case 13:
		if addr, ok := m.umem.Alloc(); ok {
			m.held = append(m.held, queues.Desc{Addr: addr, Len: uint32(1 + n)})
		}
	case 14:
		if len(m.held) > 0 {
			j := n % len(m.held)
			m.umem.Free(m.held[j].Addr)
			m.held = slices.Delete(m.held, j, j+1)
		}
	case 15: // abuse: any address is freed, unless we hold it
		addr := uint64(n) * 1024
		if !slices.ContainsFunc(m.held, func(d queues.Desc) bool { return d.Addr>>11 == addr>>11 }) {
			m.umem.Free(addr)
		}
	case 16: // abuse: any frame is sent, unless we hold it
		d := queues.Desc{Addr: uint64(n) * 1024, Len: 60}
		if !slices.ContainsFunc(m.held, func(h queues.Desc) bool { return h.Addr>>11 == d.Addr>>11 }) {
			s.Send([]queues.Desc{d})
		}
	case 17: // a kernel gone mad: any descriptor is delivered, or completes
		m.lost = true
		if n%2 == 0 {
			p.InjectDesc(queues.Desc{Addr: uint64(n) * 1024, Len: uint32(n) * 16})
		} else {
			p.CompleteAddr(uint64(n) * 1024)
		}
	case 18:
		if n%4 == 0 {
			m.kernel.RemoveDevice(m.ifindexes[i])
		}
		s.Check()
	case 19:
		m.close(i)
		m.open(i)
	}
}

func (m *machine) check() {
	l := m.umem.Ledger()
	require.Equal(m.t, l.Total, l.Sum())
	require.Equal(m.t, len(m.held), l.Held)
	require.NoError(m.t, m.umem.Audit())
	if !m.lost {
		require.NoError(m.t, m.kernel.Audit(l))
	}
	seen := make(map[uint64]bool, len(m.held))
	for _, d := range m.held {
		require.False(m.t, seen[d.Addr>>11], "a frame is held twice")
		seen[d.Addr>>11] = true
		require.NotNil(m.t, m.umem.Data(d))
	}
}
