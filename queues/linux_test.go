package queues_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
	"weir/queues"
)

// holdQueue makes the test binary a process that holds queue 0 of the interface with
// this index until its standard input ends.
const holdQueue = "QUEUES_TEST_HOLD"

func TestMain(m *testing.M) {
	if ifindex, err := strconv.Atoi(os.Getenv(holdQueue)); err == nil {
		hold(ifindex)
		return
	}
	os.Exit(nettest.Main(m))
}

func hold(ifindex int) {
	u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: 64, FrameSize: 2048})
	if err == nil {
		_, err = u.Open(queues.SocketConfig{Ifindex: ifindex, NumRX: 64, NumFill: 64, NumCompletion: 64})
	}
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("holding\n")
	io.Copy(io.Discard, os.Stdin)
}

// etherType of the frames of these tests: local experimental (IEEE 802), so that no
// other packet of a namespace is taken for one.
const etherType = 0x88b5

// writeFrame makes a frame of buf with a number in it and bytes that depend on it.
func writeFrame(buf []byte, number uint64) {
	copy(buf, "\x02\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x02")
	binary.BigEndian.PutUint16(buf[12:], etherType)
	binary.BigEndian.PutUint64(buf[14:], number)
	for i := 22; i < len(buf); i++ {
		buf[i] = byte(number>>(8*(i%4))) ^ byte(i)
	}
}

// cable is a pair of namespaces with veths between them.
type cable struct {
	near, far *nettest.NS
}

func newCable(t *testing.T) cable {
	t.Helper()
	nettest.RequirePrivilege(t)
	near, err := nettest.NewNS("queues-near")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, near.Close()) })
	far, err := nettest.NewNS("queues-far")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, far.Close()) })
	return cable{near, far}
}

// veth makes the link near and its peer far, numRX receive and numTX transmit queues
// on each.
func (c cable) veth(t *testing.T, near, far string, numRX, numTX int) {
	t.Helper()
	end := nettest.VethEnd{NumRX: numRX, NumTX: numTX}
	require.NoError(t, nettest.Veth(c.near, near, c.far, far, nettest.VethOptions{A: end, B: end}))
	require.NoError(t, c.near.Up(near))
	require.NoError(t, c.far.Up(far))
	require.NoError(t, c.near.Ready(near))
}

func ifindex(t *testing.T, ns *nettest.NS, name string) int {
	t.Helper()
	l, err := ns.Link(name)
	require.NoError(t, err)
	return l.Attrs().Index
}

// openIn opens a socket from inside a namespace.
func openIn(ns *nettest.NS, u *queues.UMEM, c queues.SocketConfig) (s *queues.Socket, err error) {
	err = ns.Do(func() error {
		s, err = u.Open(c)
		return err
	})
	return s, err
}

func mustOpen(t *testing.T, ns *nettest.NS, u *queues.UMEM, c queues.SocketConfig) *queues.Socket {
	t.Helper()
	s, err := openIn(ns, u, c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// config is a socket with rings of 256.
func config(name string, queue int) queues.SocketConfig {
	return queues.SocketConfig{
		Interface: name, Queue: queue,
		NumRX: 256, NumTX: 256, NumFill: 256, NumCompletion: 256, FillDepth: 128,
	}
}

func linuxUMEM(t *testing.T, numFrames int) *queues.UMEM {
	t.Helper()
	u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: numFrames, FrameSize: 2048, PanicOnMisuse: true})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, u.Audit())
		require.NoError(t, u.Close())
	})
	return u
}

