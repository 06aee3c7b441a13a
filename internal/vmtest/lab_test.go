//go:build vm

package vmtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
	"weir/internal/vmtest"
)

// stepTimeout bounds one step in a guest; the slowest takes a few seconds under emulation.
const stepTimeout = time.Minute

// card is one kind of NIC, of which a guest gets two: its ports are name+"0" and name+"1".
type card struct {
	name    string
	model   string // QEMU's
	driver  string // the guest's
	queues  int    // pairs of queues; 0 is one
	options []string
	merges  bool // segments that the host leaves merged reach weir so in generic mode
}

// lab is a guest between hosts. Each of its cards is a T0 of its own, whose src and dst are namespaces here and whose rtr is the guest;
// the guest uses one card at a time.
type lab struct {
	*vmtest.Guest
	guest
	cards map[string]*segment
}

// segment is a card with its hosts:
//
//	src s0 ══ tap ══ QEMU ══ <name>0  guest  <name>1 ══ QEMU ══ tap ══ d0 dst
type segment struct {
	card
	in, out  string // the guest's ports
	src, dst *nettest.NS
}

// programs are compiled once.
var programs = sync.OnceValues(func() (vmtest.Files, error) { return vmtest.BuildPrograms(context.Background(), scratch) })

// boot boots a guest for a test. Why it does not boot is at the end of its console, which is in the error.
func boot(t *testing.T, g guest) *lab {
	t.Helper()
	nettest.RequirePrivilege(t)
	k, err := vmtest.FindKernel(g.kernel)
	require.NoError(t, err)
	files, err := programs()
	require.NoError(t, err)
	m := vmtest.Machine{Kernel: k, CPUs: g.cpus, Files: files, Dir: guestDir(t), Life: 15 * time.Minute}
	l := &lab{guest: g, cards: map[string]*segment{}}
	for i, c := range g.cards {
		s := &segment{card: c, in: c.name + "0", out: c.name + "1"}
		l.cards[c.name] = s
		s.src = newHost(t, "src-"+c.name, "s0", c.queues, nettest.MACs0, &m, nic(c, portMAC(i, 0)))
		s.dst = newHost(t, "dst-"+c.name, "d0", c.queues, nettest.MACd0, &m, nic(c, portMAC(i, 1)))
	}
	m.Start = func(cmd *exec.Cmd) error {
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		return l.cards[g.cards[0].name].src.Start(cmd)
	}
	l.Guest, err = vmtest.Boot(m)
	for _, n := range m.NICs {
		for _, f := range n.Tap {
			require.NoError(t, f.Close())
		}
	}
	if err != nil && emulatorFault(err.Error()) {
		t.Logf("emulator fault: %s", t.Name())
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		select {
		case <-l.Gone():
			t.Logf("the guest has ended; its console:\n%s", l.Console(150))
			if emulatorFault(l.Console(1000)) {
				t.Logf("emulator fault: %s", t.Name())
			}
		default:
		}
		require.NoError(t, l.Close())
	})
	t.Logf("Linux %s with %d CPUs: up after %s", l.Release, g.cpus, l.Booted.Round(10*time.Millisecond))
	l.setup(t)
	return l
}

// guestDir is where a guest's files are, its console among them: under $WEIR_GUESTS, where they are kept, or gone with the test.
func guestDir(t *testing.T) string {
	t.Helper()
	root := os.Getenv("WEIR_GUESTS")
	if root == "" {
		return t.TempDir()
	}
	require.NoError(t, os.MkdirAll(root, 0o755))
	dir, err := os.MkdirTemp(root, strings.ReplaceAll(t.Name(), "/", "-")+"-")
	require.NoError(t, err)
	return dir
}

func nic(c card, mac net.HardwareAddr) vmtest.NIC {
	return vmtest.NIC{Model: c.model, Options: c.options, MAC: mac}
}

// portMAC is the address of a port of the guest: T0's do, where there is only one card.
func portMAC(card, port int) net.HardwareAddr {
	return net.HardwareAddr{2, 0, 0, byte(card), byte(port + 1), 1}
}

