package engine

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/engine/fib"
	"weir/internal/nettest"
	"weir/poller"
	"weir/queues"
	"weir/queues/ringtest"
)

// numbered returns n frames from portIn to portOut that differ, and what leaves at portOut.
func numbered(first, n int) (in, out [][]byte) {
	for i := first; i < first+n; i++ {
		h := probe(nettest.AddrD0.String())
		body := append(slices.Clone(payload), byte(i>>8), byte(i))
		in = append(in, nettest.Ethernet(nettest.MACr0, nettest.MACs0, h.UDP(1, 9, body)))
		h.TTL--
		out = append(out, nettest.Ethernet(nettest.MACd0, nettest.MACr1, h.UDP(1, 9, body)))
	}
	return in, out
}

// sameFrames compares frames and tells the first that differs, not all of them.
func sameFrames(t *testing.T, want, got [][]byte, message ...any) {
	t.Helper()
	for i := range min(len(want), len(got)) {
		if !bytes.Equal(want[i], got[i]) {
			require.Equal(t, fmt.Sprintf("%d: %x", i, want[i]), fmt.Sprintf("%d: %x", i, got[i]), message...)
		}
	}
	require.Equal(t, len(want), len(got), message...)
}

// bothWays are the UMEM layouts and ring positions that must make no difference.
var bothWays = []struct {
	name    string
	options rigOptions
}{
	{"one UMEM", rigOptions{}},
	{"two UMEMs", rigOptions{split: true}},
	{"a TX budget", rigOptions{kernel: ringtest.Config{TXBudget: true}}},
	{"zero copy", rigOptions{kernel: ringtest.Config{ZeroCopy: true}}},
	{"indices that wrap", rigOptions{kernel: ringtest.Config{FirstIndex: math.MaxUint32 - 100}}},
	{"two UMEMs, indices that wrap", rigOptions{split: true, kernel: ringtest.Config{FirstIndex: math.MaxUint32 - 100}}},
	{"no early discard", rigOptions{noDiscard: true}},
}

func TestWorkerForwards(t *testing.T) {
	for _, w := range bothWays {
		t.Run(w.name, func(t *testing.T) {
			r := newRig(t, w.options)
			r.rest()
			for turn := range 40 {
				in, out := numbered(turn*20, 20)
				require.Equal(t, 20, r.arrive(portIn, in...))
				r.rest()
				sameFrames(t, out, r.ports[portOut].wire.Transmitted())
			}
			require.Empty(t, r.ports[portIn].wire.Transmitted())
			require.EqualValues(t, 800, r.ports[portIn].source.read(int(forwarded)))
			require.EqualValues(t, 800, r.ports[portIn].source.read(sourceReceived))
			require.EqualValues(t, 800, r.ports[portOut].egress.read(egressSent))
			require.EqualValues(t, 800, r.ports[portOut].egress.read(egressCompleted))
			require.Empty(t, r.ports[portIn].drops())
			require.Zero(t, r.worker.inFlight())
			require.NoError(t, r.worker.broken())
			r.close()
		})
	}
}

// Every frame that forward has a case for, through the worker: the same bytes, the same counter.
func TestWorkerAgreesWithForward(t *testing.T) {
	for _, offloads := range []bool{false, true} {
		for _, split := range []bool{false, true} {
			r := newRig(t, rigOptions{offloads: offloads, split: split})
			r.rest()
			want := map[Reason]uint64{}
			for _, c := range forwardCases() {
				if len(c.frame) == 0 || c.partial != offloads {
					continue
				}
				require.Equal(t, 1, r.arrive(portIn, c.frame))
				r.rest()
				var sent [][]byte
				for i := range r.ports {
					sent = append(sent, r.ports[i].wire.Transmitted()...)
				}
				if c.reason == forwarded {
					sameFrames(t, [][]byte{c.out}, sent, c.name)
				} else {
					require.Empty(t, sent, c.name)
					want[c.reason]++
				}
				require.Equal(t, want, r.ports[portIn].drops(), c.name)
			}
			require.Empty(t, r.ports[portOut].drops())
			r.close()
		}
	}
}