// redirect attaches a program that takes the frames of these tests to the sockets of
// the interface by their receive queue, and passes everything else.
func redirect(t *testing.T, ns *nettest.NS, name string, sockets ...*queues.Socket) {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.XSKMap, KeySize: 4, ValueSize: 4, MaxEntries: 16})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	const data, dataEnd, rxQueue, pass = 0, 4, 16, 2
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:    ebpf.XDP,
		License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R2, asm.R1, data, asm.Word),
			asm.LoadMem(asm.R3, asm.R1, dataEnd, asm.Word),
			asm.Mov.Reg(asm.R4, asm.R2),
			asm.Add.Imm(asm.R4, 14),
			asm.JGT.Reg(asm.R4, asm.R3, "pass"),
			asm.LoadMem(asm.R4, asm.R2, 12, asm.Half),
			asm.HostTo(asm.BE, asm.R4, asm.Half),
			asm.JNE.Imm(asm.R4, etherType, "pass"),
			asm.LoadMem(asm.R2, asm.R1, rxQueue, asm.Word),
			asm.LoadMapPtr(asm.R1, m.FD()),
			asm.Mov.Imm(asm.R3, pass),
			asm.FnRedirectMap.Call(),
			asm.Return(),
			asm.Mov.Imm(asm.R0, pass).WithSymbol("pass"),
			asm.Return(),
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, program.Close()) })
	for _, s := range sockets {
		require.NoError(t, m.Put(uint32(s.Queue()), uint32(s.FD())))
	}
	index := ifindex(t, ns, name)
	require.NoError(t, ns.Do(func() error {
		l, err := link.AttachXDP(link.XDPOptions{Program: program, Interface: index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { l.Close() })
		}
		return err
	}))
}

// sendNumbered sends frames numbered from first and returns how many TX took.
func sendNumbered(t *testing.T, u *queues.UMEM, s *queues.Socket, first uint64, n, size int) int {
	t.Helper()
	sent := 0
	for ; sent < n; sent++ {
		addr, ok := u.Alloc()
		if !ok {
			break
		}
		d := queues.Desc{Addr: addr, Len: uint32(size)}
		writeFrame(u.Data(d), first+uint64(sent))
		if s.Send([]queues.Desc{d}) == 0 {
			u.Free(addr)
			break
		}
	}
	return sent
}

// drain kicks and reaps until nothing is in transmission.
func drain(t *testing.T, s *queues.Socket) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.Kick()
		s.Reap()
		return s.TXLen() == 0
	}, 5*time.Second, time.Millisecond)
}

func TestLinuxOpenAndClose(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 2048)
	require.Contains(t, []string{"2 MiB", "4 KiB"}, u.Pages())

	s, err := openIn(c.near, u, config("n0", 0))
	require.NoError(t, err)
	require.Equal(t, queues.Copy, s.Mode(), "veth has no zero copy")
	require.Contains(t, []int{0, 256}, s.TXBudget())
	require.Equal(t, queues.Ledger{Free: 2048 - 128, Receive: 128, Total: 2048}, u.Ledger())
	require.ErrorIs(t, u.Close(), queues.ErrInUse)

	_, err = openIn(c.near, u, config("n0", 0))
	require.ErrorIs(t, err, queues.ErrInUse)
	require.EqualError(t, err, "open n0 queue 0: in use by this UMEM: close that socket first")

	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice does nothing")
	require.Zero(t, s.Pending()+s.Reap()+s.TXUnsent(), "the rings are unmapped, and not touched")
	require.Equal(t, queues.Ledger{Free: 2048, Total: 2048}, u.Ledger())
	require.NoError(t, u.Audit())
}

func TestLinuxRefusals(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 256)
	for _, test := range []struct {
		name   string
		change func(*queues.SocketConfig)
		is     error
		says   string
	}{
		{"no such interface", func(c *queues.SocketConfig) { c.Interface = "n7" }, unix.ENODEV, "open n7 queue 0: no such device"},
		{"no such queue", func(c *queues.SocketConfig) { c.Queue = 5 }, unix.EINVAL, "bind n0 queue 5: invalid argument: the interface may not have queue 5"},
		{"no zero copy", func(c *queues.SocketConfig) { c.Mode = queues.ZeroCopy }, unix.EOPNOTSUPP, "bind n0 queue 0: operation not supported: the driver cannot do zero copy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := config("n0", 0)
			test.change(&cfg)
			_, err := openIn(c.near, u, cfg)
			require.ErrorIs(t, err, test.is)
			require.ErrorContains(t, err, test.says)
			require.Equal(t, queues.Ledger{Free: 256, Total: 256}, u.Ledger())
			require.NoError(t, u.Audit())
		})
	}
}

