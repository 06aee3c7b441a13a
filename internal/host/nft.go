package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hooks on the way of a forwarded packet, by nftables' names. Input and output are for the host's own packets, which weir leaves to it.
var (
	inetHooks = map[nftables.ChainHook]string{
		unix.NF_INET_PRE_ROUTING: "prerouting", unix.NF_INET_FORWARD: "forward", unix.NF_INET_POST_ROUTING: "postrouting",
		nfInetIngress: "ingress",
	}
	netdevHooks = map[nftables.ChainHook]string{unix.NF_NETDEV_INGRESS: "ingress", unix.NF_NETDEV_EGRESS: "egress"}
)

// nfInetIngress is NF_INET_INGRESS (linux/netfilter.h), which x/sys lacks.
const nfInetIngress = unix.NF_INET_POST_ROUTING + 1

// families whose chains see forwarded packets. Bridge chains do not: members of bridges are no ports.
var families = map[nftables.TableFamily]string{
	nftables.TableFamilyINet: "inet", nftables.TableFamilyIPv4: "ip", nftables.TableFamilyIPv6: "ip6", nftables.TableFamilyNetdev: "netdev",
}

// netfilter lists base chains on the way of forwarded packets that hold rules or drop. Those of iptables-nft are among them.
func netfilter(ports []netlink.Link) ([]Finding, error) {
	conn, err := nftables.New(nftables.AsLasting())
	if err != nil {
		if errors.Is(err, unix.EPROTONOSUPPORT) {
			return nil, nil
		}
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	defer conn.CloseLasting()
	chains, err := conn.ListChains()
	if err != nil {
		// A kernel without nf_tables knows no such request.
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil, nil
		}
		return nil, fmt.Errorf("list nftables chains: %w", err)
	}
	var found []Finding
	for _, c := range chains {
		f, err := inspectChain(conn, c, ports)
		if err != nil {
			return nil, err
		}
		if f != nil {
			found = append(found, *f)
		}
	}
	return found, nil
}

// inspectChain is the finding a chain gives, or nil.
func inspectChain(conn *nftables.Conn, c *nftables.Chain, ports []netlink.Link) (*Finding, error) {
	family, ok := families[c.Table.Family]
	if !ok || c.Hooknum == nil {
		return nil, nil
	}
	hooks := inetHooks
	if c.Table.Family == nftables.TableFamilyNetdev {
		hooks = netdevHooks
	}
	hook, ok := hooks[*c.Hooknum]
	if !ok {
		return nil, nil
	}
	name := fmt.Sprintf("nftables table %s %s chain %s", family, c.Table.Name, c.Name)
	if hook == "ingress" || hook == "egress" {
		devices, err := hookDevices(c)
		if err != nil {
			return nil, fmt.Errorf("ask for the devices of %s: %w", name, err)
		}
		i := slices.IndexFunc(ports, func(l netlink.Link) bool { return devices.match(l.Attrs().Name) })
		if i < 0 {
			return nil, nil
		}
		hook += " on " + ports[i].Attrs().Name
	}
	list, err := conn.GetRules(c.Table, c)
	if err != nil {
		return nil, fmt.Errorf("list the rules of %s: %w", name, err)
	}
	policy := "accept"
	if c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop {
		policy = "drop"
	}
	if len(list) == 0 && policy == "accept" {
		return nil, nil
	}
	detail := fmt.Sprintf("hook %s, policy %s", hook, policy)
	if c.Type == nftables.ChainTypeNAT {
		detail = "nat, " + detail
	}
	return &Finding{name, fmt.Sprintf("%s (%s)", rules(len(list)), detail)}, nil
}