func TestWorkerForwardsBothDirectionsAtOnce(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	there, thereOut := numbered(0, 30)
	h := nettest.NewIP(nettest.AddrD0, nettest.AddrS0)
	back := nettest.Ethernet(nettest.MACr1, nettest.MACd0, udp(h))
	h.TTL--
	require.Equal(t, 30, r.arrive(portIn, there...))
	require.Equal(t, 1, r.arrive(portOut, back))
	r.rest()
	sameFrames(t, thereOut, r.ports[portOut].wire.Transmitted())
	sameFrames(t, [][]byte{nettest.Ethernet(nettest.MACs0, nettest.MACr0, udp(h))}, r.ports[portIn].wire.Transmitted())
	r.close()
}

func TestWorkerTakesItsQuota(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Ports[0].Quota = 7 }})
	r.rest()
	in, _ := numbered(0, 20)
	require.Equal(t, 20, r.arrive(portIn, in...))
	for _, left := range []int{13, 6, 0} {
		r.round()
		require.Equal(t, left, r.ports[portIn].sock.Pending())
	}
	status := r.worker.sched.Receivers(nil)[0]
	require.EqualValues(t, 7, status.Counters.LargestTurn)
	require.EqualValues(t, 2, status.Counters.Turns[poller.EndQuota])
	require.Zero(t, status.Counters.OverLimit)
	r.rest()
	r.close()
}

// A turn longer than the batch array is several batches.
func TestWorkerTakesMoreThanABatch(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) {
		c.Poller.Quota = poller.Unlimited
		c.Rings = Rings{RX: 512, TX: 512, Fill: 512, Completion: 512, FillDepth: 512, Backlog: 512}
	}})
	r.rest()
	in, out := numbered(0, 300)
	require.Equal(t, 300, r.arrive(portIn, in...))
	r.round()
	require.Zero(t, r.ports[portIn].sock.Pending())
	require.EqualValues(t, 300, r.worker.sched.Counters().Received)
	r.rest()
	sameFrames(t, out, r.ports[portOut].wire.Transmitted())
	r.close()
}

// A turn without a quota ends, though packets keep coming as fast as they are taken.
func TestWorkerEndsATurnUnderOverload(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) {
		c.Poller.Quota = poller.Unlimited
		c.Rings = Rings{RX: 512, TX: 512, Fill: 512, Completion: 512, FillDepth: 512, Backlog: 512}
	}})
	r.rest()
	in, _ := numbered(0, batchSize)
	more := 0
	require.Equal(t, batchSize, r.arrive(portIn, in...))
	r.table.looked = func() { more += r.arrive(portIn, in...) }
	r.round()
	r.table.looked = nil
	require.EqualValues(t, batchSize, r.worker.sched.Counters().Received)
	require.Equal(t, batchSize, more)
	r.rest()
	require.EqualValues(t, 2*batchSize, r.worker.sched.Counters().Received)
	r.close()
}