func TestLinuxRebindRightAfterClose(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 512)
	for range 20 {
		s, err := openIn(c.near, u, config("n0", 0))
		require.NoError(t, err)
		require.NoError(t, s.Close())
		require.Equal(t, 512, u.NumFree())
	}
}

func TestLinuxBusyQueueNamesItsHolder(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := c.near.Command(context.Background(), self)
	cmd.Env = append(os.Environ(), holdQueue+"="+strconv.Itoa(ifindex(t, c.near, "n0")))
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.near.Start(cmd))
	t.Cleanup(func() {
		stdin.Close()
		cmd.Wait()
	})
	said := make([]byte, 256)
	n, err := stdout.Read(said)
	require.NoError(t, err)
	require.Equal(t, "holding\n", string(said[:n]))

	u := linuxUMEM(t, 256)
	cfg := config("n0", 0)
	cfg.BindTimeout = 20 * time.Millisecond
	_, err = openIn(c.near, u, cfg)
	require.ErrorIs(t, err, unix.EBUSY)
	require.ErrorContains(t, err, "bind n0 queue 0: device or resource busy (tried for 20ms; AF_XDP sockets are open in pid "+strconv.Itoa(cmd.Process.Pid))
	require.Equal(t, 256, u.NumFree())

	// Killed, it needs no cleaning up: the queue is free as soon as the kernel is done.
	require.NoError(t, cmd.Process.Kill())
	s := mustOpen(t, c.near, u, config("n0", 0))
	require.Equal(t, 10, sendNumbered(t, u, s, 0, 10, 60))
	drain(t, s)
}

// The forwarder is one UMEM with two interfaces of two queues each:
//
//	generator ── f0 ══ n0 ── forwarder ── n1 ══ f1 ── receiver
func TestLinuxNumberedPayloads(t *testing.T) {
	total := uint64(1_000_000)
	if testing.Short() {
		total = 50_000
	}
	t.Run("2048", func(t *testing.T) { numberedPayloads(t, 2048, total, func(uint64) int { return 64 }) })
	t.Run("4096", func(t *testing.T) {
		numberedPayloads(t, 4096, total/10, func(number uint64) int { return 60 + int(number*7%1455) })
	})
}

func numberedPayloads(t *testing.T, frameSize int, total uint64, size func(number uint64) int) {
	const numQueues, window = 2, 64
	c := newCable(t)
	c.veth(t, "n0", "f0", numQueues, numQueues)
	c.veth(t, "n1", "f1", numQueues, numQueues)
	newUMEM := func(numFrames int) *queues.UMEM {
		u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: numFrames, FrameSize: frameSize, PanicOnMisuse: true})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, u.Close()) })
		return u
	}
	generator, forwarder, receiver := newUMEM(1024), newUMEM(2048), newUMEM(1024)
	var from, in, out, to [numQueues]*queues.Socket
	for q := range numQueues {
		from[q] = mustOpen(t, c.far, generator, config("f0", q))
		in[q] = mustOpen(t, c.near, forwarder, config("n0", q))
		out[q] = mustOpen(t, c.near, forwarder, config("n1", q))
		to[q] = mustOpen(t, c.far, receiver, config("f1", q))
	}
	redirect(t, c.near, "n0", in[:]...)
	redirect(t, c.far, "f1", to[:]...)

	var sent, received uint64
	next := [numQueues]uint64{0, 1} // queue q carries the numbers q, q+2, q+4...
	buf := make([]byte, frameSize)
	batch := make([]queues.Desc, window)
	for deadline := time.Now().Add(2 * time.Minute); received < total && time.Now().Before(deadline); {
		// Never more on the way than the smallest ring of the way holds.
		for ; sent < total && sent-received < window; sent++ {
			if sendNumbered(t, generator, from[sent%numQueues], sent, 1, size(sent)) == 0 {
				break
			}
		}
		for q := range numQueues {
			from[q].Kick()
			from[q].Reap()

			n := in[q].Receive(batch)
			require.Equal(t, n, out[q].Send(batch[:n]))
			out[q].Kick()
			out[q].Reap()
			in[q].Refill()

			n = to[q].Receive(batch)
			for _, d := range batch[:n] {
				want := buf[:size(next[q])]
				writeFrame(want, next[q])
				if got := receiver.Data(d); !bytes.Equal(want, got) {
					require.Equal(t, want, got, "packet %d on queue %d", next[q], q)
				}
				next[q] += numQueues
				receiver.Free(d.Addr)
			}
			received += uint64(n)
			to[q].Refill()
		}
	}
	require.Equal(t, total, received)
	for q := range numQueues {
		drain(t, from[q])
		drain(t, out[q])
	}
	for _, u := range []*queues.UMEM{generator, forwarder, receiver} {
		require.NoError(t, u.Audit())
		l := u.Ledger()
		require.Equal(t, l.Total, l.Sum())
		require.Equal(t, l.Total, l.Free+l.Receive)
	}
}

