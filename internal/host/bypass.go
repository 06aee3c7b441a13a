package host

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// Finding is something in the kernel that forwarded packets will not meet while weir forwards them.
type Finding struct {
	// Object is its name in the words of the tool that shows it: `nftables table inet filter chain forward`.
	Object string
	// Detail says how much there is of it: `3 rules (hook forward, policy drop)`.
	Detail string
}

// String is the finding in one line.
func (f Finding) String() string { return f.Object + ": " + f.Detail }

// Bypassed lists what weir would bypass if it forwarded on these ports: nftables and legacy iptables rules on the way of forwarded
// packets, tc filters, shaping and tcx programs on the ports, and xfrm policies. Chains without rules that accept, and queueing
// disciplines that only queue, are not listed. A port that does not exist is an error wrapping [ErrNoInterface]. Needs CAP_NET_ADMIN.
func Bypassed(ports []string) ([]Finding, error) {
	links := make([]netlink.Link, len(ports))
	for i, name := range ports {
		l, err := findLink(name)
		if err != nil {
			return nil, err
		}
		links[i] = l
	}
	var all []Finding
	for _, look := range []func([]netlink.Link) ([]Finding, error){netfilter, iptables, trafficControl, tcx, xfrm} {
		found, err := look(links)
		if err != nil {
			return nil, fmt.Errorf("look for kernel rules that would be bypassed: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// dump repeats a dump that the kernel marks as interrupted by a change, a few times.
func dump[T any](f func() (T, error)) (T, error) {
	var result T
	var err error
	for range 5 {
		if result, err = f(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return result, err
}

// rules is "1 rule" or "3 rules".
func rules(n int) string {
	if n == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", n)
}

// few joins the first few of a list that may be long.
func few(list []string) string {
	const most = 4
	if len(list) > most {
		list = append(list[:most:most], fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, ", ")
}
