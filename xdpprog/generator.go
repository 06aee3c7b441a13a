package xdpprog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"time"

	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// GeneratorConfig describes the frames of a [Generator] and their rate. See bpf/lab.h for their layout.
type GeneratorConfig struct {
	// Ifindex is the device the frames are sent on, in the calling thread's network namespace. Its driver must take XDP frames
	// (ndo_xdp_xmit); a veth does when its peer has a native XDP program or GRO on.
	Ifindex          int
	SrcMAC, DstMAC   [6]byte
	Src, Dst         netip.Addr // both IPv4 or both IPv6
	SrcPort, DstPort uint16
	Size             int    // bytes of a frame without FCS, 60 to 1514; IPv6 from 78
	RatePPS          uint64 // frames per second, at most 1e9; 0 is as many as possible
	NumFlows         int    // frames take source ports SrcPort … SrcPort+NumFlows-1 in turn; 0 is 1
	NumDestinations  int    // and destinations Dst … Dst+NumDestinations-1; 0 is 1
	Batch            int    // frames the kernel makes before it flushes them to the device, at most 256; 0 is its default, 64
}

const (
	minFrame4 = 60
	minFrame6 = stamp6 + stampLen
	maxFrame  = 1514
	maxBatch  = 256
)

func (c *GeneratorConfig) validate() error {
	c.NumFlows = max(c.NumFlows, 1)
	c.NumDestinations = max(c.NumDestinations, 1)
	minFrame := minFrame4
	if c.Dst.Is6() {
		minFrame = minFrame6
	}
	switch {
	case c.Ifindex <= 0:
		return fmt.Errorf("generator: interface index %d: must be positive", c.Ifindex)
	case !c.Src.IsValid() || !c.Dst.IsValid() || c.Src.Is4() != c.Dst.Is4():
		return fmt.Errorf("generator: %s to %s: must be two addresses of one family", c.Src, c.Dst)
	case c.Size < minFrame || c.Size > maxFrame:
		return fmt.Errorf("generator: frames of %d bytes: must be %d to %d", c.Size, minFrame, maxFrame)
	case c.RatePPS > MaxRate:
		return fmt.Errorf("generator: %d frames per second: at most %d", c.RatePPS, uint64(MaxRate))
	case int(c.SrcPort)+c.NumFlows > 1<<16:
		return fmt.Errorf("generator: %d flows from port %d: port numbers end at 65535", c.NumFlows, c.SrcPort)
	case uint64(lastWord(c.Dst))+uint64(c.NumDestinations) > 1<<32:
		return fmt.Errorf("generator: %d destinations from %s: its last 32 bits would overflow", c.NumDestinations, c.Dst)
	case c.Batch < 0 || c.Batch > maxBatch:
		return fmt.Errorf("generator: batch of %d frames: must be 1 to %d, or 0", c.Batch, maxBatch)
	}
	return nil
}

// Generator sends UDP frames from inside the kernel: a program run over and over by one system call writes each frame whole, stamps it
// with a sequence number and the time it was due, and redirects it to a device. Not safe for concurrent use, except Sent.
type Generator struct {
	objs   *generatorObjects
	memory *mapping[generatorMemory] // one element
	frame  []byte                    // what the kernel fills its pages with, once
	batch  uint32
}

// NewGenerator loads a generator for the device. Nothing is sent before Run. It needs CAP_BPF and CAP_NET_ADMIN and Linux 5.18.
func NewGenerator(cfg GeneratorConfig) (_ *Generator, err error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("generator: raise the locked-memory limit: %w: run as root", err)
	}
	g := &Generator{frame: make([]byte, cfg.Size), batch: uint32(cfg.Batch)}
	defer func() {
		if err != nil {
			g.Close()
		}
	}()
	var objs generatorObjects
	if err := loadGeneratorObjects(&objs, nil); err != nil {
		return nil, fmt.Errorf("load the generator: %w", explain(err))
	}
	g.objs = &objs
	if g.memory, err = mapArray[generatorMemory](objs.Generators); err != nil {
		return nil, err
	}
	if err := objs.Devices.Put(uint32(0), uint32(cfg.Ifindex)); err != nil {
		return nil, fmt.Errorf("generator: device %d: %w: it must be in this network namespace and take XDP frames", cfg.Ifindex, err)
	}
	g.memory.elems[0].plan.set(&cfg)
	return g, nil
}

// Bounds end a run; the one reached first does.
type Bounds struct {
	Duration time.Duration // since the first frame; 0 is no bound
	Count    uint64        // frames; 0 is no bound
}

