package xdpprog

import (
	"context"
	"encoding/binary"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

func labConfig(ifindex int) GeneratorConfig {
	return GeneratorConfig{
		Ifindex: ifindex, SrcMAC: otherMAC, DstMAC: portMAC,
		Src: netip.MustParseAddr("10.0.1.2"), Dst: netip.MustParseAddr("10.0.2.2"), SrcPort: 1, DstPort: 9, Size: 60,
	}
}

func labConfig6(ifindex int) GeneratorConfig {
	c := labConfig(ifindex)
	c.Src, c.Dst, c.Size = netip.MustParseAddr("2001:db8:1::2"), netip.MustParseAddr("2001:db8:2::2"), 78
	return c
}

func newGenerator(t *testing.T, ns *nettest.NS, cfg GeneratorConfig) *Generator {
	t.Helper()
	var g *Generator
	require.NoError(t, ns.Do(func() (err error) {
		g, err = NewGenerator(cfg)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

func newSink(t *testing.T, ns *nettest.NS, name string, kind SinkKind) *Sink {
	t.Helper()
	index := ifindex(t, ns, name)
	var s *Sink
	require.NoError(t, ns.Do(func() (err error) {
		s, err = AttachSink(index, kind)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// napi gives the receiving end of a veth the NAPI it needs to take XDP frames.
func napi(t *testing.T, ns *nettest.NS, name string) {
	t.Helper()
	require.NoError(t, ns.Offload(name, "rx-gro", true))
}

func count(t *testing.T, s *Sink) SinkCount {
	t.Helper()
	c, err := s.Count()
	require.NoError(t, err)
	return c
}

func TestGeneratorToSink(t *testing.T) {
	for _, tc := range []struct {
		name string
		kind SinkKind
		cfg  func(int) GeneratorConfig
	}{
		{"tcx v4", SinkTCX, labConfig}, {"tcx v6", SinkTCX, labConfig6}, {"xdp v4", SinkXDP, labConfig}, {"xdp v6", SinkXDP, labConfig6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ns := veth(t, 1)
			if tc.kind == SinkTCX {
				napi(t, ns, "p0")
			}
			sink := newSink(t, ns, "p0", tc.kind)
			cfg := tc.cfg(ifindex(t, ns, "p1"))
			cfg.RatePPS = 100_000
			gen := newGenerator(t, ns, cfg)

			// A starved softirq overflows the veth's ring even at this rate; that is the machine's, and the device counts it.
			for try := 1; ; try++ {
				before := deviceCount(t, ns, "p1")
				res, err := gen.Run(t.Context(), Bounds{Duration: 200 * time.Millisecond})
				require.NoError(t, err)
				t.Logf("%+v, %.0f pps", res, res.Rate())
				require.Equal(t, res.Sent, gen.Sent())
				require.InDelta(t, 200*time.Millisecond, res.Elapsed, float64(100*time.Millisecond))
				require.InEpsilon(t, 100_000, float64(res.Sent+res.Skipped)/res.Elapsed.Seconds(), 0.2)

				device := deviceCount(t, ns, "p1")
				received(t, sink, SinkCount{device.taken, device.taken * uint64(cfg.Size)})
				require.Equal(t, res.Sent, device.taken-before.taken+device.refused-before.refused)
				if device.refused == before.refused {
					break
				}
				require.Less(t, try, 5, "sent is never received without loss")
			}

			res, err := gen.Run(t.Context(), Bounds{Count: 1000})
			require.NoError(t, err)
			require.EqualValues(t, 1000, res.Sent)
		})
	}
}

// received waits until the sink has taken what is on its way and compares.
func received(t *testing.T, s *Sink, want SinkCount) {
	t.Helper()
	for range 100 {
		if count(t, s) == want {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Equal(t, want, count(t, s))
}

// txCount is what a veth says of the XDP frames sent on it: taken by its peer's ring, or refused because that was full.
type txCount struct{ taken, refused uint64 }

func deviceCount(t *testing.T, ns *nettest.NS, name string) txCount {
	t.Helper()
	stats, err := ns.EthtoolStats(name)
	require.NoError(t, err)
	return txCount{stats["tx_queue_0_xdp_xmit"], stats["tx_queue_0_xdp_xmit_errors"]}
}

func TestGeneratorUnpaced(t *testing.T) {
	ns := veth(t, 1)
	sink := newSink(t, ns, "p0", SinkXDP)
	gen := newGenerator(t, ns, labConfig(ifindex(t, ns, "p1")))
	res, err := gen.Run(t.Context(), Bounds{Count: 200_000})
	require.NoError(t, err)
	require.EqualValues(t, 200_000, res.Sent)
	require.Zero(t, res.Skipped)
	require.Greater(t, res.Rate(), 200_000.0)
	t.Logf("%+v, %.0f pps, received %d", res, res.Rate(), count(t, sink).Packets)
	device := deviceCount(t, ns, "p1")
	require.Equal(t, res.Sent, device.taken+device.refused, "as the device counts it")
	received(t, sink, SinkCount{device.taken, device.taken * 60})
}

func TestGeneratorStopsWithItsContext(t *testing.T) {
	ns := veth(t, 1)
	newSink(t, ns, "p0", SinkXDP)
	cfg := labConfig(ifindex(t, ns, "p1"))
	cfg.RatePPS = 1000
	gen := newGenerator(t, ns, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	res, err := gen.Run(ctx, Bounds{})
	require.NoError(t, err)
	require.Less(t, time.Since(start), 5*time.Second)
	require.NotZero(t, res.Sent)

	res, err = gen.Run(ctx, Bounds{})
	require.NoError(t, err, "a context that is done already")
	t.Logf("%+v", res)
}

// Signals to the thread, as Go's scheduler and its garbage collector may send them, do not end or distort a run.
func TestGeneratorSurvivesSignals(t *testing.T) {
	ns := veth(t, 1)
	sink := newSink(t, ns, "p0", SinkXDP)
	cfg := labConfig(ifindex(t, ns, "p1"))
	cfg.RatePPS = 100_000
	gen := newGenerator(t, ns, cfg)

	stop, stopped := make(chan struct{}), make(chan struct{})
	thread := make(chan int, 1)
	go func() {
		defer close(stopped)
		id := <-thread
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				runtime.GC()
				if i%2 == 1 {
					_ = unix.Tgkill(unix.Getpid(), id, unix.SIGURG)
				}
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread <- unix.Gettid()
	res, err := gen.Run(t.Context(), Bounds{Count: 20_000})
	close(stop)
	<-stopped
	require.NoError(t, err)
	t.Logf("%+v", res)
	require.EqualValues(t, 20_000, res.Sent)
	require.Greater(t, res.Calls, 1)
	device := deviceCount(t, ns, "p1")
	require.EqualValues(t, 20_000, device.taken+device.refused)
	received(t, sink, SinkCount{device.taken, device.taken * 60})
}

func TestGeneratorWhoseDeviceGoesAway(t *testing.T) {
	ns := veth(t, 1)
	cfg := labConfig(ifindex(t, ns, "p1"))
	cfg.RatePPS = 1000
	gen := newGenerator(t, ns, cfg)
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = ns.Delete("p1")
	}()
	_, err := gen.Run(t.Context(), Bounds{})
	require.ErrorIs(t, err, unix.ENODEV)
	require.ErrorContains(t, err, "run the generator: the device went away after")
}

// Every frame is right in every byte, however broken the page it is written to was.
func TestGeneratorFrames(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  GeneratorConfig
	}{
		{"v4 60", labConfig(1)},
		{"v4 1514", func() GeneratorConfig { c := labConfig(1); c.Size = 1514; return c }()},
		{"v6 78", labConfig6(1)},
		{"v6 1514", func() GeneratorConfig { c := labConfig6(1); c.Size = 1514; return c }()},
		{"v4 odd", func() GeneratorConfig { c := labConfig(1); c.Size = 61; return c }()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			nettest.RequirePrivilege(t)
			cfg := tc.cfg
			cfg.SrcPort, cfg.NumFlows, cfg.NumDestinations = 65000, 3, 70000
			cfg.Dst = cfg.Dst.Next()
			gen, err := NewGenerator(cfg)
			require.NoError(t, err)
			defer gen.Close()
			m := &gen.memory.elems[0]
			m.plan.count.Store(1 << 40)
			m.plan.duration.Store(1 << 60)
			m.progress.sent.Store(1<<32 - 2) // past the end of 32 bits
			m.progress.destination.Store(65533)

			dst := cfg.Dst
			for range 65533 {
				dst = dst.Next()
			}
			var last uint64
			for n := range 7 {
				dirty := make([]byte, cfg.Size)
				head := stamp4
				if cfg.Dst.Is6() {
					head = stamp6
				}
				for i := range head + stampLen {
					dirty[i] = byte(i*7 + n)
				}
				opts := &ebpf.RunOptions{Data: dirty, DataOut: make([]byte, cfg.Size)}
				verdict, err := gen.objs.WeirGenerator.Run(opts)
				require.NoError(t, err)
				require.Equal(t, xdpRedirect, verdict)
				frame := opts.DataOut
				require.NoError(t, nettest.VerifyChecksums(frame))
				ip := nettest.NewIP(cfg.Src, dst)
				payload := make([]byte, cfg.Size-head)
				copy(payload, frame[head:head+stampLen])
				require.Equal(t, nettest.Ethernet(portMAC[:], otherMAC[:], ip.UDP(uint16(65000+n%3), 9, payload)), frame)
				require.EqualValues(t, labMagic, binary.BigEndian.Uint32(payload))
				require.Equal(t, uint32(1<<32-2+uint64(n)), binary.BigEndian.Uint32(payload[4:]))
				due := binary.BigEndian.Uint64(payload[8:])
				require.Greater(t, due, last)
				last = due
				dst = dst.Next()
			}
		})
	}
}

// The plan's arithmetic at the rates the lab uses, driven by setting back the clock's start.
func TestGeneratorPacing(t *testing.T) {
	nettest.RequirePrivilege(t)
	cfg := labConfig(1)
	cfg.RatePPS = 1 // one frame per second: the test is over within one
	gen, err := NewGenerator(cfg)
	require.NoError(t, err)
	defer gen.Close()
	m := &gen.memory.elems[0]
	m.plan.count.Store(1 << 40)
	m.plan.duration.Store(1 << 60)
	frame := make([]byte, 60)
	require.Equal(t, xdpRedirect, run(t, gen.objs.WeirGenerator, frame, nil), "the first at once")
	require.Equal(t, xdpDrop, run(t, gen.objs.WeirGenerator, frame, nil), "the second is early")

	m.progress.start.Add(^uint64(10e9 - 1)) // ten seconds later
	for range 10 {
		require.Equal(t, xdpRedirect, run(t, gen.objs.WeirGenerator, frame, nil), "late ones are made up for")
	}
	require.Equal(t, xdpDrop, run(t, gen.objs.WeirGenerator, frame, nil))
	require.Zero(t, m.progress.skipped.Load())

	m.progress.start.Add(^uint64(100e9 - 1)) // a hundred seconds later
	for range 33 {
		require.Equal(t, xdpRedirect, run(t, gen.objs.WeirGenerator, frame, nil), "32 of debt, and the one that is due")
	}
	require.Equal(t, xdpDrop, run(t, gen.objs.WeirGenerator, frame, nil))
	require.EqualValues(t, 67, m.progress.skipped.Load())
	require.EqualValues(t, 44, m.progress.sent.Load())

	for n := range 9 {
		m.progress.start.Add(^uint64(1e9 - 1)) // a second later
		require.Equal(t, xdpRedirect, run(t, gen.objs.WeirGenerator, frame, nil), "frame %d on time", n)
	}
	require.Equal(t, xdpRedirect, run(t, gen.objs.WeirGenerator, frame, nil), "one made up for with every ninth")
	require.Equal(t, xdpDrop, run(t, gen.objs.WeirGenerator, frame, nil))
	require.EqualValues(t, 66, m.progress.skipped.Load())
	require.EqualValues(t, 54, m.progress.sent.Load())

	m.plan.stop.Store(1)
	require.Equal(t, xdpDrop, run(t, gen.objs.WeirGenerator, frame, nil))
	require.EqualValues(t, doneEnded, m.progress.done.Load())
	require.InDelta(t, 119e9, float64(m.progress.elapsed.Load()), 1e9)
}

func TestGeneratorRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*GeneratorConfig)
		err    string
	}{
		{"no device", func(c *GeneratorConfig) { c.Ifindex = 0 }, "interface index 0"},
		{"families", func(c *GeneratorConfig) { c.Src = netip.MustParseAddr("::1") }, "one family"},
		{"no address", func(c *GeneratorConfig) { c.Dst = netip.Addr{} }, "one family"},
		{"short", func(c *GeneratorConfig) { c.Size = 59 }, "frames of 59 bytes: must be 60 to 1514"},
		{"long", func(c *GeneratorConfig) { c.Size = 1515 }, "frames of 1515 bytes"},
		{"short v6", func(c *GeneratorConfig) { *c = labConfig6(1); c.Size = 77 }, "must be 78 to 1514"},
		{"rate", func(c *GeneratorConfig) { c.RatePPS = 2e9 }, "at most 1000000000"},
		{"ports", func(c *GeneratorConfig) { c.SrcPort, c.NumFlows = 65535, 2 }, "port numbers end"},
		{"addresses", func(c *GeneratorConfig) { c.Dst, c.NumDestinations = netip.MustParseAddr("255.255.255.255"), 2 }, "overflow"},
		{"batch", func(c *GeneratorConfig) { c.Batch = 257 }, "batch of 257"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := labConfig(1)
			tc.change(&cfg)
			_, err := NewGenerator(cfg)
			require.ErrorContains(t, err, tc.err)
		})
	}
	nettest.RequirePrivilege(t)
	_, err := NewGenerator(labConfig(1 << 30))
	require.ErrorContains(t, err, "generator: device 1073741824")
}
