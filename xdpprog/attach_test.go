package xdpprog

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// veth makes a namespace with a veth pair p0 – p1 of n queues from p1 to p0, both up, p0 with portMAC.
func veth(t *testing.T, n int) *nettest.NS {
	t.Helper()
	nettest.RequirePrivilege(t)
	ns, err := nettest.NewNS("xdp")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	require.NoError(t, nettest.Veth(ns, "p0", ns, "p1", nettest.VethOptions{
		A: nettest.VethEnd{NumRX: n, NumTX: n, MAC: portMAC[:]},
		B: nettest.VethEnd{NumTX: n},
	}))
	require.NoError(t, ns.Up("p0"))
	require.NoError(t, ns.Up("p1"))
	return ns
}

func ifindex(t *testing.T, ns *nettest.NS, name string) int {
	t.Helper()
	l, err := ns.Link(name)
	require.NoError(t, err)
	return l.Attrs().Index
}

// attached returns the id of the XDP program on an interface, as netlink tells it.
func attached(t *testing.T, ns *nettest.NS, name string) uint32 {
	t.Helper()
	l, err := ns.Link(name)
	require.NoError(t, err)
	if l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
		return 0
	}
	return l.Attrs().Xdp.ProgId
}

func attach(t *testing.T, ns *nettest.NS, cfg PortConfig) (p *Port, err error) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		p, err = Attach(cfg)
		return nil
	}))
	if err == nil {
		t.Cleanup(func() { require.NoError(t, p.Close()) })
	}
	return p, err
}

func config(t *testing.T, ns *nettest.NS, mode AttachMode) PortConfig {
	return PortConfig{Interface: "p0", Ifindex: ifindex(t, ns, "p0"), Mode: mode, MAC: portMAC, MaxQueues: 4, Local: localAddrs}
}

func TestAttach(t *testing.T) {
	for _, tc := range []struct{ ask, want AttachMode }{
		{AttachAuto, AttachNative}, {AttachNative, AttachNative}, {AttachGeneric, AttachGeneric},
	} {
		t.Run(tc.ask.String(), func(t *testing.T) {
			ns := veth(t, 1)
			p, err := attach(t, ns, config(t, ns, tc.ask))
			require.NoError(t, err)
			require.Equal(t, tc.want, p.Mode())
			require.NoError(t, p.NativeRefused())
			require.NotZero(t, p.ProgramID())
			require.Equal(t, p.ProgramID(), attached(t, ns, "p0"))
			require.Equal(t, 4, p.NumQueues())

			// A frame from the wire, for the host: it arrives there, and is counted.
			out, err := ns.OpenPacket("p1")
			require.NoError(t, err)
			defer out.Close()
			in, err := ns.OpenPacket("p0")
			require.NoError(t, err)
			defer in.Close()
			before := p.Counters()
			frame := ethernet(portMAC, ethIP4, ip4("10.0.1.1")...)
			require.NoError(t, out.Send(frame))
			_, err = in.Expect(5*time.Second, func(f nettest.Frame) bool { return string(f.Data) == string(frame) })
			require.NoError(t, err)
			after := p.Counters()
			require.EqualValues(t, 1, after.Passed[ClassLocal]-before.Passed[ClassLocal])
			require.Equal(t, after.Seen, after.Sum())

			require.NoError(t, p.Close())
			require.Zero(t, attached(t, ns, "p0"), "nothing stays attached")
			require.EqualValues(t, 1, p.Counters().Passed[ClassLocal], "counters outlive the port")
			p.Door(0).Grant(7) // harmless
			require.Zero(t, p.Door(0).Spent())
			require.NoError(t, p.Close(), "twice")
		})
	}
}

