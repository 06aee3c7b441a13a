package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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

// refuse requires that a command refuses: with the exit code, in time, in one line on stderr that holds all of words, and with the
// namespace as it was.
func refuse(t *testing.T, ns *nettest.NS, cmd *exec.Cmd, code int, words ...string) {
	t.Helper()
	before := stateOf(t, ns)
	got, p := execute(t, ns, cmd)
	message := oneLine(t, p.stderr.String())
	t.Logf("exit %d after %s: %s", got, p.took.Round(time.Millisecond), message)
	require.Equal(t, code, got, "exit code")
	require.Less(t, p.took, refusalTimeout)
	require.Empty(t, p.stdout.String())
	for _, w := range words {
		require.Contains(t, message, w)
	}
	require.Equal(t, before, stateOf(t, ns), "something was changed")
}

// TestRefuseArguments: what cannot be is refused before anything is touched, with exit code 2.
func TestRefuseArguments(t *testing.T) {
	top := nettest.T0(t)
	ports := []string{"--port", "r0", "--port", "r1"}
	file := func(text string) []string {
		path := filepath.Join(t.TempDir(), "weir.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return []string{"-c", path}
	}
	set := func(assignment string) []string { return append([]string{"--set", assignment}, ports...) }
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"no port", nil, []string{"ports", "none", "--port"}},
		{"port twice", []string{"--port", "r0", "--port", "r0"}, []string{"r0", "once"}},
		{"impossible name", []string{"--port", "a/b"}, []string{"a/b"}},
		{"unknown flag", append([]string{"--prot", "r0"}, ports...), []string{"--prot"}},
		{"unknown key", set("poller.quotas=3"), []string{"poller.quotas", "unknown"}},
		{"unknown key in a file", file("ports: [{name: r0}, {name: r1}]\npoller:\n  quotas: 3\n"), []string{"weir.yaml:3:3", "quotas", "unknown"}},
		{"wrong type in a file", file("ports: [{name: r0}, {name: r1}]\nrings: 3\n"), []string{"weir.yaml:2:", "rings"}},
		{"no YAML", file("ports: [\n"), []string{"weir.yaml:1:"}},
		{"empty file", file(""), []string{"weir.yaml:1:1", "empty", "weir check"}},
		{"no such file", []string{"-c", "/nonexistent/weir.yaml"}, []string{"/nonexistent/weir.yaml", "no such file"}},
		{"ring of 511", set("rings.rx=511"), []string{"rings.rx", "511", "power of two"}},
		{"ring of 0", set("rings.tx=0"), []string{"rings.tx", "0", "power of two"}},
		{"ring of 1000", set("rings.fill=1000"), []string{"rings.fill", "1000", "power of two"}},
		{"completion ring of 1000", set("rings.completion=1000"), []string{"rings.completion", "1000", "power of two"}},
		{"backlog of 1000", set("rings.backlog=1000"), []string{"rings.backlog", "1000", "power of two"}},
		{"more frames lent than Fill holds", set("rings.fill_depth=4096"), []string{"rings.fill_depth", "4096", "2048"}},
		{"least depth above the depth", set("rings.fill_min=1025"), []string{"rings.fill_min", "1025", "rings.fill_depth", "1024"}},
		{"ownership that is never used", append(set("poller.mode=interrupt"), "--set", "poller.ownership=socket"), []string{"poller.ownership", "socket", "interrupt", "auto or off"}},
		{"a port's marks crossed", set("ports.r1.feedback.high=20%"), []string{"ports.r1.feedback.low", "25%", "ports.r1.feedback.high", "20%"}},
		{"no least depth", set("rings.fill_min=0"), []string{"rings.fill_min", "0", "from 1 to"}},
		{"unknown ownership", set("poller.ownership=on"), []string{"poller.ownership", "auto, off, socket, io_uring or kthread"}},
		{"unknown mode", set("poller.mode=busy"), []string{"poller.mode", "hybrid, interrupt or poll"}},
		{"frame size 3000", set("umem.frame_size=3000"), []string{"umem.frame_size", "3000", "2048", "4096"}},
		{"quota of 0", append([]string{"--quota", "0"}, ports...), []string{"poller.quota", "0", "at least 1"}},
		{"low mark above the high", set("poller.feedback.low=80%"), []string{"poller.feedback.low", "80%", "75%"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, command := range []string{"run", "check"} {
				refuse(t, top.Rtr, weir(append([]string{command}, c.args...)...), exitUsage, c.words...)
			}
		})
	}
}

