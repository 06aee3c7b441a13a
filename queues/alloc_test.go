package queues_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/queues/ringtest"
)

// Every function of the packet path, and every branch in which it refuses something,
// allocates nothing.
func TestNothingAllocates(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	b.port.SetSink(func([]byte) {})
	frames := numbered(4)
	got := make([]queues.Desc, 16)
	bad := []queues.Desc{{Addr: 1 << 40, Len: 60}, {Addr: 63 * 2048, Len: 60}, {Addr: 63 * 2048, Len: 5000}}
	for _, test := range []struct {
		name string
		run  func()
	}{
		{"round", func() {
			b.port.Inject(frames...)
			n := b.socket.Receive(got)
			for _, d := range got[:n] {
				b.umem.Data(d)[0]++
			}
			b.socket.Send(got[:n])
			b.socket.Kick()
			b.socket.Reap()
			b.socket.Refill()
			_, _, _, _ = b.socket.Pending(), b.socket.FillLen(), b.socket.TXLen(), b.socket.TXFree()
			_ = b.umem.Ledger()
		}},
		{"alloc and free", func() {
			addr, _ := b.umem.Alloc()
			b.umem.Free(addr)
			b.umem.Free(addr)
			b.umem.Free(1 << 40)
		}},
		{"alloc from an empty stack", func() {
			n := 0
			for addr, ok := b.umem.Alloc(); ok && n < len(got); addr, ok = b.umem.Alloc() {
				got[n].Addr = addr
				n++
			}
			for _, d := range got[:n] {
				b.umem.Free(d.Addr)
			}
		}},
		{"bad descriptors to send", func() { b.socket.Send(bad) }},
		{"data out of bounds", func() {
			for _, d := range bad {
				if d.Len != 60 && b.umem.Data(d) != nil {
					t.Fail()
				}
			}
		}},
		{"bad descriptors received", func() {
			b.port.InjectDesc(bad[0])
			b.port.InjectDesc(bad[1])
			b.socket.Receive(got)
		}},
		{"bad completions", func() {
			b.port.CompleteAddr(bad[0].Addr)
			b.port.CompleteAddr(bad[1].Addr)
			b.socket.Reap()
		}},
		{"kicks that fail", func() {
			for _, errno := range []unix.Errno{unix.EINTR, unix.EAGAIN, unix.EBUSY, unix.ENOBUFS, unix.ENETDOWN, unix.EINVAL} {
				b.port.SetKickErrno(errno)
				if addr, ok := b.umem.Alloc(); ok {
					got[0] = queues.Desc{Addr: addr, Len: 60}
					b.socket.Send(got[:1])
				}
				b.socket.Kick()
			}
			b.port.SetKickErrno(0)
			b.socket.Kick()
			b.socket.Reap()
		}},
		{"full TX", func() {
			b.port.SetKickErrno(unix.EAGAIN)
			for range 20 {
				addr, _ := b.umem.Alloc()
				got[0] = queues.Desc{Addr: addr, Len: 60}
				if b.socket.Send(got[:1]) == 0 {
					b.umem.Free(addr)
				}
			}
			b.socket.Kick()
			b.port.SetKickErrno(0)
			b.socket.Kick()
			b.socket.Reap()
		}},
		{"wake-ups", func() {
			b.port.SetNeedWakeup(true, true)
			b.socket.Refill()
			b.port.SetNeedWakeup(true, false)
		}},
		{"state", func() { b.socket.Check() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Zero(t, testing.AllocsPerRun(100, test.run))
		})
	}
	require.NoError(t, b.umem.Audit())

	b.kernel.RemoveDevice(1)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.socket.Send(got[:1])
		b.socket.Kick()
		b.socket.Refill()
	}), "device removed")
}

func TestQueueAllocatesNothing(t *testing.T) {
	q, err := queues.NewQueue[queues.Desc](16, 12, 4)
	require.NoError(t, err)
	batch := make([]queues.Desc, 20)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		q.PushBatch(batch)
		q.Push(batch[0])
		_, _, _ = q.AboveHigh(), q.BelowLow(), q.Full()
		q.Pop()
		q.PopBatch(batch)
		q.Pop()
	}))
}
