package xdpprog

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// labFrame is a frame as the generator writes it.
func labFrame(t *testing.T, cfg GeneratorConfig) []byte {
	t.Helper()
	gen, err := NewGenerator(cfg)
	require.NoError(t, err)
	defer gen.Close()
	m := &gen.memory.elems[0]
	m.plan.count.Store(1)
	m.plan.duration.Store(1 << 60)
	opts := &ebpf.RunOptions{Data: make([]byte, cfg.Size), DataOut: make([]byte, cfg.Size)}
	_, err = gen.objs.WeirGenerator.Run(opts)
	require.NoError(t, err)
	return opts.DataOut
}

func TestSinkTakesOnlyLabFrames(t *testing.T) {
	nettest.RequirePrivilege(t)
	var objs sinkObjects
	require.NoError(t, loadSinkObjects(&objs, nil))
	defer objs.Close()
	s := &Sink{objs: &objs}

	v4, v6 := labFrame(t, labConfig(1)), labFrame(t, labConfig6(1))
	with := func(f []byte, at int, v byte) []byte {
		f = slices.Clone(f)
		f[at] = v
		return f
	}
	for _, tc := range []struct {
		name  string
		frame []byte
		taken bool
	}{
		{"v4", v4, true},
		{"v4, TTL one less", with(v4, 14+8, 63), true},
		{"v4 of another EtherType", with(v4, 12, 9), false},
		{"v4 with options", with(v4, 14, 0x46), false},
		{"v4 TCP", with(v4, 14+9, unix.IPPROTO_TCP), false},
		{"v4 without magic", with(v4, stamp4+3, 0), false},
		{"v4 cut", v4[:stamp4+3], false},
		{"no IP header", v4[:14], false},
		{"v6", v6, true},
		{"v6 TCP", with(v6, 14+6, unix.IPPROTO_TCP), false},
		{"v6 version 4", with(v6, 14, 0x40), false},
		{"v6 without magic", with(v6, stamp6, 0), false},
		{"v6 cut", v6[:stamp6+2], false},
	} {
		for _, prog := range []struct {
			name       string
			prog       *ebpf.Program
			pass, drop uint32
		}{
			{"xdp", objs.WeirSinkXdp, xdpPass, xdpDrop},
			{"tcx", objs.WeirSinkTcx, ^uint32(0), 2},
		} {
			before := count(t, s)
			verdict, err := tryRun(prog.prog, tc.frame, nil)
			if len(tc.frame) < 34 && prog.prog == objs.WeirSinkTcx {
				require.ErrorIs(t, err, unix.EINVAL, "the kernel runs no socket buffer without an IP header")
				continue
			}
			require.NoError(t, err)
			after := count(t, s)
			if tc.taken {
				require.Equal(t, prog.drop, verdict, "%s: %s", prog.name, tc.name)
				require.Equal(t, SinkCount{1, uint64(len(tc.frame))}, SinkCount{after.Packets - before.Packets, after.Bytes - before.Bytes}, "%s: %s", prog.name, tc.name)
			} else {
				require.Equal(t, prog.pass, verdict, "%s: %s", prog.name, tc.name)
				require.Equal(t, before, after, "%s: %s", prog.name, tc.name)
			}
		}
	}
}

func TestAttachSinkRefuses(t *testing.T) {
	ns := veth(t, 1)
	index := ifindex(t, ns, "p0")
	require.NoError(t, ns.Do(func() error {
		_, err := AttachSink(index, 7)
		require.ErrorIs(t, err, unix.EINVAL)
		for _, kind := range []SinkKind{SinkTCX, SinkXDP} {
			_, err = AttachSink(1<<30, kind)
			require.ErrorIs(t, err, unix.ENODEV)
		}
		return nil
	}))
	p, err := attach(t, ns, config(t, ns, AttachAuto))
	require.NoError(t, err)
	require.NoError(t, ns.Do(func() error {
		_, err := AttachSink(index, SinkXDP)
		var o *OtherProgramError
		require.ErrorAs(t, err, &o)
		require.Equal(t, p.ProgramID(), o.ProgramID)
		return nil
	}))
}