// TestRefuseHost: what the configuration cannot say wrong by itself, but this host says.
func TestRefuseHost(t *testing.T) {
	top := nettest.T0With(t, nettest.TopologyOptions{RX: 2, TX: 2})
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"unknown interface", []string{"--port", "r0", "--port", "nosuch0"}, []string{"port nosuch0", "no such interface", "ip link"}},
		{"loopback", []string{"--port", "r0", "--port", "lo"}, []string{"port lo", "loopback", "name a "}},
		{"no such CPU", []string{"--port", "r0", "--port", "r1", "--cpus", "1023"}, []string{"workers", "CPU 1023", "choose"}},
		{"more workers than transmit queues", []string{"--port", "r0", "--port", "r1", "--set", "workers=0,1,0"}, []string{"workers"}},
		{"frames too few", []string{"--port", "r0", "--port", "r1", "--set", "umem.frames=64"}, []string{"frames"}},
		{"zero copy where there is none", []string{"--port", "r0", "--port", "r1", "--set", "ports.r1.mode=zerocopy"}, []string{"r1", "zero copy", "mode copy or auto"}},
		{"metrics address in use", []string{"--port", "r0", "--port", "r1", "--set", "metrics.listen=192.0.2.1:9473"}, []string{"192.0.2.1:9473", "metrics.listen"}},
		{"control socket on a file", []string{"--port", "r0", "--port", "r1", "--set", "control.socket=/proc/self/status"}, []string{"/proc/self/status"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := stateOf(t, top.Rtr)
			code, p := execute(t, top.Rtr, weir(append([]string{"run"}, c.args...)...))
			message := oneLine(t, p.stderr.String())
			t.Logf("exit %d after %s: %s", code, p.took.Round(time.Millisecond), message)
			require.Contains(t, []int{exitFailure, exitUsage}, code)
			require.Less(t, p.took, refusalTimeout)
			for _, w := range c.words {
				require.Contains(t, message, w)
			}
			require.Equal(t, before, stateOf(t, top.Rtr), "something was changed")
		})
	}
}

// TestRefuseKind: interfaces made of others are refused by name.
func TestRefuseKind(t *testing.T) {
	attrs := func(name string, parent int) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name, a.ParentIndex = name, parent
		return a
	}
	for _, c := range []struct {
		name  string
		make  func(ns *nettest.NS, r1 netlink.Link) (netlink.Link, error) // the link to take, or to make r1 a member of
		port  string
		words []string
	}{
		{"bridge", func(*nettest.NS, netlink.Link) (netlink.Link, error) {
			return &netlink.Bridge{LinkAttrs: attrs("br0", 0)}, nil
		}, "br0", []string{"port br0", "bridge", "name a "}},
		{"bridge member", func(*nettest.NS, netlink.Link) (netlink.Link, error) {
			return &netlink.Bridge{LinkAttrs: attrs("br0", 0)}, nil
		}, "r1", []string{"port r1", "bridge br0", "nomaster"}},
		{"bond", func(*nettest.NS, netlink.Link) (netlink.Link, error) {
			return netlink.NewLinkBond(attrs("bond0", 0)), nil
		}, "bond0", []string{"port bond0", "bond", "name a "}},
		{"bond member", func(*nettest.NS, netlink.Link) (netlink.Link, error) {
			return netlink.NewLinkBond(attrs("bond0", 0)), nil
		}, "r1", []string{"port r1", "bond bond0", "nomaster"}},
		{"VLAN", func(_ *nettest.NS, r1 netlink.Link) (netlink.Link, error) {
			return &netlink.Vlan{LinkAttrs: attrs("r1.5", r1.Attrs().Index), VlanId: 5}, nil
		}, "r1.5", []string{"port r1.5", "vlan", "name a "}},
		{"macvlan", func(_ *nettest.NS, r1 netlink.Link) (netlink.Link, error) {
			return &netlink.Macvlan{LinkAttrs: attrs("mv0", r1.Attrs().Index), Mode: netlink.MACVLAN_MODE_BRIDGE}, nil
		}, "mv0", []string{"port mv0", "macvlan", "name a "}},
		{"VRF member", func(*nettest.NS, netlink.Link) (netlink.Link, error) {
			return &netlink.Vrf{LinkAttrs: attrs("vrf0", 0), Table: 10}, nil
		}, "r1", []string{"port r1", "vrf vrf0", "nomaster"}},
		{"IP tunnel", func(*nettest.NS, netlink.Link) (netlink.Link, error) {
			return &netlink.Iptun{LinkAttrs: attrs("tun9", 0), Local: net.IPv4(10, 0, 2, 1), Remote: net.IPv4(10, 0, 2, 2)}, nil
		}, "tun9", []string{"port tun9", "name a "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := nettest.T0(t)
			r1, err := top.Rtr.Link("r1")
			require.NoError(t, err)
			l, err := c.make(top.Rtr, r1)
			require.NoError(t, err)
			if err := top.Rtr.Handle().LinkAdd(l); err != nil {
				t.Skipf("this kernel has no %s: %v", l.Type(), err)
			}
			if c.port == "r1" {
				require.NoError(t, top.Rtr.Down("r1"))
				made, err := top.Rtr.Link(l.Attrs().Name)
				require.NoError(t, err)
				require.NoError(t, top.Rtr.Handle().LinkSetMaster(r1, made))
			}
			refuse(t, top.Rtr, weir("run", "--port", "r0", "--port", c.port), exitFailure, c.words...)
			refuse(t, top.Rtr, weir("check", "--port", "r0", "--port", c.port), exitUsage, c.words...)
		})
	}
}

