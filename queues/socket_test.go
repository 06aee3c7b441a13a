package queues_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/queues/ringtest"
)

// bench is a UMEM of 64 frames and one socket of 16 entries on a scripted kernel.
type bench struct {
	t      testing.TB
	kernel *ringtest.Kernel
	umem   *queues.UMEM
	socket *queues.Socket
	port   *ringtest.Port
}

func smallConfig(ifindex int) queues.SocketConfig {
	return queues.SocketConfig{
		Interface: "eth1", Ifindex: ifindex,
		NumRX: 16, NumTX: 16, NumFill: 16, NumCompletion: 16, FillDepth: 8,
	}
}

func newBench(t testing.TB, k ringtest.Config) *bench {
	t.Helper()
	kernel := ringtest.New(k)
	b := &bench{t: t, kernel: kernel, umem: plainUMEM(t, kernel, 64)}
	var err error
	b.socket, err = b.umem.Open(smallConfig(1))
	require.NoError(t, err)
	b.port = kernel.Port(b.socket)
	b.check()
	return b
}

// check asserts conservation, by our books and by the kernel's.
func (b *bench) check() {
	b.t.Helper()
	l := b.umem.Ledger()
	require.Equal(b.t, l.Total, l.Sum())
	require.NoError(b.t, b.umem.Audit())
	require.NoError(b.t, b.kernel.Audit(l))
}

// packets allocates n held frames of 60 bytes, numbered in their first byte.
func (b *bench) packets(n int) []queues.Desc {
	b.t.Helper()
	ds := make([]queues.Desc, n)
	for i := range ds {
		addr, ok := b.umem.Alloc()
		require.True(b.t, ok)
		ds[i] = queues.Desc{Addr: addr + queues.RXHeadroom, Len: 60}
		b.umem.Data(ds[i])[0] = byte(i)
	}
	return ds
}

func (b *bench) free(ds []queues.Desc) {
	for _, d := range ds {
		b.umem.Free(d.Addr)
	}
}

func numbered(n int) [][]byte {
	frames := make([][]byte, n)
	for i := range frames {
		frames[i] = make([]byte, 60)
		frames[i][0] = byte(i)
	}
	return frames
}

// wrapping are the places a ring can stand at when a test begins.
var wrapping = []uint32{0, math.MaxUint32 - 5}

func TestFillIsFilledBeforeBind(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.Equal(t, 8, b.port.FillLen())
	require.Equal(t, 8, b.socket.FillLen())
	require.Equal(t, queues.Ledger{Free: 56, Receive: 8, Total: 64}, b.umem.Ledger())
}

func TestReceive(t *testing.T) {
	for _, first := range wrapping {
		b := newBench(t, ringtest.Config{FirstIndex: first})
		got := make([]queues.Desc, 5)
		require.Zero(t, b.socket.Receive(got))
		for range 20 { // several times around the ring
			require.Equal(t, 8, b.port.Inject(numbered(10)...), "Fill held 8")
			require.Equal(t, 8, b.socket.Pending())
			require.Equal(t, 5, b.socket.Receive(got))
			require.Equal(t, 3, b.socket.Pending())
			for i, d := range got {
				require.Equal(t, byte(i), b.umem.Data(d)[0])
			}
			b.check()
			b.free(got)
			require.Equal(t, 3, b.socket.Receive(got))
			b.free(got[:3])
			require.Equal(t, 8, b.socket.Refill())
			b.check()
		}
		st, err := b.socket.Statistics()
		require.NoError(t, err)
		require.EqualValues(t, 40, st.RXFillRingEmptyDescs)
	}
}

