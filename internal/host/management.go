package host

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// management says why an interface may be the operator's way in, or nothing.
func management(link netlink.Link) (reason string, err error) {
	if reason, err = defaultRoute(link); reason != "" || err != nil {
		return reason, err
	}
	for _, s := range loginSessions() {
		if reason, err = s.uses(link); reason != "" || err != nil {
			return reason, err
		}
	}
	return "", nil
}

// defaultRoute looks for a default route of the main table through an interface.
func defaultRoute(link netlink.Link) (string, error) {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := dump(func() ([]netlink.Route, error) {
			return netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return "", fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if isDefault(r) && leavesBy(r, link.Attrs().Index) {
				if family == unix.AF_INET6 {
					return "carries the IPv6 default route", nil
				}
				return "carries the default route", nil
			}
		}
	}
	return "", nil
}

// isDefault tells a unicast route to everywhere.
func isDefault(r netlink.Route) bool {
	if r.Type != unix.RTN_UNICAST {
		return false
	}
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0 && r.Dst.IP.IsUnspecified()
}

// leavesBy tells whether any next hop of a route is at an interface.
func leavesBy(r netlink.Route, index int) bool {
	for _, hop := range r.MultiPath {
		if hop.LinkIndex == index {
			return true
		}
	}
	return r.LinkIndex == index
}

// loginSession is a connection somebody is logged in by.
type loginSession struct{ client, server netip.Addr }

// uses says why a session goes through an interface, or nothing. A session whose address is in another network namespace does not.
func (s loginSession) uses(link netlink.Link) (string, error) {
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, unix.AF_UNSPEC) })
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	index, here := link.Attrs().Index, false
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); !ok || ip.Unmap() != s.server.WithZone("") {
			continue
		}
		// A link-local address may be on several interfaces; its zone says which is meant.
		if zone := s.server.Zone(); zone != "" && zone != link.Attrs().Name {
			continue
		}
		if a.LinkIndex == index {
			return fmt.Sprintf("has %v, the address of this login session", s.server), nil
		}
		here = true
	}
	if !here || s.client.Zone() != "" {
		return "", nil
	}
	routes, err := netlink.RouteGet(net.IP(s.client.AsSlice()))
	switch {
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EACCES), errors.Is(err, unix.EINVAL):
		return "", nil // no way to the client, or a route that refuses: then it is not by this interface
	case err != nil:
		return "", fmt.Errorf("ask for the route to %v: %w", s.client, err)
	}
	for _, r := range routes {
		if r.LinkIndex == index {
			return fmt.Sprintf("leads to %v, the client of this login session", s.client), nil
		}
	}
	return "", nil
}

// loginSessions are the SSH connections this process was started under: sshd leaves them in the environment, sudo takes them out of its
// child's, so the ancestors' are read as well. utmp knows only the client and is not kept everywhere.
func loginSessions() []loginSession {
	var found []loginSession
	add := func(text string) {
		if s, ok := parseSSHConnection(text); ok {
			found = append(found, s)
		}
	}
	add(os.Getenv("SSH_CONNECTION"))
	// The bound is for a process table that changes while it is read.
	for pid, depth := os.Getppid(), 0; pid > 1 && depth < 64; pid, depth = parent(pid), depth+1 {
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // another user's: the others may still be readable
		}
		for entry := range strings.SplitSeq(string(environ), "\x00") {
			if value, ok := strings.CutPrefix(entry, "SSH_CONNECTION="); ok {
				add(value)
			}
		}
	}
	return found
}

// parent is the parent of a process, or 0.
func parent(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(value))
			return n
		}
	}
	return 0
}

// parseSSHConnection reads "client port server port".
func parseSSHConnection(text string) (loginSession, bool) {
	f := strings.Fields(text)
	if len(f) != 4 {
		return loginSession{}, false
	}
	client, err := netip.ParseAddr(f[0])
	if err != nil {
		return loginSession{}, false
	}
	server, err := netip.ParseAddr(f[2])
	if err != nil {
		return loginSession{}, false
	}
	return loginSession{client.Unmap(), server.Unmap()}, true
}