// TestRefuseOtherProgram (C04): another XDP program is named and left alone.
func TestRefuseOtherProgram(t *testing.T) {
	for _, c := range []struct {
		port string
		mode link.XDPAttachFlags
	}{{"r0", link.XDPDriverMode}, {"r1", link.XDPDriverMode}, {"r1", link.XDPGenericMode}} {
		t.Run(fmt.Sprintf("%s mode %d", c.port, c.mode), func(t *testing.T) {
			top := nettest.T0(t)
			pass, err := ebpf.NewProgram(&ebpf.ProgramSpec{
				Name: "someone_else", Type: ebpf.XDP, License: "GPL",
				Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2 /* XDP_PASS */), asm.Return()},
			})
			require.NoError(t, err)
			defer pass.Close()
			l, err := top.Rtr.Link(c.port)
			require.NoError(t, err)
			var attached link.Link
			require.NoError(t, top.Rtr.Do(func() (err error) {
				attached, err = link.AttachXDP(link.XDPOptions{Program: pass, Interface: l.Attrs().Index, Flags: c.mode})
				return err
			}))
			defer attached.Close()
			id := programOn(t, top.Rtr, c.port)
			require.NotZero(t, id)
			refuse(t, top.Rtr, weir("run", "--port", "r0", "--port", "r1"), exitFailure, c.port, fmt.Sprint(id), "someone_else")
			require.Equal(t, id, programOn(t, top.Rtr, c.port))
		})
	}
}

// TestRefuseSecond: two weirs do not fight over a port.
func TestRefuseSecond(t *testing.T) {
	top := nettest.T0(t)
	w := startT0(t, top)
	refuse(t, top.Rtr, weir("run", "--port", "r0", "--port", "r1"), exitFailure, w.socket, fmt.Sprintf("in use by pid %d", w.cmd.Process.Pid))
	apart := []string{"--set", "metrics.listen=off", "--set", "control.socket=" + t.TempDir() + "/s"}
	refuse(t, top.Rtr, weir(append([]string{"run", "--port", "r0", "--port", "r1"}, apart...)...), exitFailure, "r0", fmt.Sprintf("id %d", programOn(t, top.Rtr, "r0")))
	pingBothFamilies(t, top)
	w.stop(t)
}

// TestRefuseBypass: kernel rules that forwarded packets would no longer meet are named, unless that is accepted.
func TestRefuseBypass(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		words      []string
	}{
		{"nftables forward", "table inet filter { chain forward { type filter hook forward priority 0; policy drop; ip daddr 10.0.2.2 accept; }; }",
			[]string{"nftables", "inet filter", "forward", "accept_bypass"}},
		{"nftables NAT", `table ip nat { chain post { type nat hook postrouting priority 100; oifname "r1" masquerade; }; }`,
			[]string{"nftables", "ip nat", "post", "accept_bypass"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := nettest.T0(t)
			cmd := top.Rtr.Command(t.Context(), "nft", "-f", "-")
			cmd.Stdin, cmd.Stderr = strings.NewReader(c.rule), os.Stderr
			require.NoError(t, top.Rtr.Run(cmd), "nft comes with Debian's nftables")
			refuse(t, top.Rtr, weir("run", "--port", "r0", "--port", "r1"), exitFailure, c.words...)
			refuse(t, top.Rtr, weir("check", "--port", "r0", "--port", "r1"), exitUsage, c.words...)

			w := startT0(t, top, "--set", "accept_bypass=true")
			pingBothFamilies(t, top)
			require.Contains(t, strings.Join(w.stats(t).Warnings, "\n"), c.words[1], "what is bypassed is said")
			w.stop(t)
		})
	}
}