func TestReceiveRefusesCorruptDescriptors(t *testing.T) {
	for _, test := range []struct {
		name    string
		corrupt func(b *bench, addr uint64) queues.Desc // addr is a frame the kernel has
		free    int                                     // frames that come back
	}{
		{"beyond the UMEM", func(_ *bench, _ uint64) queues.Desc { return queues.Desc{Addr: 64 * 2048, Len: 60} }, 0},
		{"far beyond", func(_ *bench, _ uint64) queues.Desc { return queues.Desc{Addr: math.MaxUint64, Len: 60} }, 0},
		{"crossing its frame", func(_ *bench, a uint64) queues.Desc { return queues.Desc{Addr: a + 2000, Len: 60} }, 1},
		{"too long", func(_ *bench, a uint64) queues.Desc { return queues.Desc{Addr: a, Len: math.MaxUint32} }, 1},
		{"empty", func(_ *bench, a uint64) queues.Desc { return queues.Desc{Addr: a} }, 1},
		{"options", func(_ *bench, a uint64) queues.Desc { return queues.Desc{Addr: a, Len: 60, Options: 1} }, 1},
		{"a free frame", func(_ *bench, _ uint64) queues.Desc { return queues.Desc{Addr: 63 * 2048, Len: 60} }, 0},
		{"a held frame", func(b *bench, _ uint64) queues.Desc { return b.packets(1)[0] }, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, ringtest.Config{})
			addr, ok := b.port.TakeFill()
			require.True(t, ok)
			require.True(t, b.port.InjectDesc(test.corrupt(b, addr)))
			require.Equal(t, 1, b.port.Inject(numbered(1)...))

			got := make([]queues.Desc, 4)
			require.Equal(t, 1, b.socket.Receive(got), "the good one behind it arrives")
			require.Equal(t, byte(0), b.umem.Data(got[0])[0])
			require.EqualValues(t, 1, b.socket.Counters().RXInvalid)
			l := b.umem.Ledger()
			require.EqualValues(t, 1, l.Misused)
			require.Equal(t, 64, l.Sum())
			require.Equal(t, 56+test.free, l.Free)
			require.NoError(t, b.umem.Audit())
			require.NoError(t, b.socket.Close(), "a frame that got lost comes back with the socket")
			require.Equal(t, 64, b.umem.Ledger().Sum())
			require.NoError(t, b.umem.Audit())
		})
	}
}

func TestRefillKeepsItsDepth(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.Zero(t, b.socket.Refill(), "full already")
	require.Equal(t, 12, b.socket.SetFillDepth(12))
	require.Equal(t, 4, b.socket.Refill())
	require.Equal(t, 16, b.socket.SetFillDepth(1000), "no deeper than the ring")
	require.Equal(t, 4, b.socket.Refill())
	require.Equal(t, 0, b.socket.SetFillDepth(-1))
	require.Zero(t, b.socket.Refill(), "frames are not taken back")
	require.Equal(t, 16, b.socket.FillLen())
	require.Zero(t, b.socket.FillDepth())

	// Packets that wait in RX count: what nobody reads is not replaced.
	b.socket.SetFillDepth(16)
	require.Equal(t, 10, b.port.Inject(numbered(10)...))
	require.Zero(t, b.socket.Refill())
	require.Equal(t, 16, b.socket.FillLen())
	b.check()
}

func TestRefillWithoutFreeFrames(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	held := b.packets(56)
	require.Equal(t, 8, b.port.Inject(numbered(8)...))
	got := make([]queues.Desc, 8)
	require.Equal(t, 8, b.socket.Receive(got))
	b.port.SetNeedWakeup(true, true)
	require.Zero(t, b.socket.Refill())
	require.Equal(t, 1, b.port.Wakes(), "asked for although nothing was added")
	b.free(held[:3])
	require.Equal(t, 3, b.socket.Refill(), "what there is")
	require.Equal(t, 2, b.port.Wakes())
	b.port.SetNeedWakeup(true, false)
	b.free(got)
	require.Equal(t, 5, b.socket.Refill())
	require.Equal(t, 2, b.port.Wakes())
	require.EqualValues(t, 2, b.socket.Counters().Wakes)
	b.check()
}