// A device that takes nothing closes the gate at the high mark, and opens it when it has drained to the low one.
func TestWorkerClosesAndOpensTheGate(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Feedback.Timeout = poller.Default().Watchdog * 100 }})
	p, out := r.ports[portIn], r.ports[portOut]
	r.rest()
	const capacity, high, low = 64, 48, 16
	require.Equal(t, capacity, out.egress.capacity)
	out.wire.SetKickErrno(unix.EAGAIN)
	in, leaving := numbered(0, 60)
	require.Equal(t, 1, r.arrive(portIn, in[0])) // from it the scheduler knows what the source feeds
	r.step()
	require.Equal(t, 59, r.arrive(portIn, in[1:]...))
	r.steps(5)
	require.Equal(t, high, out.egress.Len(), "no more is taken than there is room for below the mark")
	require.Equal(t, 12, p.sock.Pending())
	status := r.worker.sched.Receivers(nil)[0]
	require.Equal(t, poller.Feedback, status.Gate)
	require.NotZero(t, status.Counters.Turns[poller.EndGate])
	require.Negative(t, r.worker.driver.fds[p.source.slot].Fd, "its packets end no block")
	require.NotZero(t, r.worker.sched.Transmitters(nil)[portOut].Counters.TurnsMore)

	// The door is shut, and counts under the reason.
	before := p.doorCounters()
	require.Zero(t, r.arrive(portIn, in[0], in[1]))
	require.EqualValues(t, 2, p.doorCounters().DroppedGate[poller.Feedback.Index()]-before.DroppedGate[poller.Feedback.Index()])

	// Down to one above the low mark it stays shut.
	out.wire.SetKickErrno(0)
	out.wire.HoldCompletions(true)
	r.step()
	for waiting := high; waiting > low; waiting-- {
		require.Equal(t, waiting, out.egress.Len())
		require.Equal(t, poller.Feedback, r.worker.sched.Receivers(nil)[0].Gate, "%d waiting", waiting)
		require.Equal(t, 12, p.sock.Pending())
		require.Equal(t, 1, out.wire.Complete(1))
		r.step()
	}
	require.Zero(t, r.worker.sched.Receivers(nil)[0].Gate)
	require.Positive(t, r.worker.driver.fds[p.source.slot].Fd)
	require.Zero(t, p.sock.Pending())
	require.EqualValues(t, 1, r.worker.sched.Queues(nil)[portOut].Counters.OpenedLow)
	out.wire.HoldCompletions(false)
	out.wire.Complete(capacity)
	require.Equal(t, 1, r.arrive(portIn, in[0]))
	r.rest()
	sameFrames(t, append(leaving, leaving[0]), out.wire.Transmitted())
	require.Empty(t, p.drops())
	r.close()
}

// Without feedback what does not fit is dropped after work went into it, and counted.
func TestWorkerBacklogOverflows(t *testing.T) {
	for _, split := range []bool{false, true} {
		r := newRig(t, rigOptions{split: split, config: func(c *Config) { c.Feedback.Off = true }})
		r.rest()
		out := r.ports[portOut]
		out.wire.SetKickErrno(unix.ENOBUFS)
		in, leaving := numbered(0, 200)
		arrived := 0
		for n := range in {
			arrived += r.arrive(portIn, in[n])
			if n%10 == 9 {
				r.step()
			}
		}
		require.Equal(t, 200, arrived)
		r.steps(5)
		require.Equal(t, 64, out.egress.Len())
		require.Equal(t, map[Reason]uint64{DropBacklogFull: 200 - 64}, r.ports[portIn].drops())
		out.wire.SetKickErrno(0)
		r.rest()
		sameFrames(t, leaving[:64], out.wire.Transmitted())
		r.close()
	}
}

// A driver that sends by itself, as with zero copy, makes room while a turn runs: the backlog moves up before a packet is refused.
func TestWorkerDriverSendsMeanwhile(t *testing.T) {
	r := newRig(t, rigOptions{kernel: ringtest.Config{ZeroCopy: true}, config: func(c *Config) { c.Feedback.Off = true }})
	out := r.ports[portOut]
	r.rest()
	out.wire.SetNeedWakeup(false, false)
	in, leaving := numbered(0, 84)
	for _, part := range [][][]byte{in[:32], in[32:64]} {
		require.Equal(t, 32, r.arrive(portIn, part...))
		r.step()
	}
	require.Equal(t, 32, out.egress.backlog.len())
	require.Equal(t, 20, r.arrive(portIn, in[64:]...))
	r.table.looked = func() { require.Equal(t, 32, out.wire.Transmit(32)) }
	r.round()
	r.table.looked = nil
	require.Empty(t, r.ports[portIn].drops())
	for r.worker.inFlight() > 0 {
		out.wire.Transmit(32)
		r.step()
	}
	sameFrames(t, leaving, out.wire.Transmitted())
	r.close()
}