func TestLinuxDeviceDownAndUp(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 512)
	s := mustOpen(t, c.near, u, config("n0", 0))

	require.NoError(t, c.near.Down("n0"))
	require.Equal(t, 10, sendNumbered(t, u, s, 0, 10, 60))
	require.Equal(t, queues.KickDown, s.Kick())
	require.Equal(t, queues.StateDown, s.State())
	require.Equal(t, unix.ENETDOWN, s.LastErrno())
	require.Equal(t, 10, s.TXUnsent())
	require.Equal(t, queues.Ledger{Free: 374, Receive: 128, Transmit: 10, Total: 512}, u.Ledger())
	require.NoError(t, u.Audit())

	require.NoError(t, c.near.Up("n0"))
	require.NoError(t, c.near.Ready("n0"))
	drain(t, s)
	require.Equal(t, queues.StateBound, s.State())
	require.Equal(t, queues.Ledger{Free: 384, Receive: 128, Total: 512}, u.Ledger())
}

func TestLinuxOpenOnDeviceThatIsDown(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	require.NoError(t, c.near.Down("n0"))
	u := linuxUMEM(t, 512)
	s := mustOpen(t, c.near, u, config("n0", 0))
	require.NoError(t, c.near.Up("n0"))
	require.NoError(t, c.near.Ready("n0"))
	require.Equal(t, 10, sendNumbered(t, u, s, 0, 10, 60))
	drain(t, s)
}

func TestLinuxDeviceDeleted(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	c.veth(t, "n1", "f1", 1, 1)
	u := linuxUMEM(t, 1024)
	first, err := openIn(c.near, u, config("n0", 0))
	require.NoError(t, err)
	second := mustOpen(t, c.near, u, config("n1", 0))

	require.NoError(t, c.near.Down("n0"))
	require.Equal(t, 10, sendNumbered(t, u, first, 0, 10, 60))
	require.Equal(t, queues.KickDown, first.Kick())
	require.NoError(t, c.near.Delete("n0"))
	require.Equal(t, queues.StateGone, first.Check(), "SO_ERROR says so")
	require.Equal(t, queues.KickGone, first.Kick())
	require.Equal(t, queues.Ledger{Free: 1024 - 128 - 138, Receive: 128, Stranded: 138, Total: 1024}, u.Ledger())
	require.NoError(t, u.Audit())

	// The socket that registered the UMEM is gone; its sibling serves.
	c.veth(t, "n0", "f0", 1, 1)
	again := mustOpen(t, c.near, u, config("n0", 0))
	require.NoError(t, first.Close())
	require.EqualValues(t, 10, first.Counters().TXAbandoned)
	require.Equal(t, queues.Ledger{Free: 1024 - 256, Receive: 256, Total: 1024}, u.Ledger())
	for _, s := range []*queues.Socket{again, second} {
		require.Equal(t, 10, sendNumbered(t, u, s, 0, 10, 60))
		drain(t, s)
	}
}