func TestWakeErrors(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	b.port.SetNeedWakeup(true, true)
	b.kernel.SetDown(1, true)
	b.socket.Refill()
	require.Equal(t, queues.StateDown, b.socket.State())
	b.kernel.SetDown(1, false)
	b.socket.Refill()
	require.Equal(t, queues.StateBound, b.socket.State())
	require.EqualValues(t, 1, b.socket.Counters().WakesFailed)

	for _, errno := range []unix.Errno{unix.EINTR, unix.EAGAIN} {
		b.port.ScriptWakes(errno)
		b.socket.Refill()
	}
	require.EqualValues(t, 1, b.socket.Counters().WakesFailed, "those two are normal")
	for _, errno := range []unix.Errno{unix.ENOBUFS, unix.EINVAL} {
		b.port.ScriptWakes(errno)
		b.socket.Refill()
		require.Equal(t, errno, b.socket.LastErrno())
	}
	require.Equal(t, queues.StateBound, b.socket.State())

	b.kernel.RemoveDevice(1)
	b.socket.Refill()
	require.Equal(t, queues.StateGone, b.socket.State())
	require.EqualValues(t, 4, b.socket.Counters().WakesFailed)
	require.Zero(t, b.socket.Refill())
}

func TestSendAndReap(t *testing.T) {
	for _, first := range wrapping {
		b := newBench(t, ringtest.Config{FirstIndex: first})
		for range 20 {
			require.Equal(t, 16, b.socket.TXFree())
			require.Equal(t, 10, b.socket.Send(b.packets(10)))
			require.Equal(t, 10, b.socket.TXLen())
			require.Equal(t, 10, b.socket.TXUnsent())
			require.Equal(t, 6, b.socket.TXFree())
			b.check()
			require.Equal(t, queues.KickEmpty, b.socket.Kick())
			require.Zero(t, b.socket.TXUnsent())
			require.Equal(t, 10, b.socket.TXLen(), "not completed yet, as far as we know")
			require.Equal(t, 16, b.socket.TXFree())
			require.Equal(t, numbered(10), b.port.Transmitted())
			b.check()
			require.Equal(t, 10, b.socket.Reap())
			require.Zero(t, b.socket.Reap())
			require.Zero(t, b.socket.TXLen())
			require.Equal(t, 56, b.umem.NumFree())
			b.check()
		}
		require.Equal(t, 20, b.port.Kicks())
	}
}

func TestSendKeepsThePartThatDoesNotFit(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	b.port.SetKickErrno(unix.EAGAIN)
	packets := b.packets(20)
	require.Equal(t, 16, b.socket.Send(packets))
	require.Zero(t, b.socket.Send(packets[16:]), "full")
	require.Equal(t, queues.KickPending, b.socket.Kick())
	require.Equal(t, queues.Ledger{Free: 36, Held: 4, Receive: 8, Transmit: 16, Total: 64}, b.umem.Ledger())
	b.check()

	b.port.SetKickErrno(0)
	b.port.SetKickLimit(3)
	b.port.ScriptKicks(0, unix.ENOBUFS)
	require.Equal(t, queues.KickPending, b.socket.Kick(), "three left, then no memory")
	require.Equal(t, 3, b.socket.Send(packets[16:]), "a nearly full ring takes what fits")
	require.Equal(t, queues.KickEmpty, drainKicks(b))
	require.Equal(t, 1, b.socket.Send(packets[19:]))
	require.Equal(t, queues.KickEmpty, drainKicks(b))
	require.Len(t, b.port.Transmitted(), 20)
	b.socket.Reap()
	require.Equal(t, queues.Ledger{Free: 56, Receive: 8, Total: 64}, b.umem.Ledger())
	b.check()
}

func drainKicks(b *bench) queues.KickResult {
	r := b.socket.Kick()
	for range 20 {
		if r != queues.KickPending {
			break
		}
		b.socket.Reap()
		r = b.socket.Kick()
	}
	return r
}