// GeneratorResult is what a run did.
type GeneratorResult struct {
	// Sent is how many frames were redirected to the device, exactly. What the device did not take of them (its tx drops, a full ring
	// at a veth's peer) it counts itself.
	Sent uint64
	// Skipped is how many frames were due while the generator had no CPU, beyond the 32 it may catch up at once, and were not made up
	// later, by one more frame for every 8 that are on time.
	Skipped uint64
	// Elapsed is the time from the first frame to the end, as the program saw it.
	Elapsed time.Duration
	// Calls is the number of system calls it took: 1, and 1 more for each signal that interrupted it and each 2^32 repetitions. A call
	// costs about 25 ms in which nothing is sent (Linux 6.18, 2 CPUs).
	Calls int
}

// Rate returns the frames sent per second.
func (r GeneratorResult) Rate() float64 {
	if r.Elapsed <= 0 {
		return 0
	}
	return float64(r.Sent) / r.Elapsed.Seconds()
}

// endPoll is how often Run looks whether the program has ended: how late Run may return, and 0.1 % of a CPU.
const endPoll = time.Millisecond

// Run sends until a bound is reached or ctx is done, and returns what it did; ctx's end is not an error. It occupies the CPU it runs on:
// call it with the thread locked and pinned to choose which. Sequence numbers start at 0.
//
// The system call cannot end by itself before its last repetition, so when the program says that it is done, Run sends its own thread
// SIGURG, which Go's runtime uses to preempt and otherwise ignores. The call then returns EINTR. Go itself leaves a thread in a system
// call alone (under constant garbage collection with GOMAXPROCS 1 and 2, runs of a second took one call each), but a signal for the
// whole process may arrive at this thread: then the call is made again, and the program goes on where it was.
func (g *Generator) Run(ctx context.Context, b Bounds) (GeneratorResult, error) {
	m := &g.memory.elems[0]
	m.plan.duration.Store(math.MaxUint64)
	if b.Duration > 0 {
		m.plan.duration.Store(uint64(b.Duration))
	}
	m.plan.count.Store(math.MaxUint64)
	if b.Count > 0 {
		m.plan.count.Store(b.Count)
	}
	m.plan.stop.Store(0)
	m.progress.reset()

	calls, err := g.callUntilDone(ctx)
	res := GeneratorResult{
		Sent:    m.progress.sent.Load(),
		Skipped: m.progress.skipped.Load(),
		Elapsed: time.Duration(m.progress.elapsed.Load()),
		Calls:   calls,
	}
	switch {
	case err != nil:
		return res, fmt.Errorf("run the generator: %w", explain(err))
	case m.progress.done.Load() != doneEnded:
		return res, fmt.Errorf("run the generator: the device went away after %d frames: %w", res.Sent, unix.ENODEV)
	}
	return res, nil
}

// callUntilDone makes the system call until the program says that it is done, and returns how often.
func (g *Generator) callUntilDone(ctx context.Context) (calls int, err error) {
	// The thread's id must stay ours until nobody can signal it any more.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread := unix.Gettid()
	returned, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		g.interruptWhenDone(ctx, thread, returned)
	}()
	defer func() {
		close(returned)
		<-stopped
	}()
	for done := &g.memory.elems[0].progress.done; done.Load() == doneRunning; {
		calls++
		if err := g.call(); err != nil && !errors.Is(err, unix.EINTR) {
			return calls, err
		}
	}
	return calls, nil
}

// interruptWhenDone waits for the program to be done, tells it to be done when ctx is, and then signals the thread until it has returned.
func (g *Generator) interruptWhenDone(ctx context.Context, thread int, returned <-chan struct{}) {
	m := &g.memory.elems[0]
	tick := time.NewTicker(endPoll)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-returned:
			return
		case <-cancelled:
			m.plan.stop.Store(1)
			cancelled = nil
		case <-tick.C:
			if m.progress.done.Load() != doneRunning {
				_ = unix.Tgkill(unix.Getpid(), thread, unix.SIGURG) // our own thread: it cannot fail
			}
		}
	}
}

// Sent returns how many frames the present run has redirected, or the last one did. Any goroutine may call it.
func (g *Generator) Sent() uint64 { return g.memory.elems[0].progress.sent.Load() }

// Close unloads the generator. Closing twice is harmless.
func (g *Generator) Close() error {
	var errs []error
	if g.memory != nil {
		errs = append(errs, g.memory.close())
	}
	if g.objs != nil {
		errs = append(errs, g.objs.Close())
		g.objs = nil
	}
	return errors.Join(errs...)
}
