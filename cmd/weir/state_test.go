package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/safchain/ethtool"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// hostState is what weir could change in a network namespace, each thing under a name: links with their features, queues and programs,
// addresses, routes, rules, queueing disciplines, sysctls.
type hostState map[string]string

// stateOf reads the state of a namespace. Neighbours are left out: the kernel changes them by itself.
func stateOf(t *testing.T, ns *nettest.NS) hostState {
	t.Helper()
	s := hostState{}
	require.NoError(t, ns.Do(func() error {
		if err := s.readLinks(); err != nil {
			return err
		}
		if err := s.readRoutes(); err != nil {
			return err
		}
		return s.readSysctls()
	}))
	return s
}

func (s hostState) readLinks() error {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return err
	}
	defer e.Close()
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, l := range links {
		a := l.Attrs()
		key := "link " + a.Name
		s[key] = fmt.Sprintf("%s index %d mtu %d mac %s flags %s promisc %d allmulti %d master %d queues %d/%d txqlen %d state %s",
			l.Type(), a.Index, a.MTU, a.HardwareAddr, a.Flags, a.Promisc, a.Allmulti, a.MasterIndex, a.NumRxQueues, a.NumTxQueues, a.TxQLen, a.OperState)
		if a.Xdp != nil {
			s[key+" xdp"] = fmt.Sprintf("attached %v mode %d program %d", a.Xdp.Attached, a.Xdp.AttachMode, a.Xdp.ProgId)
		}
		features, err := e.Features(a.Name)
		if err != nil {
			return err
		}
		s[key+" features"] = fmt.Sprint(features) // maps print in the order of their keys
		if channels, err := e.GetChannels(a.Name); err == nil {
			s[key+" channels"] = fmt.Sprint(channels)
		}
		addrs, err := netlink.AddrList(l, unix.AF_UNSPEC)
		if err != nil {
			return err
		}
		s[key+" addresses"] = fmt.Sprint(addrs)
		disciplines, err := netlink.QdiscList(l)
		if err != nil {
			return err
		}
		for _, q := range disciplines {
			s[key+" qdisc"] += q.Type() + " "
		}
	}
	return nil
}

func (s hostState) readRoutes() error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		rules, err := netlink.RuleList(family)
		if err != nil {
			return err
		}
		s[fmt.Sprintf("routes %d", family)] = fmt.Sprint(routes)
		s[fmt.Sprintf("rules %d", family)] = fmt.Sprint(rules)
	}
	return nil
}

// readSysctls reads all of /proc/sys/net but what counts or is random by nature. The files resolve by the calling thread's namespace.
func (s hostState) readSysctls() error {
	return filepath.WalkDir("/proc/sys/net", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_count") || strings.HasSuffix(path, "stable_secret") {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil { // others can only be written
			s["sysctl "+path] = string(b)
		}
		return nil
	})
}

// programOn is the id of the XDP program on a link, 0 for none.
func programOn(t *testing.T, ns *nettest.NS, link string) uint32 {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	if l.Attrs().Xdp == nil || !l.Attrs().Xdp.Attached {
		return 0
	}
	return l.Attrs().Xdp.ProgId
}

// requireUntouched requires that T0's router has no program on its ports.
func requireDetached(t *testing.T, ns *nettest.NS, links ...string) {
	t.Helper()
	for _, l := range links {
		require.Zero(t, programOn(t, ns, l), "XDP program left on %s", l)
	}
}

// setChannels sets how many queues of each kind a link uses, as `ethtool -L` does.
func setChannels(t *testing.T, ns *nettest.NS, link string, rx, tx int) {
	t.Helper()
	require.NoError(t, ns.Do(func() error {
		e, err := ethtool.NewEthtool()
		if err != nil {
			return err
		}
		defer e.Close()
		c, err := e.GetChannels(link)
		if err != nil {
			return err
		}
		c.RxCount, c.TxCount = uint32(rx), uint32(tx)
		_, err = e.SetChannels(link, c)
		return err
	}))
}

// droppedBy is how many packets the driver of a link dropped on transmit.
func droppedBy(t *testing.T, ns *nettest.NS, link string) uint64 {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	return l.Attrs().Statistics.TxDropped
}

// droppedBehind are the packets that reached a link and that its host's own queue (net.core.netdev_max_backlog) had no room for.
func droppedBehind(t *testing.T, ns *nettest.NS, link string) uint64 {
	t.Helper()
	l, err := ns.Link(link)
	require.NoError(t, err)
	return l.Attrs().Statistics.RxDropped
}

// snmp reads a counter of /proc/net/snmp (Udp, Tcp: IPv4 and, for Tcp, both) or /proc/net/snmp6 of a namespace; each exists twice in the
// first, as a heading and a value.
func snmp(t *testing.T, ns *nettest.NS, group, name string) uint64 {
	t.Helper()
	var value uint64
	require.NoError(t, ns.Do(func() error {
		b, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var heading []string
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if f[0] != group+":" {
				continue
			}
			if heading == nil {
				heading = f
				continue
			}
			for i, h := range heading {
				if h == name {
					_, err := fmt.Sscan(f[i], &value)
					return err
				}
			}
		}
		return fmt.Errorf("no counter %s %s", group, name)
	}))
	return value
}