// Nobody has noticed that the devices of all open sockets are gone when another is
// opened: it registers the UMEM anew.
func TestLinuxAllDevicesDeletedUnnoticed(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	c.veth(t, "n1", "f1", 1, 1)
	u := linuxUMEM(t, 1024)
	first := mustOpen(t, c.near, u, config("n0", 0))
	second := mustOpen(t, c.near, u, config("n1", 0))
	require.NoError(t, c.near.Delete("n0"))
	require.NoError(t, c.near.Delete("n1"))
	c.veth(t, "n2", "f2", 1, 1)
	third := mustOpen(t, c.near, u, config("n2", 0))
	require.Equal(t, queues.StateGone, first.State())
	require.Equal(t, queues.StateGone, second.State())
	require.Equal(t, queues.Ledger{Free: 1024 - 3*128, Receive: 128, Stranded: 256, Total: 1024}, u.Ledger())
	require.Equal(t, 10, sendNumbered(t, u, third, 0, 10, 60))
	drain(t, third)
}

func TestLinuxReceiveOnly(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 512)
	cfg := config("n0", 0)
	cfg.NumTX = 0
	s := mustOpen(t, c.near, u, cfg)
	redirect(t, c.near, "n0", s)
	far, err := c.far.OpenPacket("f0")
	require.NoError(t, err)
	defer far.Close()

	frame := make([]byte, 60)
	writeFrame(frame, 7)
	require.NoError(t, far.Send(frame))
	got := make([]queues.Desc, 4)
	require.Eventually(t, func() bool { return s.Pending() == 1 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 1, s.Receive(got))
	require.Equal(t, frame, u.Data(got[0]))
	require.Zero(t, got[0].Addr%2048-queues.RXHeadroom, "the kernel leaves its headroom")

	require.Zero(t, s.Send(got[:1]), "no TX ring: the frame stays held")
	require.Zero(t, s.TXFree())
	require.Equal(t, queues.KickEmpty, s.Kick())
	u.Free(got[0].Addr)
	require.Equal(t, 1, s.Refill())
}

// A Fill ring that ran empty, and an RX ring that ran full: what the kernel counts,
// and that the queue goes on afterwards.
func TestLinuxStarvationAndStatistics(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 512)
	cfg := config("n0", 0)
	cfg.NumRX, cfg.FillDepth = 16, 8
	s := mustOpen(t, c.near, u, cfg)
	redirect(t, c.near, "n0", s)
	far, err := c.far.OpenPacket("f0")
	require.NoError(t, err)
	defer far.Close()
	frame := make([]byte, 60)
	send := func(n int) {
		for range n {
			require.NoError(t, far.Send(frame))
		}
	}
	statistics := func() queues.Statistics {
		st, err := s.Statistics()
		require.NoError(t, err)
		return st
	}
	writeFrame(frame, 1)

	send(12)
	require.Eventually(t, func() bool { return statistics().RXFillRingEmptyDescs >= 4 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 8, s.Pending())
	require.EqualValues(t, 4, statistics().RXDropped, "counted twice: as empty Fill and as dropped")

	batch := make([]queues.Desc, 64)
	free := func() int {
		n := s.Receive(batch)
		for _, d := range batch[:n] {
			u.Free(d.Addr)
		}
		return n
	}
	require.Equal(t, 8, free())
	require.Equal(t, 64, s.SetFillDepth(64))
	require.Equal(t, 64, s.Refill())
	send(20)
	require.Eventually(t, func() bool { return statistics().RXRingFull == 4 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 16, s.Pending())
	require.EqualValues(t, 4, statistics().RXDropped, "a full RX is not counted here")
	require.Equal(t, 16, free())
	require.Equal(t, 16, s.Refill())
	send(10)
	require.Eventually(t, func() bool { return s.Pending() == 10 }, 5*time.Second, time.Millisecond)
	require.Equal(t, 10, free())
}

// A queue beyond the device's transmit queues takes what it is sent and sends none of
// it, without an error: that is why such a queue is opened with NumTX 0.
func TestLinuxMoreReceiveThanTransmitQueues(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 2, 1)
	u := linuxUMEM(t, 512)
	s := mustOpen(t, c.near, u, config("n0", 1))
	require.Equal(t, 10, sendNumbered(t, u, s, 0, 10, 60))
	require.Equal(t, queues.KickPending, s.Kick())
	require.Equal(t, 10, s.TXUnsent())
}