func TestSendRefusesBadDescriptors(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(b *bench, d queues.Desc) queues.Desc
		held  int // frames still held afterwards, besides the two good ones
	}{
		{"beyond the UMEM", func(_ *bench, d queues.Desc) queues.Desc { d.Addr = 64 * 2048; return d }, 1},
		{"crossing its frame", func(_ *bench, d queues.Desc) queues.Desc { d.Len = 2000; return d }, 0},
		{"empty", func(_ *bench, d queues.Desc) queues.Desc { d.Len = 0; return d }, 0},
		{"options", func(_ *bench, d queues.Desc) queues.Desc { d.Options = 1; return d }, 0},
		{"freed already", func(b *bench, d queues.Desc) queues.Desc { b.umem.Free(d.Addr); return d }, 0},
		{"the kernel's", func(_ *bench, d queues.Desc) queues.Desc { d.Addr = 3 * 2048; return d }, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, ringtest.Config{})
			packets := b.packets(3)
			packets[1] = test.spoil(b, packets[1])
			require.Equal(t, 3, b.socket.Send(packets), "the bad one counts as taken")
			require.EqualValues(t, 1, b.socket.Counters().TXInvalid)
			require.Equal(t, 2, b.socket.TXLen())
			l := b.umem.Ledger()
			require.EqualValues(t, 1, l.Misused)
			require.Equal(t, test.held, l.Held)
			b.check()
			require.Equal(t, queues.KickEmpty, b.socket.Kick())
			sent := b.port.Transmitted()
			require.Len(t, sent, 2)
			require.Equal(t, []byte{0, 2}, []byte{sent[0][0], sent[1][0]})
			require.Equal(t, 2, b.socket.Reap())
			b.check()

			// The place of the bad one in TX is not lost.
			require.Equal(t, 16, b.socket.TXFree())
			require.Equal(t, 16, b.socket.Send(b.packets(16)))
			require.Equal(t, queues.KickEmpty, b.socket.Kick())
			require.Equal(t, numbered(16), b.port.Transmitted())
		})
	}
}

func TestSendTwiceIsRefused(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	packets := b.packets(1)
	require.Equal(t, 2, b.socket.Send([]queues.Desc{packets[0], packets[0]}))
	require.Equal(t, 1, b.socket.TXLen())
	require.EqualValues(t, 1, b.umem.Ledger().Misused)
	b.check()
}

func TestReapRefusesBadCompletions(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	b.port.HoldCompletions(true)
	packets := b.packets(2)
	require.Equal(t, 2, b.socket.Send(packets))
	require.Equal(t, queues.KickEmpty, b.socket.Kick())
	for _, addr := range []uint64{math.MaxUint64, 64 * 2048, 60 * 2048, 3 * 2048} { // nowhere, nowhere, free, receive
		require.True(t, b.port.CompleteAddr(addr))
	}
	require.Equal(t, 2, b.port.Complete(9))
	require.True(t, b.port.CompleteAddr(packets[0].Addr), "a second time")
	require.Equal(t, 2, b.socket.Reap())
	require.EqualValues(t, 5, b.socket.Counters().CompletionInvalid)
	require.Equal(t, queues.Ledger{Free: 56, Receive: 8, Total: 64, Misused: 5}, b.umem.Ledger())
	b.check()
}