// Each errno of a kick: what it does to the packets, and that the worker goes on when it is over.
func TestWorkerKickErrors(t *testing.T) {
	for _, c := range []struct {
		errno   unix.Errno
		later   bool // the packets leave once the error is over
		queued  bool // only those in the TX ring do
		dropped bool // by the device, one for each kick
	}{
		{unix.EAGAIN, true, false, false}, {unix.ENOBUFS, true, false, false}, {unix.ENOMEM, true, false, false},
		{unix.EINTR, true, false, false}, {unix.EBUSY, false, false, true}, {unix.ENETDOWN, false, true, false},
	} {
		t.Run(unix.ErrnoName(c.errno), func(t *testing.T) {
			r := newRig(t, rigOptions{})
			out := r.ports[portOut]
			r.rest()
			out.wire.SetKickErrno(c.errno)
			in, leaving := numbered(0, 40)
			require.Equal(t, 40, r.arrive(portIn, in...))
			r.steps(3)
			require.Zero(t, out.wire.NumTransmitted())
			require.NoError(t, r.worker.broken())
			out.wire.SetKickErrno(0)
			r.steps(3)
			r.rest()
			sent := out.wire.Transmitted()
			switch {
			case c.later:
				sameFrames(t, leaving, sent)
			case c.queued:
				sameFrames(t, leaving[:32], sent)
				require.EqualValues(t, 8, out.egress.read(egressDropDown))
			case c.dropped:
				require.NotEmpty(t, sent)
				sameFrames(t, leaving[40-len(sent):], sent, "the first ones were dropped by the device")
				require.EqualValues(t, 40, out.egress.read(egressCompleted))
			}
			require.Zero(t, r.worker.inFlight())
			r.close()
		})
	}
}

func TestWorkerReportsAKickThatNobodyExpects(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	r.ports[portOut].wire.ScriptKicks(unix.EINVAL)
	in, _ := numbered(0, 40)
	require.Equal(t, 40, r.arrive(portIn, in...))
	r.step()
	require.ErrorIs(t, r.worker.broken(), unix.EINVAL)
	require.ErrorContains(t, r.worker.broken(), "transmit on out queue 0: ")
	require.EqualValues(t, 8, r.ports[portOut].egress.read(egressDropDown))
	r.check()
	r.close()
}

// A port that is down drops what is queued for it and holds up nobody else, even with a TX ring larger than the mark.
func TestWorkerEgressDownAndUp(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Rings.TX, c.Rings.Completion, c.Rings.Backlog = 64, 64, 8 }})
	out := r.ports[portOut]
	r.rest()
	out.wire.SetKickErrno(unix.EAGAIN)
	in, leaving := numbered(0, 50)
	require.Equal(t, 50, r.arrive(portIn, in...))
	r.step()
	require.Equal(t, 50, out.egress.Len())
	out.wire.SetKickErrno(0)
	out.kernel.SetDown(portOut+1, true)
	r.steps(3)
	require.Zero(t, out.egress.Len())
	require.Equal(t, 50, out.egress.inFlight(), "the TX ring keeps its own")
	require.Equal(t, 50, r.worker.inFlight())

	// Until the tables say so too, packets for it are dropped at the egress; other ports get theirs.
	h := nettest.NewIP(nettest.AddrD0, nettest.AddrS0)
	for range 10 {
		require.Equal(t, 1, r.arrive(portOut, nettest.Ethernet(nettest.MACr1, nettest.MACd0, udp(h))))
		require.Equal(t, 4, r.arrive(portIn, in[:4]...))
		r.steps(2)
	}
	require.Len(t, r.ports[portIn].wire.Transmitted(), 10)
	require.EqualValues(t, 50+40-64, out.egress.read(egressDropDown))
	for _, s := range r.worker.sched.Receivers(nil) {
		require.Zero(t, s.Gate)
		require.Zero(t, s.Counters.GateClosed[poller.Feedback.Index()])
	}

	// Up again, what was in the ring leaves without any packet to push it, within the longest block.
	out.kernel.SetDown(portOut+1, false)
	begin := r.now
	for r.worker.inFlight() > 0 {
		r.step()
		require.Less(t, r.now-begin, 2*maxBlock)
	}
	sameFrames(t, append(leaving, leaving[:4]...), out.wire.Transmitted()[:54])
	require.Equal(t, 4, r.arrive(portIn, in[:4]...))
	r.rest()
	sameFrames(t, leaving[:4], out.wire.Transmitted())
	r.close()
}