func TestAttachAutoFallsBackToGeneric(t *testing.T) {
	ns := veth(t, 1)
	// The loopback device has no native XDP.
	cfg := config(t, ns, AttachAuto)
	cfg.Interface, cfg.Ifindex = "lo", ifindex(t, ns, "lo")
	p, err := attach(t, ns, cfg)
	require.NoError(t, err)
	require.Equal(t, AttachGeneric, p.Mode())
	require.ErrorIs(t, p.NativeRefused(), unix.EOPNOTSUPP)
	require.NoError(t, p.Close())

	cfg.Mode = AttachNative
	_, err = attach(t, ns, cfg)
	require.ErrorIs(t, err, unix.EOPNOTSUPP)
	require.ErrorContains(t, err, "attach lo in native mode")
	require.ErrorContains(t, err, "use mode generic")
	require.Zero(t, attached(t, ns, "lo"))
}

// passProgram is somebody else's program.
func passProgram(t testing.TB) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "somebodys", Type: ebpf.XDP, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdpPass)), asm.Return()},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, prog.Close()) })
	return prog
}

// C04: whoever was there first is named and left alone, however it was attached.
func TestAttachLeavesAnotherProgramAlone(t *testing.T) {
	byNetlink := func(flags int) func(*testing.T, *nettest.NS, *ebpf.Program) {
		return func(t *testing.T, ns *nettest.NS, prog *ebpf.Program) {
			l, err := ns.Link("p0")
			require.NoError(t, err)
			require.NoError(t, ns.Do(func() error { return netlink.LinkSetXdpFdWithFlags(l, prog.FD(), flags) }))
		}
	}
	byLink := func(flags link.XDPAttachFlags) func(*testing.T, *nettest.NS, *ebpf.Program) {
		return func(t *testing.T, ns *nettest.NS, prog *ebpf.Program) {
			var l link.Link
			index := ifindex(t, ns, "p0")
			require.NoError(t, ns.Do(func() (err error) {
				l, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: index, Flags: flags})
				return err
			}))
			t.Cleanup(func() { require.NoError(t, l.Close()) })
		}
	}
	for _, other := range []struct {
		name, mode string
		attach     func(*testing.T, *nettest.NS, *ebpf.Program)
	}{
		{"netlink native", "native", byNetlink(unix.XDP_FLAGS_DRV_MODE)},
		{"netlink generic", "generic", byNetlink(unix.XDP_FLAGS_SKB_MODE)},
		{"link native", "native", byLink(link.XDPDriverMode)},
		{"link generic", "generic", byLink(link.XDPGenericMode)},
	} {
		t.Run(other.name, func(t *testing.T) {
			ns := veth(t, 1)
			prog := passProgram(t)
			other.attach(t, ns, prog)
			id := attached(t, ns, "p0")
			require.NotZero(t, id)
			for _, mode := range []AttachMode{AttachAuto, AttachNative, AttachGeneric} {
				_, err := attach(t, ns, config(t, ns, mode))
				var o *OtherProgramError
				require.ErrorAs(t, err, &o)
				require.Equal(t, OtherProgramError{Interface: "p0", ProgramID: id, Name: "somebodys", Mode: other.mode}, *o)
				require.ErrorIs(t, err, unix.EBUSY)
				require.ErrorContains(t, err, `attach p0: another XDP program is attached (id `+strconv.Itoa(int(id))+` "somebodys", `+other.mode+`)`)
				require.Equal(t, id, attached(t, ns, "p0"))

				// The same if it came between looking and attaching.
				receive := newPort(t, AttachNative)
				if mode == AttachAuto {
					continue
				}
				require.NoError(t, ns.Do(func() error {
					_, err := attachLink(receive.program, "p0", ifindex(t, ns, "p0"), mode)
					require.ErrorAs(t, err, &o)
					return nil
				}))
				require.Equal(t, id, attached(t, ns, "p0"))
			}
		})
	}
}

// pushTag puts a VLAN tag beside every frame that leaves by an interface, as a VLAN interface would, until undo is called.
func pushTag(t *testing.T, ns *nettest.NS, name string, vid int32) (undo func()) {
	t.Helper()
	push, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, 0x0081), asm.Mov.Imm(asm.R3, vid), asm.FnSkbVlanPush.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
	}})
	require.NoError(t, err)
	defer push.Close()
	var l link.Link
	require.NoError(t, ns.Do(func() (err error) {
		l, err = link.AttachTCX(link.TCXOptions{Interface: ifindex(t, ns, name), Program: push, Attach: ebpf.AttachTCXEgress})
		return err
	}))
	return func() { require.NoError(t, l.Close()) }
}