func TestLateCompletions(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	b.port.HoldCompletions(true)
	require.Equal(t, 16, b.socket.Send(b.packets(16)))
	require.Equal(t, queues.KickEmpty, b.socket.Kick())
	require.Zero(t, b.socket.Reap())
	require.Equal(t, 16, b.port.InFlight())
	require.Equal(t, 5, b.port.Complete(5))
	require.Equal(t, 5, b.socket.Reap())
	b.check()

	// Completion has room for 16 in all: the kernel takes five more.
	require.Equal(t, 16, b.socket.Send(b.packets(16)))
	require.Equal(t, queues.KickPending, b.socket.Kick())
	require.Equal(t, 11, b.socket.TXUnsent())
	require.Equal(t, 27, b.socket.TXLen())
	b.check()
	b.port.HoldCompletions(false)
	b.port.Complete(16)
	require.Equal(t, 16, b.socket.Reap())
	require.Equal(t, queues.KickEmpty, drainKicks(b))
	b.socket.Reap()
	require.Equal(t, 56, b.umem.NumFree())
	b.check()
}

func TestKick(t *testing.T) {
	many := func(errno unix.Errno, n int) []unix.Errno {
		s := make([]unix.Errno, n)
		for i := range s {
			s[i] = errno
		}
		return s
	}
	for _, test := range []struct {
		name   string
		send   int
		script []unix.Errno
		limit  int // packets per call
		want   queues.KickResult
		kicks  int
		unsent int
		state  queues.State
		count  func(queues.Counters) uint64 // the counter that must be 1, besides Kicks
	}{
		{"nothing to send", 0, nil, 32, queues.KickEmpty, 0, 0, queues.StateBound, nil},
		{"all in one call", 16, nil, 32, queues.KickEmpty, 1, 0, queues.StateBound, nil},
		{"two calls", 16, nil, 8, queues.KickEmpty, 2, 0, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksAgain }},
		{"bounded", 16, nil, 1, queues.KickPending, 2, 14, queues.StateBound, nil},
		{"EINTR", 4, []unix.Errno{unix.EINTR}, 32, queues.KickEmpty, 2, 0, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksInterrupted }},
		{"EINTR without end", 4, many(unix.EINTR, 9), 32, queues.KickPending, 2, 4, queues.StateBound, nil},
		{"EAGAIN without progress", 4, []unix.Errno{unix.EAGAIN}, 32, queues.KickPending, 1, 4, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksAgain }},
		{"EBUSY", 4, []unix.Errno{unix.EBUSY}, 32, queues.KickPending, 1, 3, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksBusy }},
		{"EBUSY on the last", 1, []unix.Errno{unix.EBUSY}, 32, queues.KickEmpty, 1, 0, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksBusy }},
		{"ENOBUFS", 4, []unix.Errno{unix.ENOBUFS}, 32, queues.KickPending, 1, 4, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksNoBuffer }},
		{"ENOMEM", 4, []unix.Errno{unix.ENOMEM}, 32, queues.KickPending, 1, 4, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksNoBuffer }},
		{"ENETDOWN", 4, []unix.Errno{unix.ENETDOWN}, 32, queues.KickDown, 1, 4, queues.StateDown,
			func(c queues.Counters) uint64 { return c.KicksDown }},
		{"ENXIO", 4, []unix.Errno{unix.ENXIO}, 32, queues.KickGone, 1, 4, queues.StateGone,
			func(c queues.Counters) uint64 { return c.KicksGone }},
		{"EINVAL", 4, []unix.Errno{unix.EINVAL}, 32, queues.KickFailed, 1, 4, queues.StateBound,
			func(c queues.Counters) uint64 { return c.KicksFailed }},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, ringtest.Config{})
			b.port.ScriptKicks(test.script...)
			b.port.SetKickLimit(test.limit)
			require.Equal(t, test.send, b.socket.Send(b.packets(test.send)))
			require.Equal(t, test.want, b.socket.Kick())
			require.Equal(t, test.kicks, b.port.Kicks())
			require.EqualValues(t, test.kicks, b.socket.Counters().Kicks)
			require.Equal(t, test.unsent, b.socket.TXUnsent())
			require.Equal(t, test.state, b.socket.State())
			if test.count != nil {
				require.EqualValues(t, 1, test.count(b.socket.Counters()))
			}
			switch test.want {
			case queues.KickDown, queues.KickGone, queues.KickFailed:
				require.Equal(t, test.script[0], b.socket.LastErrno())
			}
			b.check()
			require.NoError(t, b.socket.Close())
			require.Equal(t, 64, b.umem.NumFree())
			require.EqualValues(t, test.unsent, b.socket.Counters().TXAbandoned)
		})
	}
}

