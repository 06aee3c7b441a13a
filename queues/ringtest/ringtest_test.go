package ringtest_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/queues/ringtest"
)

func Example() {
	kernel := ringtest.New(ringtest.Config{})
	umem, _ := queues.NewUMEM(queues.UMEMConfig{NumFrames: 64, FrameSize: 2048, Kernel: kernel})
	in, _ := umem.Open(queues.SocketConfig{Ifindex: 1, NumRX: 16, NumTX: 16, NumFill: 16, NumCompletion: 16, FillDepth: 8})
	out, _ := umem.Open(queues.SocketConfig{Ifindex: 2, NumRX: 16, NumTX: 16, NumFill: 16, NumCompletion: 16, FillDepth: 8})

	kernel.Port(in).Inject([]byte("hello"))
	batch := make([]queues.Desc, 4)
	n := in.Receive(batch)
	out.Send(batch[:n])
	fmt.Println(out.Kick())
	fmt.Printf("%s\n", kernel.Port(out).Transmitted())
	fmt.Println(out.Reap(), umem.Ledger().Free)
	// Output:
	// empty
	// [hello]
	// 1 49
}

// user is our half of a socket without package queues in between, so that it can do
// what that would refuse.
type user struct {
	conn       queues.Conn
	port       *ringtest.Port
	fill       queues.Producer[uint64]
	rx         queues.Consumer[queues.Desc]
	tx         queues.Producer[queues.Desc]
	completion queues.Consumer[uint64]
}

func newUser(t *testing.T, k *ringtest.Kernel) *user {
	t.Helper()
	area, _, err := k.Map(64 * 2048)
	require.NoError(t, err)
	conn, err := k.Socket(queues.SocketSpec{Area: area, FrameSize: 2048, NumFill: 16, NumCompletion: 16, NumRX: 8, NumTX: 16})
	require.NoError(t, err)
	require.NoError(t, conn.Bind(queues.Binding{Ifindex: 1, Flags: unix.XDP_USE_NEED_WAKEUP}))
	r := conn.Rings()
	return &user{
		conn: conn, port: k.PortAt(1, 0),
		fill: queues.NewProducer(r.Fill), rx: queues.NewConsumer(r.RX),
		tx: queues.NewProducer(r.TX), completion: queues.NewConsumer(r.Completion),
	}
}

func (u *user) lend(addrs ...uint64) {
	for _, a := range addrs {
		at, _ := u.fill.Reserve(1)
		*u.fill.At(at) = a
		u.fill.Submit(1)
	}
}

func (u *user) send(ds ...queues.Desc) {
	for _, d := range ds {
		at, _ := u.tx.Reserve(1)
		*u.tx.At(at) = d
		u.tx.Submit(1)
	}
}

func TestKernelDropsAndCountsAsTheRealOne(t *testing.T) {
	u := newUser(t, ringtest.New(ringtest.Config{FirstIndex: math.MaxUint32 - 1}))
	frame := make([]byte, 60)
	require.Zero(t, u.port.Inject(frame), "Fill is empty")
	u.lend(1<<40, 0) // the first is skipped
	require.Equal(t, 1, u.port.Inject(frame, make([]byte, 2048)), "the second is too large")
	for i := range uint64(8) {
		u.lend((i + 1) * 2048)
	}
	for range 7 {
		require.Equal(t, 1, u.port.Inject(frame))
	}
	require.Zero(t, u.port.Inject(frame), "RX is full")
	st, err := u.conn.Statistics()
	require.NoError(t, err)
	require.Equal(t, queues.Statistics{RXDropped: 2, RXInvalidDescs: 1, RXRingFull: 1, RXFillRingEmptyDescs: 1}, st)
}

func TestKernelSkipsBadTX(t *testing.T) {
	u := newUser(t, ringtest.New(ringtest.Config{}))
	u.send(
		queues.Desc{Addr: 64 * 2048, Len: 60},
		queues.Desc{Addr: 2000, Len: 60},
		queues.Desc{Addr: 0},
		queues.Desc{Addr: 0, Len: 60, Options: 1},
		queues.Desc{Addr: 4096, Len: 60},
	)
	require.Zero(t, u.conn.Kick())
	require.Equal(t, 1, u.port.NumTransmitted())
	require.Equal(t, 1, u.completion.Waiting(), "the others never complete")
	st, err := u.conn.Statistics()
	require.NoError(t, err)
	require.EqualValues(t, 4, st.TXInvalidDescs)
}