// A device that was removed: its packets are dropped, whether or not it was sending, and its frames come back with the socket.
func TestWorkerEgressGone(t *testing.T) {
	for _, sending := range []bool{false, true} {
		t.Run(fmt.Sprintf("sending=%v", sending), func(t *testing.T) {
			r := newRig(t, rigOptions{})
			out := r.ports[portOut]
			r.rest()
			in, _ := numbered(0, 40)
			if sending {
				out.wire.SetKickErrno(unix.EAGAIN)
				require.Equal(t, 40, r.arrive(portIn, in...))
				r.step()
			}
			out.kernel.RemoveDevice(portOut + 1)
			require.Equal(t, queues.StateGone, out.sock.Check())
			for range 20 {
				require.Equal(t, 10, r.arrive(portIn, in[:10]...))
				r.steps(2)
			}
			require.Zero(t, out.egress.backlog.len())
			require.Zero(t, out.egress.Len())
			require.EqualValues(t, 200, out.egress.read(egressDropDown)-map[bool]uint64{true: 8}[sending])
			require.Empty(t, r.ports[portIn].drops())
			require.NoError(t, r.worker.broken())
			r.close()
		})
	}
}

// Completions that come late, and one by one, cost nothing but time.
func TestWorkerLateCompletions(t *testing.T) {
	for _, w := range bothWays {
		t.Run(w.name, func(t *testing.T) {
			r := newRig(t, w.options)
			out := r.ports[portOut]
			r.rest()
			out.wire.HoldCompletions(true)
			in, leaving := numbered(0, 1000)
			sent := 0
			for range 20000 {
				if n := min(5, len(in)-sent); r.worker.inFlight() < 40 {
					sent += r.arrive(portIn, in[sent:sent+n]...)
				}
				r.step()
				out.wire.Complete(3)
				if sent == len(in) && r.worker.inFlight() == 0 {
					break
				}
			}
			out.wire.HoldCompletions(false)
			r.rest()
			sameFrames(t, leaving, out.wire.Transmitted())
			require.Zero(t, r.worker.inFlight())
			r.close()
		})
	}
}

// Completions that never come stop what goes to that device, lose no frame, and leave the other one working.
func TestWorkerCompletionsNeverCome(t *testing.T) {
	r := newRig(t, rigOptions{})
	out := r.ports[portOut]
	r.rest()
	out.wire.HoldCompletions(true)
	in, _ := numbered(0, 64)
	for range 300 {
		r.arrive(portIn, in...)
		r.step()
	}
	require.Equal(t, 32, out.wire.InFlight(), "as many as Completion has room for")
	require.LessOrEqual(t, out.egress.Len(), 96, "the TX ring and the backlog behind it")
	door := r.ports[portIn].doorCounters()
	require.NotZero(t, door.DroppedGate[poller.Feedback.Index()])
	require.NotZero(t, r.worker.sched.Queues(nil)[portOut].Counters.TimedOutStuck)

	h := nettest.NewIP(nettest.AddrD0, nettest.AddrS0)
	for range 100 {
		r.arrive(portOut, nettest.Ethernet(nettest.MACr1, nettest.MACd0, udp(h)))
		r.step()
	}
	require.NotEmpty(t, r.ports[portIn].wire.Transmitted(), "the timeout lets the others' packets through")
	r.close()
}

// With every frame in other hands the kernel drops at the socket; then it goes on, and the credits spent on what it dropped are back.
func TestWorkerWithoutFreeFrames(t *testing.T) {
	r := newRig(t, rigOptions{frames: 320, config: func(c *Config) { c.Feedback.Off = true }})
	in, out := r.ports[portIn], r.ports[portOut]
	r.rest()
	require.Equal(t, 64, in.umem.NumFree())
	var held []uint64
	for addr, ok := in.umem.Alloc(); ok; addr, ok = in.umem.Alloc() {
		held = append(held, addr)
	}
	out.wire.SetKickErrno(unix.EAGAIN) // what was received stays in the worker's hands
	frames, _ := numbered(0, 200)
	arrived := 0
	for range 40 {
		arrived += r.arrive(portIn, frames[:10]...)
		r.round()
		require.Equal(t, in.umem.Ledger().Total, in.umem.Ledger().Sum())
	}
	lost, err := in.sock.Statistics()
	require.NoError(t, err)
	require.EqualValues(t, 400-arrived, lost.RXDropped+in.doorCounters().DroppedNoCredit)
	require.Equal(t, map[Reason]uint64{DropBacklogFull: uint64(arrived - 64)}, in.drops(), "what was dropped was received again")

	for _, addr := range held {
		in.umem.Free(addr)
	}
	out.wire.SetKickErrno(0)
	r.rest()
	before := out.wire.NumTransmitted()
	require.Equal(t, 64, r.arrive(portIn, frames[:64]...), "all credits are back")
	r.rest()
	require.Equal(t, before+64, out.wire.NumTransmitted())
	r.close()
}