// A burst into a small ring, with no more than the ring in one Kick: everything
// leaves, in order, whatever the kernel's batch is.
func TestLinuxFullRingLeavesInOneKick(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 1024)
	s := mustOpen(t, c.near, u, config("n0", 0))
	for range 10 {
		require.Equal(t, 256, sendNumbered(t, u, s, 0, 300, 60))
		require.Zero(t, s.TXFree())
		for s.Kick() == queues.KickPending {
			s.Reap()
		}
		drain(t, s)
	}
}

// What Close waits for in zero-copy mode, which no veth has: here it waits for a
// socket in copy mode, whose queue is let go of in the same way.
func TestLinuxProbe(t *testing.T) {
	c := newCable(t)
	c.veth(t, "n0", "f0", 1, 1)
	u := linuxUMEM(t, 512)
	index := ifindex(t, c.near, "n0")
	newProbe := func() (wait func(time.Duration) error, closeProbe func() error) {
		require.NoError(t, c.near.Do(func() (err error) {
			wait, closeProbe, err = queues.NewProbe(index, 0)
			return err
		}))
		return wait, closeProbe
	}
	for range 5 {
		s, err := openIn(c.near, u, config("n0", 0))
		require.NoError(t, err)
		wait, closeProbe := newProbe()
		require.ErrorIs(t, wait(10*time.Millisecond), unix.EBUSY)
		require.NoError(t, s.Close())
		require.NoError(t, wait(5*time.Second), "from outside the namespace")
		require.NoError(t, closeProbe())
	}
	wait, closeProbe := newProbe()
	require.NoError(t, c.near.Delete("n0"))
	require.NoError(t, wait(0), "a device that is gone holds nothing")
	require.NoError(t, closeProbe())
}

// Each missing right is one line that says which, and nothing stays behind.
func TestLinuxMissingRights(t *testing.T) {
	nettest.RequirePrivilege(t)
	for _, test := range []struct {
		name       string
		capability uint
		is         error
		says       string
	}{
		{"CAP_NET_RAW", unix.CAP_NET_RAW, unix.EPERM, "open lo queue 0: socket AF_XDP: operation not permitted: CAP_NET_RAW is needed"},
		{"locked memory", unix.CAP_IPC_LOCK, unix.ENOBUFS,
			"open lo queue 0: register UMEM: no buffer space available (locked-memory limit): raise RLIMIT_MEMLOCK by 524288 bytes, or grant CAP_IPC_LOCK"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := linuxUMEM(t, 256)
			var before unix.Rlimit
			require.NoError(t, unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before))
			require.NoError(t, unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: 4096, Max: before.Max}))
			defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before)
			done := make(chan error)
			go func() {
				runtime.LockOSThread() // and never unlocked: the thread ends with what it gave up
				if err := dropCapability(test.capability); err != nil {
					done <- err
					return
				}
				cfg := config("lo", 0)
				cfg.Ifindex = 1
				_, err := u.Open(cfg)
				done <- err
			}()
			err := <-done
			require.ErrorIs(t, err, test.is)
			require.EqualError(t, err, test.says)
			require.Equal(t, 256, u.NumFree())
		})
	}
}

// dropCapability takes a capability from the calling thread.
func dropCapability(capability uint) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[capability/32].Effective &^= 1 << (capability % 32)
	return unix.Capset(&header, &data[0])
}