func TestKernelSendsABatchPerKick(t *testing.T) {
	u := newUser(t, ringtest.New(ringtest.Config{}))
	u.port.SetKickLimit(2)
	for i := range uint64(3) {
		u.send(queues.Desc{Addr: i * 2048, Len: 60})
	}
	require.Equal(t, unix.EAGAIN, u.conn.Kick())
	require.Zero(t, u.conn.Kick())
	u.send(queues.Desc{Addr: 0, Len: 60}, queues.Desc{Addr: 2048, Len: 60})
	u.port.ScriptKicks(unix.EBUSY, unix.EINTR)
	require.Equal(t, unix.EBUSY, u.conn.Kick())
	require.Equal(t, unix.EINTR, u.conn.Kick())
	require.Equal(t, 1, u.port.TXLen())
	require.Equal(t, 3, u.port.NumTransmitted(), "the one of EBUSY was dropped")
	require.Equal(t, 4, u.completion.Waiting(), "but completes")
}

func TestAuditFindsFramesLentTwice(t *testing.T) {
	for _, test := range []struct {
		name string
		lend func(u *user)
	}{
		{"twice in Fill", func(u *user) { u.lend(0, 100) }},
		{"in Fill and TX", func(u *user) { u.lend(0); u.send(queues.Desc{Addr: 0, Len: 60}) }},
		{"in flight and in Fill", func(u *user) {
			u.port.HoldCompletions(true)
			u.send(queues.Desc{Addr: 0, Len: 60})
			u.conn.Kick()
			u.lend(0)
		}},
		{"sent twice", func(u *user) {
			u.port.HoldCompletions(true)
			u.send(queues.Desc{Addr: 0, Len: 60}, queues.Desc{Addr: 10, Len: 60})
			u.conn.Kick()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := ringtest.New(ringtest.Config{})
			u := newUser(t, k)
			test.lend(u)
			require.ErrorContains(t, k.Audit(queues.Ledger{Receive: 2}), "twice")
		})
	}
	k := ringtest.New(ringtest.Config{})
	newUser(t, k).lend(0, 2048)
	require.NoError(t, k.Audit(queues.Ledger{Receive: 2}))
	require.ErrorContains(t, k.Audit(queues.Ledger{Receive: 1}), "the kernel has 2 frames, the ledger says 1")
}

func TestBindRules(t *testing.T) {
	k := ringtest.New(ringtest.Config{})
	first := newUser(t, k)
	spec := queues.SocketSpec{FrameSize: 2048, NumFill: 16, NumCompletion: 16, NumRX: 8}
	bind := func(spec queues.SocketSpec, b queues.Binding) error {
		conn, err := k.Socket(spec)
		require.NoError(t, err)
		err = conn.Bind(b)
		if err != nil {
			require.NoError(t, conn.Close())
		}
		return err
	}
	shared := queues.Binding{Ifindex: 1, Queue: 1, Flags: unix.XDP_SHARED_UMEM, SharedFD: first.conn.FD()}
	with := func(change func(*queues.Binding)) queues.Binding {
		b := shared
		change(&b)
		return b
	}
	require.ErrorIs(t, bind(spec, with(func(b *queues.Binding) { b.Flags |= unix.XDP_COPY })), unix.EINVAL)
	require.ErrorIs(t, bind(spec, with(func(b *queues.Binding) { b.Flags = 0 })), unix.EINVAL, "no UMEM")
	require.ErrorIs(t, bind(spec, with(func(b *queues.Binding) { b.SharedFD++ })), unix.EBADF)
	require.ErrorIs(t, bind(spec, with(func(b *queues.Binding) { b.Queue = 0 })), unix.EINVAL, "the same queue")
	registering := spec
	registering.Area = make([]byte, 64*2048)
	require.ErrorIs(t, bind(registering, shared), unix.EINVAL, "has a UMEM of its own")
	require.NoError(t, bind(spec, shared))
	require.ErrorIs(t, bind(spec, shared), unix.EBUSY)
	k.RemoveDevice(1)
	require.ErrorIs(t, bind(spec, with(func(b *queues.Binding) { b.Queue = 2 })), unix.ENODEV)
	require.ErrorIs(t, bind(spec, with(func(b *queues.Binding) { b.Ifindex = 2 })), unix.EBADF)
	require.Equal(t, unix.ENXIO, first.conn.Kick())
	require.Equal(t, unix.ENXIO, first.conn.Wake())
	require.ErrorIs(t, first.conn.TakeError(), unix.ENETDOWN)
	require.NoError(t, first.conn.TakeError(), "once")
}