// Credits that the door spent on packets which the socket dropped come back, even when no packet ever announces them.
func TestWorkerCreditsLostAtTheSocket(t *testing.T) {
	r := newRig(t, rigOptions{})
	p := r.ports[portIn]
	r.rest()
	window := rigConfig().Rings.FillDepth - inTransit
	tooLong := make([]byte, 2048)
	for range 5 {
		for range window {
			require.True(t, p.door.Admit())
			require.Zero(t, p.wire.Inject(tooLong))
		}
		require.False(t, p.door.Admit(), "all spent")
		begin := r.now
		r.step()
		require.LessOrEqual(t, r.now-begin, 2*maxBlock)
	}
	in, out := numbered(0, window)
	require.Equal(t, window, r.arrive(portIn, in...))
	require.False(t, p.door.Admit(), "and no more came back than were lost")
	r.rest()
	sameFrames(t, out, r.ports[portOut].wire.Transmitted())
	r.close()
}

// The door never lets in more than there are frames for, whatever the load and however little is taken of it in a turn.
func TestWorkerGrantsNoMoreThanTheWindow(t *testing.T) {
	r := newRig(t, rigOptions{config: func(c *Config) { c.Poller.Quota = 5 }})
	p := r.ports[portIn]
	r.rest()
	in, _ := numbered(0, 1)
	for i := range 300 {
		for n := 0; (n < 10 || i%5 == 0) && p.door.Admit(); n++ {
			require.Equal(t, 1, p.wire.Inject(in[0]))
		}
		require.LessOrEqual(t, p.sock.Pending(), rigConfig().Rings.FillDepth-inTransit)
		if i%3 == 0 {
			r.step()
		}
		r.step()
	}
	lost, err := p.sock.Statistics()
	require.NoError(t, err)
	require.Zero(t, lost.RXDropped+lost.RXRingFull)
	require.NotZero(t, p.doorCounters().DroppedNoCredit)
	r.rest()
	r.close()
}

// Without early discard the door asks for nothing and no gate shuts it: the ring behind it fills.
func TestWorkerWithoutEarlyDiscard(t *testing.T) {
	r := newRig(t, rigOptions{noDiscard: true})
	p := r.ports[portIn]
	r.rest()
	r.ports[portOut].wire.SetKickErrno(unix.EAGAIN)
	in, _ := numbered(0, 200)
	for range 10 {
		r.arrive(portIn, in...)
		r.step()
	}
	door := p.doorCounters()
	require.EqualValues(t, 2000, door.Redirected)
	require.Zero(t, door.DroppedNoCredit)
	lost, err := p.sock.Statistics()
	require.NoError(t, err)
	require.NotZero(t, lost.RXDropped+lost.RXRingFull)
	require.Zero(t, p.door.Spent())
	r.close()
}

// Descriptors that a broken kernel might produce are counted, touch no frame of anybody else, and cost no credit for good.
func TestWorkerCorruptDescriptors(t *testing.T) {
	r := newRig(t, rigOptions{corrupt: true})
	p := r.ports[portIn]
	r.rest()
	in, out := numbered(0, 50)
	window := rigConfig().Rings.FillDepth - inTransit
	corrupt := []queues.Desc{
		{Addr: math.MaxUint64, Len: 60}, {Addr: uint64(p.umem.NumFrames()) * 2048, Len: 60}, // no frame
		{Addr: 2000, Len: 60}, {Addr: 0, Len: math.MaxUint32}, {Addr: 256, Len: 0}, {Addr: 256, Len: 60, Options: 1}, // no packet in one
	}
	for i, d := range corrupt {
		if i >= 2 {
			frame, ok := p.wire.TakeFill()
			require.True(t, ok)
			d.Addr += frame
		}
		require.True(t, p.door.Admit())
		require.True(t, p.wire.InjectDesc(d))
	}
	require.Equal(t, 50, r.arrive(portIn, in...))
	r.step()
	for r.worker.inFlight() > 0 {
		r.step()
	}
	require.EqualValues(t, len(corrupt), p.source.read(int(DropBadDescriptor)))
	require.EqualValues(t, 50+len(corrupt), p.source.read(sourceReceived))
	sameFrames(t, out, r.ports[portOut].wire.Transmitted())
	r.steps(3)
	admitted := 0
	for ; p.door.Admit(); admitted++ {
		require.Equal(t, 1, p.wire.Inject(in[0]))
	}
	require.Equal(t, window, admitted)
}