// A ring that could not be emptied is kicked again though nothing was added to it.
func TestKickWithoutNewPackets(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	b.port.ScriptKicks(unix.EAGAIN)
	require.Equal(t, 16, b.socket.Send(b.packets(16)))
	require.Equal(t, queues.KickPending, b.socket.Kick())
	require.Zero(t, b.socket.Send(nil))
	require.Equal(t, queues.KickEmpty, b.socket.Kick())
	require.Len(t, b.port.Transmitted(), 16)
}

func TestKickIsNotNeededWhileTheDriverWorks(t *testing.T) {
	b := newBench(t, ringtest.Config{ZeroCopy: true})
	require.Equal(t, queues.ZeroCopy, b.socket.Mode())
	b.port.SetNeedWakeup(false, false)
	require.Equal(t, 4, b.socket.Send(b.packets(4)))
	require.Equal(t, queues.KickPending, b.socket.Kick())
	require.Zero(t, b.port.Kicks())
	require.Equal(t, 4, b.port.Transmit(9))
	require.Equal(t, queues.KickEmpty, b.socket.Kick())
	require.Equal(t, 4, b.socket.Reap())

	// Woken, the driver gets to it by itself: one call, not a loop of them.
	b.port.SetNeedWakeup(true, false)
	b.port.ScriptKicks(ringtest.Woken)
	require.Equal(t, 4, b.socket.Send(b.packets(4)))
	require.Equal(t, queues.KickPending, b.socket.Kick())
	require.Equal(t, 1, b.port.Kicks())
}

func TestTXBudget(t *testing.T) {
	kernel := ringtest.New(ringtest.Config{TXBudget: true})
	u := plainUMEM(t, kernel, 256)
	c := smallConfig(1)
	c.NumTX, c.NumCompletion = 128, 128
	s, err := u.Open(c)
	require.NoError(t, err)
	require.Equal(t, 128, s.TXBudget())
	b := &bench{t: t, kernel: kernel, umem: u, socket: s, port: kernel.Port(s)}
	require.Equal(t, 128, s.Send(b.packets(128)))
	require.Equal(t, queues.KickEmpty, s.Kick())
	require.Equal(t, 1, b.port.Kicks(), "one call sends the ring")

	kernel = ringtest.New(ringtest.Config{})
	u = plainUMEM(t, kernel, 256)
	s, err = u.Open(c)
	require.NoError(t, err)
	require.Zero(t, s.TXBudget())
	b = &bench{t: t, kernel: kernel, umem: u, socket: s, port: kernel.Port(s)}
	require.Equal(t, 128, s.Send(b.packets(128)))
	require.Equal(t, queues.KickEmpty, s.Kick())
	require.Equal(t, 4, b.port.Kicks(), "32 a call")
}

func TestReceiveOnlySocket(t *testing.T) {
	kernel := ringtest.New(ringtest.Config{})
	u := plainUMEM(t, kernel, 64)
	c := smallConfig(1)
	c.NumTX = 0
	s, err := u.Open(c)
	require.NoError(t, err)
	b := &bench{t: t, kernel: kernel, umem: u, socket: s, port: kernel.Port(s)}
	held := b.packets(1)
	require.Zero(t, s.Send(held))
	require.Zero(t, s.TXFree())
	require.Zero(t, s.TXLen())
	require.Zero(t, s.TXUnsent())
	require.Equal(t, queues.KickEmpty, s.Kick())
	require.Zero(t, s.Reap())
	require.Equal(t, 1, b.port.Inject(numbered(1)...))
	require.Equal(t, 1, s.Receive(make([]queues.Desc, 2)))
	b.check()
	require.NoError(t, s.Close())
}