// A04: a tag that a veth carries beside the frame is a tag like any other.
func TestTagBesideTheFrame(t *testing.T) {
	ns := veth(t, 1)
	p, err := attach(t, ns, config(t, ns, AttachNative))
	require.NoError(t, err)
	if !p.SeesTags() {
		t.Skip("this kernel (before 6.8) does not tell")
	}
	defer pushTag(t, ns, "p1", 100)()
	out, err := ns.OpenPacket("p1")
	require.NoError(t, err)
	defer out.Close()
	require.NoError(t, out.Send(transit()))
	require.Eventually(t, func() bool { return p.Counters().Passed[ClassNotIP] > 0 }, 5*time.Second, time.Millisecond)
	require.Zero(t, p.Counters().DroppedNoCredit, "not taken for an untagged frame")
}

// Under a flood every frame is counted once, and no credit is spent twice.
func TestFloodIsAccountedFor(t *testing.T) {
	for _, mode := range []AttachMode{AttachNative, AttachGeneric} {
		t.Run(mode.String(), func(t *testing.T) {
			ns := veth(t, 1)
			napi(t, ns, "p0")
			p, err := attach(t, ns, config(t, ns, mode))
			require.NoError(t, err)
			// It is bound to nothing, so the kernel drops what it is given: the door does not know.
			require.NoError(t, p.SetSocket(0, newXSK(t)))
			d := p.Door(0)
			gen := newGenerator(t, ns, labConfig(ifindex(t, ns, "p1")))
			granted := uint64(0)
			for range 5 {
				granted += 1000
				d.Grant(granted)
				_, err = gen.Run(t.Context(), Bounds{Count: 20_000})
				require.NoError(t, err)
			}
			arrived := deviceCount(t, ns, "p1").taken
			require.NotZero(t, arrived)
			require.Eventually(t, func() bool {
				c := p.Counters()
				return c.Redirected+c.DroppedNoCredit == arrived
			}, 5*time.Second, time.Millisecond)
			c := p.Counters()
			require.Equal(t, c.Seen, c.Sum())
			require.EqualValues(t, 5000, c.Redirected)
			require.EqualValues(t, 5000, d.Spent())
		})
	}
}

func TestAttachTwice(t *testing.T) {
	ns := veth(t, 1)
	p, err := attach(t, ns, config(t, ns, AttachAuto))
	require.NoError(t, err)
	_, err = attach(t, ns, config(t, ns, AttachAuto))
	var o *OtherProgramError
	require.ErrorAs(t, err, &o)
	require.Equal(t, p.ProgramID(), o.ProgramID)
	require.Equal(t, "weir_rx", o.Name)
}

func TestAttachRefuses(t *testing.T) {
	ns := veth(t, 1)
	good := config(t, ns, AttachAuto)
	for _, tc := range []struct {
		name   string
		change func(*PortConfig)
		err    string
	}{
		{"no index", func(c *PortConfig) { c.Ifindex = 0 }, "attach p0: interface index 0"},
		{"no such interface", func(c *PortConfig) { c.Ifindex = 1 << 30 }, "attach p0"},
		{"mode", func(c *PortConfig) { c.Mode = 9 }, "attach p0: mode 9"},
		{"no queue", func(c *PortConfig) { c.MaxQueues = 0 }, "attach p0: 0 queues"},
		{"too many queues", func(c *PortConfig) { c.MaxQueues = MaxQueues + 1 }, "attach p0: 4097 queues"},
		{"group MAC", func(c *PortConfig) { c.MAC = groupMAC }, "group address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := good
			tc.change(&cfg)
			_, err := attach(t, ns, cfg)
			require.ErrorContains(t, err, tc.err)
			require.Zero(t, attached(t, ns, "p0"))
		})
	}
	good.MaxQueues = MaxQueues
	_, err := attach(t, ns, good)
	require.NoError(t, err)
}