// An egress in another UMEM whose frames are all out: the packet is dropped and counted, and its frame is free.
func TestWorkerNoFrameForTheCopy(t *testing.T) {
	r := newRig(t, rigOptions{split: true})
	out := r.ports[portOut]
	r.rest()
	var held []uint64
	for addr, ok := out.umem.Alloc(); ok; addr, ok = out.umem.Alloc() {
		held = append(held, addr)
	}
	in, leaving := numbered(0, 10)
	require.Equal(t, 10, r.arrive(portIn, in...))
	r.round()
	require.Equal(t, map[Reason]uint64{DropNoFrame: 10}, r.ports[portIn].drops())
	for _, addr := range held {
		out.umem.Free(addr)
	}
	require.Equal(t, 10, r.arrive(portIn, in...))
	r.rest()
	sameFrames(t, leaving, out.wire.Transmitted())
	r.close()
}

// Next hops are asked for once per batch, each once, and no more than the bound; stale ones too, while their packets go on.
func TestWorkerAsks(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	var frames [][]byte
	for i := range 40 {
		frames = append(frames, toRouter(udp(probe(fmt.Sprintf("10.0.2.%d", 100+i/2)))))
	}
	frames = append(frames, toRouter(udp(probe(staleHost.String()))))
	require.Equal(t, len(frames), r.arrive(portIn, frames...))
	r.rest()
	require.Equal(t, 1, r.table.calls)
	require.Len(t, r.table.asked, maxAsks)
	for i, request := range r.table.asked {
		require.Equal(t, fib.Request{Port: portOut, Addr: netip.AddrFrom4([4]byte{10, 0, 2, byte(100 + i)})}, request)
	}
	require.Equal(t, map[Reason]uint64{DropNeighbourUnresolved: 40}, r.ports[portIn].drops())

	r.table.asked, r.table.calls = nil, 0
	require.Equal(t, 1, r.arrive(portIn, toRouter(udp(probe(staleHost.String())))))
	r.rest()
	require.Equal(t, []fib.Request{{Port: portOut, Addr: staleHost}}, r.table.asked)
	require.Len(t, r.ports[portOut].wire.Transmitted(), 2)

	require.Equal(t, 1, r.arrive(portIn, toRouter(udp(probe(nettest.AddrD0.String())))))
	r.rest()
	require.Equal(t, 1, r.table.calls, "for a fresh one nobody is asked")
	r.close()
}

// A new snapshot is in force from the next batch on.
func TestWorkerFollowsTheTables(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	in, out := numbered(0, 3)
	send := func() [][]byte {
		require.Equal(t, 3, r.arrive(portIn, in...))
		r.rest()
		return r.ports[portOut].wire.Transmitted()
	}
	sameFrames(t, out, send())
	l := testLiteral()
	l.Ports[portOut].Up = false
	r.table.snapshot = fib.NewSnapshot(l)
	require.Empty(t, send())
	l.Ports[portOut].Up, l.Ports[portOut].MAC = true, [6]byte{2, 0, 0, 0, 9, 9}
	r.table.snapshot = fib.NewSnapshot(l)
	for i := range out {
		copy(out[i][6:], []byte{2, 0, 0, 0, 9, 9})
	}
	sameFrames(t, out, send())
	require.Equal(t, map[Reason]uint64{DropEgressDown: 3}, r.ports[portIn].drops())
	r.close()
}
