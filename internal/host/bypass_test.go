package host

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"weir/internal/nettest"
)

// bypassed are the findings for in0 and out0, one line each.
func bypassed(t *testing.T, ns *nettest.NS) []string {
	t.Helper()
	lines := []string{}
	inside(t, ns, func() error {
		found, err := Bypassed([]string{"in0", "out0"})
		for _, f := range found {
			lines = append(lines, f.String())
		}
		return err
	})
	return lines
}

func TestNothingBypassed(t *testing.T) {
	ns := newRouter(t)
	require.Empty(t, bypassed(t, ns))
}

func TestBypassedUnknownPort(t *testing.T) {
	ns := newRouter(t)
	require.NoError(t, ns.Do(func() error {
		_, err := Bypassed([]string{"in0", "eth9"})
		require.ErrorIs(t, err, ErrNoInterface)
		return nil
	}))
}

func TestNftables(t *testing.T) {
	tests := map[string]struct {
		rules string
		want  []string
	}{
		"forward": {
			"table inet filter { chain forward { type filter hook forward priority 0; policy drop; ct state established accept; tcp dport 22 accept; counter; } }",
			[]string{"nftables table inet filter chain forward: 3 rules (hook forward, policy drop)"},
		},
		"policy alone": {
			"table ip f { chain fw { type filter hook forward priority 0; policy drop; } }",
			[]string{"nftables table ip f chain fw: 0 rules (hook forward, policy drop)"},
		},
		"empty":       {"table inet filter { chain forward { type filter hook forward priority 0; policy accept; } }", []string{}},
		"host's own":  {"table inet filter { chain input { type filter hook input priority 0; policy drop; ct state established accept; } chain output { type filter hook output priority 0; counter; } }", []string{}},
		"no hook":     {"table inet filter { chain helper { tcp dport 22 accept; } }", []string{}},
		"bridge, arp": {"table bridge b { chain f { type filter hook forward priority 0; counter; } }\ntable arp a { chain i { type filter hook input priority 0; counter; } }", []string{}},
		"nat": {
			"table ip nat { chain pre { type nat hook prerouting priority -100; } chain post { type nat hook postrouting priority 100; oifname \"out0\" masquerade; } }",
			[]string{"nftables table ip nat chain post: 1 rule (nat, hook postrouting, policy accept)"},
		},
		"raw, IPv6": {
			"table ip6 raw { chain pre { type filter hook prerouting priority -300; notrack; } }",
			[]string{"nftables table ip6 raw chain pre: 1 rule (hook prerouting, policy accept)"},
		},
		"ingress of a port": {
			"table netdev t { chain i { type filter hook ingress device in0 priority 0; counter; } chain e { type filter hook egress device out0 priority 0; policy drop; } }",
			[]string{
				"nftables table netdev t chain i: 1 rule (hook ingress on in0, policy accept)",
				"nftables table netdev t chain e: 0 rules (hook egress on out0, policy drop)",
			},
		},
		"ingress of several": {
			"table inet t { chain i { type filter hook ingress devices = { p1, out0 } priority 0; counter; } }",
			[]string{"nftables table inet t chain i: 1 rule (hook ingress on out0, policy accept)"},
		},
		"ingress of another": {"table netdev t { chain i { type filter hook ingress device p0 priority 0; counter; } }", []string{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ns := newRouter(t)
			execute(t, ns, strings.ReplaceAll(tt.rules, "; }", ";\n}\n"), "nft", "-f", "-")
			require.ElementsMatch(t, tt.want, bypassed(t, ns))
		})
	}
}

func TestIptables(t *testing.T) {
	ns := newRouter(t)
	run(t, ns, "iptables-nft -A FORWARD -p tcp --dport 23 -j DROP")
	require.Equal(t, []string{"nftables table ip filter chain FORWARD: 1 rule (hook forward, policy accept)"}, bypassed(t, ns))
}

func TestIptablesLegacy(t *testing.T) {
	ns := newRouter(t)
	run(t, ns, "iptables-legacy -A INPUT -p tcp --dport 22 -j ACCEPT")
	require.Empty(t, bypassed(t, ns), "a table in use, but empty on the way of forwarded packets")

	run(t, ns, "iptables-legacy -N user")
	run(t, ns, "iptables-legacy -A user -j RETURN")
	run(t, ns, "iptables-legacy -A FORWARD -p tcp --dport 23 -j DROP")
	run(t, ns, "iptables-legacy -A FORWARD -j user")
	run(t, ns, "iptables-legacy -P FORWARD DROP")
	run(t, ns, "iptables-legacy -t nat -A POSTROUTING -o out0 -j MASQUERADE")
	run(t, ns, "iptables-legacy -t mangle -A PREROUTING -j TTL --ttl-set 9")
	run(t, ns, "ip6tables-legacy -A FORWARD -p udp --dport 53 -j ACCEPT")
	run(t, ns, "ip6tables-legacy -t raw -P PREROUTING DROP")
	require.ElementsMatch(t, []string{
		"iptables-legacy table filter chain FORWARD: 2 rules (policy DROP)",
		"iptables-legacy table nat chain POSTROUTING: 1 rule (policy ACCEPT)",
		"iptables-legacy table mangle chain PREROUTING: 1 rule (policy ACCEPT)",
		"ip6tables-legacy table filter chain FORWARD: 1 rule (policy ACCEPT)",
		"ip6tables-legacy table raw chain PREROUTING: 0 rules (policy DROP)",
	}, bypassed(t, ns))
}