// A packet goes from one interface to another by its descriptor.
func TestForwardBetweenSockets(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	out, err := b.umem.Open(smallConfig(2))
	require.NoError(t, err)
	require.Equal(t, 8, b.port.Inject(numbered(8)...))
	got := make([]queues.Desc, 16)
	n := b.socket.Receive(got)
	require.Equal(t, 8, n)
	require.Equal(t, 8, out.Send(got[:n]))
	require.Equal(t, queues.KickEmpty, out.Kick())
	require.Equal(t, numbered(8), b.kernel.Port(out).Transmitted())
	require.Empty(t, b.port.Transmitted())
	require.Zero(t, b.socket.Reap(), "completions come on the socket that sent")
	require.Equal(t, 8, out.Reap())
	b.check()
}

func TestDeviceDown(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.Equal(t, 4, b.socket.Send(b.packets(4)))
	b.kernel.SetDown(1, true)
	require.Equal(t, queues.KickDown, b.socket.Kick())
	require.Equal(t, queues.StateDown, b.socket.State())
	require.Equal(t, 4, b.socket.TXLen(), "they stay")
	b.check()
	b.kernel.SetDown(1, false)
	require.Equal(t, queues.KickEmpty, b.socket.Kick())
	require.Equal(t, queues.StateBound, b.socket.State())
	require.Equal(t, 4, b.socket.Reap())

	// Any other answer than ENETDOWN means that it is up.
	for _, errno := range []unix.Errno{0, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS} {
		require.Equal(t, 2, b.socket.Send(b.packets(2)))
		b.port.ScriptKicks(unix.ENETDOWN, errno)
		require.Equal(t, queues.KickDown, b.socket.Kick())
		require.Equal(t, queues.StateDown, b.socket.State())
		b.socket.Kick()
		require.Equal(t, queues.StateBound, b.socket.State(), errno)
		b.socket.Kick()
		b.socket.Reap()
	}
	b.check()
}

func TestDeviceRemoved(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.Equal(t, 3, b.port.Inject(numbered(3)...))
	require.Equal(t, 4, b.socket.Send(b.packets(4)))
	require.Equal(t, queues.StateBound, b.socket.Check())

	b.kernel.RemoveDevice(1)
	require.Equal(t, queues.StateGone, b.socket.Check())
	require.Equal(t, queues.Ledger{Free: 52, Stranded: 12, Total: 64}, b.umem.Ledger())
	b.check()

	require.Equal(t, queues.KickGone, b.socket.Kick())
	require.Zero(t, b.port.Kicks(), "there is nobody to kick")
	require.Zero(t, b.socket.Refill())
	held := b.packets(1)
	require.Zero(t, b.socket.Send(held), "the frame stays with the caller")
	b.free(held)
	got := make([]queues.Desc, 16)
	require.Equal(t, 3, b.socket.Receive(got), "what had arrived can still be read")
	b.free(got[:3])
	require.Equal(t, queues.Ledger{Free: 55, Stranded: 9, Total: 64}, b.umem.Ledger())

	_, err := b.umem.Open(smallConfig(1))
	require.ErrorIs(t, err, unix.ENODEV, "the dead socket is not in the way of a new one")

	require.NoError(t, b.socket.Close())
	require.Equal(t, queues.Ledger{Free: 64, Total: 64}, b.umem.Ledger())
	require.EqualValues(t, 4, b.socket.Counters().TXAbandoned)
	b.check()
}