// newHost makes a namespace with a tap that is the other end of a NIC of the guest, which it adds to m.
func newHost(t *testing.T, name, link string, queues int, mac net.HardwareAddr, m *vmtest.Machine, n vmtest.NIC) *nettest.NS {
	t.Helper()
	ns, err := nettest.NewNS(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	require.NoError(t, ns.Do(func() (err error) {
		n.Tap, err = vmtest.OpenTap(link, max(queues, 1))
		return err
	}))
	m.NICs = append(m.NICs, n)
	require.NoError(t, ns.SetMAC(link, mac))
	addrs := map[string][4]string{
		"s0": {nettest.AddrS0.String(), nettest.Addr6S0.String(), nettest.AddrR0.String(), nettest.Addr6R0.String()},
		"d0": {nettest.AddrD0.String(), nettest.Addr6D0.String(), nettest.AddrR1.String(), nettest.Addr6R1.String()},
	}[link]
	require.NoError(t, ns.Addr(link, addrs[0]+"/24"))
	require.NoError(t, ns.Addr(link, addrs[1]+"/64"))
	require.NoError(t, ns.Up(link))
	require.NoError(t, ns.Route("default", addrs[2], link))
	require.NoError(t, ns.Route("default6", addrs[3], link))
	return ns
}

// run runs a command in the guest and returns what it prints.
func (l *lab) run(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	out, err := l.Run(ctx, argv...)
	require.NoError(t, err)
	return out
}

// shell runs a script in the guest, of which every line must succeed, and returns what it prints.
func (l *lab) shell(t *testing.T, script string) string {
	t.Helper()
	return l.run(t, "sh", "-ec", script)
}

// setup names the guest's ports and gives its kernel the settings of a quiet network.
func (l *lab) setup(t *testing.T) {
	t.Helper()
	var script strings.Builder
	script.WriteString("ip link set lo up\ncd /proc/sys/net\n" +
		"for f in ipv4/conf/*/rp_filter ipv6/conf/*/accept_dad ipv6/conf/*/accept_ra ipv6/conf/*/router_solicitations; do echo 0 >$f; done\n" +
		"echo 1 >ipv6/conf/all/keep_addr_on_down\n")
	names := map[string]string{}
	for i, c := range l.guest.cards {
		for port := range 2 {
			names[portMAC(i, port).String()] = fmt.Sprint(c.name, port)
		}
	}
	for _, link := range l.links(t) {
		if name, ok := names[link.Address]; ok {
			fmt.Fprintf(&script, "ip link set %s name %s\n", link.Name, name)
			delete(names, link.Address)
		}
	}
	require.Empty(t, names, "NICs that the guest does not have")
	l.shell(t, script.String())
}

// link is what `ip -json link` says about one.
type link struct {
	Name    string   `json:"ifname"`
	Address string   `json:"address"`
	State   string   `json:"operstate"`
	Flags   []string `json:"flags"`
	XDP     any      `json:"xdp"` // the program on it, if any
}

// links are the guest's.
func (l *lab) links(t *testing.T) []link {
	t.Helper()
	var all []link
	require.NoError(t, json.Unmarshal([]byte(l.run(t, "ip", "-json", "link")), &all))
	return all
}

// use gives a card the addresses of T0 for a test. When the test fails, the end of the guest's console is printed.
func (l *lab) use(t *testing.T, name string) *segment {
	t.Helper()
	s := l.cards[name]
	require.NotNil(t, s, "card %s", name)
	l.shell(t, fmt.Sprintf(`
		ip addr add %[3]s/24 dev %[1]s; ip addr add %[4]s/64 dev %[1]s nodad; ip link set %[1]s up
		ip addr add %[5]s/24 dev %[2]s; ip addr add %[6]s/64 dev %[2]s nodad; ip link set %[2]s up`,
		s.in, s.out, nettest.AddrR0, nettest.Addr6R0, nettest.AddrR1, nettest.Addr6R1))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the guest's console:\n%s", l.Console(30))
		}
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		_, err := l.Run(ctx, "sh", "-ec", fmt.Sprintf("for p in %s %s; do ip addr flush dev $p; ip link set $p down; done", s.in, s.out))
		require.NoError(t, err)
	})
	l.carrier(t, s.in, s.out)
	return s
}

// carrier waits until links of the guest are up.
func (l *lab) carrier(t *testing.T, names ...string) {
	t.Helper()
	for deadline := time.Now().Add(stepTimeout); ; {
		up := 0
		for _, link := range l.links(t) {
			if slices.Contains(names, link.Name) && link.State == "UP" {
				up++
			}
		}
		if up == len(names) {
			return
		}
		require.True(t, time.Now().Before(deadline), "%v are not up after %s", names, stepTimeout)
	}
}