// TestRefuseManagement: the interface that leads to the operator is taken only on demand.
func TestRefuseManagement(t *testing.T) {
	for _, c := range []struct{ name, dst, via string }{
		{"IPv4 default route", "default", nettest.AddrD0.String()},
		{"IPv6 default route", "default6", nettest.Addr6D0.String()},
	} {
		t.Run(c.name, func(t *testing.T) {
			top := nettest.T0(t)
			require.NoError(t, top.Rtr.Route(c.dst, c.via, "r1"))
			words := []string{"port r1", "default route", "allow_management: true"}
			refuse(t, top.Rtr, weir("run", "--port", "r0", "--port", "r1"), exitFailure, words...)
			refuse(t, top.Rtr, weir("check", "--port", "r0", "--port", "r1"), exitUsage, words...)
			w := startT0(t, top, "--set", "ports.r1.allow_management=true")
			pingBothFamilies(t, top)
			w.stop(t)
		})
	}
}

// TestRefusePrivilege: who lacks a right is told which, and how to get it.
func TestRefusePrivilege(t *testing.T) {
	top := nettest.T0(t)
	path := publicWeir(t)
	// A kernel with legacy iptables lets only root read which tables there are.
	all := []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_RAW, unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_IPC_LOCK, unix.CAP_DAC_READ_SEARCH}
	without := func(missing uintptr) []uintptr {
		var rest []uintptr
		for _, c := range all {
			if c != missing {
				rest = append(rest, c)
			}
		}
		return rest
	}
	for _, c := range []struct {
		name  string
		caps  []uintptr
		words []string
	}{
		{"none", nil, []string{"CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_BPF", "run as root"}},
		{"CAP_NET_ADMIN", without(unix.CAP_NET_ADMIN), []string{"missing CAP_NET_ADMIN", "run as root", "setcap"}},
		{"CAP_NET_RAW", without(unix.CAP_NET_RAW), []string{"missing CAP_NET_RAW", "run as root", "setcap"}},
		{"CAP_BPF", without(unix.CAP_BPF), []string{"missing CAP_BPF", "run as root", "setcap"}},
		{"CAP_PERFMON", without(unix.CAP_PERFMON), []string{"missing CAP_PERFMON", "run as root", "setcap"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			refuse(t, top.Rtr, unprivileged(path, c.caps, "run", "--port", "r0", "--port", "r1"), exitFailure, c.words...)
		})
	}
	t.Run("demo", func(t *testing.T) {
		refuse(t, top.Rtr, unprivileged(path, nil, "demo"), exitFailure, "CAP_NET_ADMIN", "run as root")
	})
	t.Run("CAP_DAC_READ_SEARCH", func(t *testing.T) {
		if _, err := os.Stat("/proc/net/ip_tables_names"); err != nil {
			t.Skip("this kernel has no legacy iptables: ", err)
		}
		refuse(t, top.Rtr, unprivileged(path, without(unix.CAP_DAC_READ_SEARCH), "run", "--port", "r0", "--port", "r1"), exitFailure,
			"ip_tables_names", "CAP_DAC_READ_SEARCH", "run as root")
	})
	t.Run("locked memory", func(t *testing.T) {
		cmd := unprivileged(path, without(unix.CAP_IPC_LOCK), "run", "--port", "r0", "--port", "r1", "--set", "control.socket="+publicDir(t)+"/s")
		limited(cmd, 64)
		refuse(t, top.Rtr, cmd, exitFailure, "limit of locked memory", "CAP_IPC_LOCK")
	})
	t.Run("enough without root", func(t *testing.T) {
		cmd := unprivileged(path, all, "run", "--port", "r0", "--port", "r1", "--set", "control.socket="+publicDir(t)+"/s")
		limited(cmd, 64)
		p := start(t, top.Rtr, cmd)
		p.waitFor(t, &p.stdout, announcement, startTimeout)
		pingBothFamilies(t, top)
		p.stop(t)
	})
}

const nobody = 65534

// publicWeir is a copy of weir that every user may start: the directory go test builds in is closed to others.
func publicWeir(t *testing.T) string {
	t.Helper()
	self, err := os.ReadFile(weir().Path)
	require.NoError(t, err)
	path := filepath.Join(publicDir(t), "weir")
	require.NoError(t, os.WriteFile(path, self, 0o755))
	return path
}

// unprivileged is weir as an ordinary user with some capabilities.
func unprivileged(path string, caps []uintptr, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}, AmbientCaps: caps}
	return cmd
}

// limited limits the memory the command may lock, in KiB, on its way into it.
func limited(cmd *exec.Cmd, kib int) {
	cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -l %d && exec "$0" "$@"`, kib), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// publicDir is a directory that everybody may use.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-public-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	return dir
}