func TestCloseCountsWhatItDrops(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.Equal(t, 3, b.port.Inject(numbered(3)...))
	b.port.HoldCompletions(true)
	b.port.SetKickLimit(4)
	b.port.ScriptKicks(0, unix.ENOBUFS)
	require.Equal(t, 9, b.socket.Send(b.packets(9)))
	require.Equal(t, queues.KickPending, b.socket.Kick())
	require.Equal(t, 4, b.port.InFlight())
	require.NoError(t, b.socket.Close(), "although four packets never complete")
	require.EqualValues(t, 3, b.socket.Counters().RXAbandoned)
	require.EqualValues(t, 5, b.socket.Counters().TXAbandoned)
	require.Equal(t, queues.Ledger{Free: 64, Total: 64}, b.umem.Ledger())
	b.check()
}

func TestCloseWaitsForPacketsInFlight(t *testing.T) {
	t.Cleanup(queues.SetCloseLinger(time.Minute))
	b := newBench(t, ringtest.Config{})
	b.port.HoldCompletions(true)
	require.Equal(t, 9, b.socket.Send(b.packets(9)))
	require.Equal(t, queues.KickEmpty, b.socket.Kick())
	time.AfterFunc(10*time.Millisecond, func() { b.port.Complete(9) })
	before := time.Now()
	require.NoError(t, b.socket.Close())
	require.Less(t, time.Since(before), 30*time.Second, "and no longer")
	require.Zero(t, b.port.InFlight())
	require.Zero(t, b.socket.Counters().TXAbandoned)
	b.check()
}

func TestClosedSocketIsHarmless(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.NoError(t, b.socket.Close())
	require.NoError(t, b.socket.Close())
	s, got := b.socket, make([]queues.Desc, 4)
	held := b.packets(1)
	require.Zero(t, s.Receive(got))
	require.Zero(t, s.Pending())
	require.Zero(t, s.Refill())
	require.Zero(t, s.Send(held))
	require.Equal(t, queues.KickGone, s.Kick())
	require.Zero(t, s.Reap())
	require.Zero(t, s.TXFree())
	require.Zero(t, s.TXUnsent())
	require.Equal(t, queues.StateGone, s.State())
	_, err := s.Statistics()
	require.ErrorIs(t, err, queues.ErrClosed)
	require.Equal(t, queues.StateGone, s.Check())
	b.free(held)
	b.check()
}

// The driver does not let go of the queue: its frames must not be used again.
func TestCloseFails(t *testing.T) {
	b := newBench(t, ringtest.Config{ZeroCopy: true})
	require.Equal(t, 3, b.port.Inject(numbered(3)...))
	b.kernel.FailCloses(unix.EBUSY)
	require.ErrorIs(t, b.socket.Close(), unix.EBUSY)
	require.EqualValues(t, 3, b.socket.Counters().RXAbandoned)
	require.Equal(t, queues.Ledger{Free: 56, Stranded: 8, Total: 64}, b.umem.Ledger())
	require.NoError(t, b.umem.Audit())
	require.NoError(t, b.socket.Close(), "a second try")
	require.EqualValues(t, 3, b.socket.Counters().RXAbandoned)
	require.Equal(t, queues.Ledger{Free: 64, Total: 64}, b.umem.Ledger())
	b.check()
}

func TestStrings(t *testing.T) {
	for m, s := range map[queues.Mode]string{queues.Auto: "auto", queues.ZeroCopy: "zerocopy", queues.Copy: "copy"} {
		require.Equal(t, s, m.String())
		parsed, err := queues.ParseMode(s)
		require.NoError(t, err)
		require.Equal(t, m, parsed)
	}
	_, err := queues.ParseMode("fast")
	require.EqualError(t, err, `mode "fast": unknown: use auto, zerocopy or copy`)
	require.Equal(t, "Mode(9)", queues.Mode(9).String())
	require.Equal(t, []string{"empty", "pending", "down", "gone", "failed"}, []string{
		queues.KickEmpty.String(), queues.KickPending.String(), queues.KickDown.String(),
		queues.KickGone.String(), queues.KickFailed.String()})
	require.Equal(t, []string{"bound", "down", "gone"}, []string{
		queues.StateBound.String(), queues.StateDown.String(), queues.StateGone.String()})
}