// The real queue index of a frame chooses the door; a queue beyond the doors is counted too.
func TestQueues(t *testing.T) {
	ns := veth(t, 8)
	index := ifindex(t, ns, "p0")
	p := newPort(t, AttachNative)
	require.NoError(t, ns.Do(func() error { // any program, for the queues to be known to XDP
		l, err := link.AttachXDP(link.XDPOptions{Program: passProgram(t), Interface: index, Flags: link.XDPDriverMode})
		if err == nil {
			t.Cleanup(func() { require.NoError(t, l.Close()) })
		}
		return err
	}))
	fd := newXSK(t)
	for q := range 4 {
		require.NoError(t, p.SetSocket(q, fd))
		p.Door(q).SetUnlimited(q == 3)
		p.Door(q).Grant(uint64(q))
	}
	require.Error(t, p.SetSocket(4, fd))
	require.Error(t, p.SetSocket(-1, fd))
	require.Error(t, p.ClearSocket(4))
	require.NoError(t, ns.Do(func() error {
		for q := range uint32(8) {
			for range 10 {
				run(t, p.program, transit(), &xdpMD{DataEnd: 60, IngressIfindex: uint32(index), RXQueueIndex: q})
			}
		}
		return nil
	}))
	want := Counters{Seen: 80, Redirected: 1 + 2 + 10, DroppedNoCredit: 10 + 9 + 8, Passed: [NumClasses]uint64{ClassNoSocket: 40}}
	require.Equal(t, want.Redirected+want.DroppedNoCredit, uint64(40))
	require.Equal(t, want, p.Counters())
	for q, redirected := range []uint64{0, 1, 2, 10} {
		require.Equal(t, redirected, p.QueueCounters(q).Redirected)
	}
	require.NoError(t, p.Close())
	require.Equal(t, want, p.Counters())
}

// C03: a process that is killed leaves nothing attached.
func TestKillLeavesNothingAttached(t *testing.T) {
	ns := veth(t, 1)
	child, line := startChild(t, ns, "attach")
	require.Equal(t, "attached\n", line)
	require.NotZero(t, attached(t, ns, "p0"))
	require.NoError(t, child.Process.Kill())
	var exit *exec.ExitError
	require.True(t, errors.As(child.Wait(), &exit))
	require.Eventually(t, func() bool { return attached(t, ns, "p0") == 0 }, 5*time.Second, 10*time.Millisecond)
}

func TestAttachWithoutPrivilegeSaysWhatItNeeds(t *testing.T) {
	ns := veth(t, 1)
	child, line := startChild(t, ns, "attach without capabilities")
	require.NoError(t, child.Wait())
	require.Contains(t, line, "for p0: ")
	require.Contains(t, line, "operation not permitted")
	require.Contains(t, line, "run as root, or with CAP_BPF and CAP_NET_ADMIN\n")
	require.Zero(t, attached(t, ns, "p0"))
}

const (
	childEnv        = "WEIR_XDPPROG_TEST_CHILD"
	childIfindexEnv = "WEIR_XDPPROG_TEST_IFINDEX"
)

// startChild runs child in another process inside the namespace and returns the line it prints.
func startChild(t *testing.T, ns *nettest.NS, what string) (*exec.Cmd, string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := ns.Command(t.Context(), self)
	cmd.Env = append(os.Environ(), childEnv+"="+what, childIfindexEnv+"="+strconv.Itoa(ifindex(t, ns, "p0")))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, ns.Start(cmd))
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	return cmd, line
}

// child attaches to p0 and waits to be killed, or says why it cannot.
func child(what string) {
	runtime.LockOSThread() // capabilities belong to the thread
	if what == "attach without capabilities" {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			fmt.Println(err)
			return
		}
	}
	index, _ := strconv.Atoi(os.Getenv(childIfindexEnv))
	if _, err := Attach(PortConfig{Interface: "p0", Ifindex: index, MAC: portMAC, MaxQueues: 1}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("attached")
	time.Sleep(time.Minute)
}