func TestTrafficControl(t *testing.T) {
	ns := newRouter(t)
	run(t, ns, "tc qdisc replace dev out0 root pfifo")
	run(t, ns, "tc qdisc add dev in0 clsact")
	run(t, ns, "tc qdisc add dev out0 handle ffff: ingress")
	run(t, ns, "tc qdisc add dev p0 clsact")
	run(t, ns, "tc filter add dev p0 ingress protocol ip pref 1 u32 match u32 0 0 classid 1:1")
	require.Empty(t, bypassed(t, ns), "no filter on a port, and pfifo only queues")

	run(t, ns, "tc filter add dev in0 ingress protocol ip pref 5 u32 match ip dst 10.0.0.1/32 classid 1:1")
	run(t, ns, "tc filter add dev in0 ingress protocol ip pref 5 u32 match ip dst 10.0.0.2/32 classid 1:1")
	run(t, ns, "tc filter add dev in0 ingress protocol ipv6 pref 6 u32 match u32 0 0 classid 1:1")
	run(t, ns, "tc filter add dev in0 egress protocol all pref 7 u32 match u32 0 0 classid 1:1")
	run(t, ns, "tc filter add dev out0 parent ffff: protocol ip pref 8 u32 match u32 0 0 classid 1:1")
	run(t, ns, "tc qdisc replace dev out0 root tbf rate 1mbit burst 10k latency 10ms")
	require.ElementsMatch(t, []string{
		"tc filter on in0 ingress: u32 pref 5 protocol ip, u32 pref 6 protocol ipv6",
		"tc filter on in0 egress: u32 pref 7 protocol all",
		"tc filter on out0 ingress: u32 pref 8 protocol ip",
		"tc qdisc on out0 root: tbf (shapes or classifies)",
	}, bypassed(t, ns))
}

func TestTCX(t *testing.T) {
	ns := newRouter(t)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "count_all", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	require.NoError(t, err)
	defer program.Close()
	index := 0
	inside(t, ns, func() error {
		l, err := findLink("in0")
		index = l.Attrs().Index
		return err
	})
	var attached link.Link
	inside(t, ns, func() (err error) {
		attached, err = link.AttachTCX(link.TCXOptions{Interface: index, Program: program, Attach: ebpf.AttachTCXIngress})
		return err
	})
	info, err := program.Info()
	require.NoError(t, err)
	id, _ := info.ID()
	require.Equal(t, []string{"tcx program on in0 ingress: " + describeProgram(id)}, bypassed(t, ns))
	require.Contains(t, describeProgram(id), `"count_all"`)
	require.NoError(t, attached.Close())
	require.Empty(t, bypassed(t, ns))
}

func TestXfrm(t *testing.T) {
	ns := newRouter(t)
	run(t, ns, "ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir in tmpl src 10.9.0.1 dst 10.9.0.2 proto esp mode tunnel")
	require.Empty(t, bypassed(t, ns), "only the host's own packets meet it")
	run(t, ns, "ip xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 dir fwd tmpl src 10.9.0.1 dst 10.9.0.2 proto esp mode tunnel")
	require.Equal(t, []string{"xfrm policy: src 10.1.0.0/16 dst 10.2.0.0/16 dir fwd"}, bypassed(t, ns))
	run(t, ns, "ip xfrm policy add src 2001:db8::/32 dst 2001:db9::/32 dir out tmpl src 2001:db8::1 dst 2001:db9::1 proto esp mode tunnel")
	require.Len(t, bypassed(t, ns), 1)
	require.Contains(t, bypassed(t, ns)[0], "xfrm policies: ")
}

func TestFew(t *testing.T) {
	require.Equal(t, "a, b, c, d", few([]string{"a", "b", "c", "d"}))
	list := []string{"a", "b", "c", "d", "e", "f"}
	require.Equal(t, "a, b, c, d, and 2 more", few(list))
	require.Equal(t, "e", list[4], "the list is left as it was")
	require.Equal(t, "1 rule", rules(1))
	require.Equal(t, "0 rules", rules(0))
}
