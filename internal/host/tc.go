package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// queueing are the disciplines that only hold packets; what AF_XDP sends is held by its own rings instead. Any other one at the root of
// a port classifies, shapes or marks, and packets that weir sends would escape it.
var queueing = []string{"noqueue", "noop", "pfifo", "bfifo", "pfifo_fast", "pfifo_head_drop", "mq", "fq", "fq_codel", "fq_pie", "codel", "pie", "sfq"}

// trafficControl lists tc filters at ingress and egress of the ports, and shaping at their root.
func trafficControl(ports []netlink.Link) ([]Finding, error) {
	var found []Finding
	for _, port := range ports {
		name := port.Attrs().Name
		qdiscs, err := dump(func() ([]netlink.Qdisc, error) { return netlink.QdiscList(port) })
		if err != nil {
			return nil, fmt.Errorf("list tc qdiscs of %s: %w", name, err)
		}
		for _, q := range qdiscs {
			f, err := inspectQdisc(port, q)
			if err != nil {
				return nil, fmt.Errorf("list tc filters of %s: %w", name, err)
			}
			found = append(found, f...)
		}
	}
	return found, nil
}

// inspectQdisc is what one qdisc of a port gives.
func inspectQdisc(port netlink.Link, q netlink.Qdisc) ([]Finding, error) {
	name := port.Attrs().Name
	// Ingress and clsact are one kind to the kernel's numbers; filters of the former hang at its handle, of the latter at two parents.
	sides := map[string][]struct {
		name   string
		parent uint32
	}{
		"ingress": {{"ingress", q.Attrs().Handle}},
		"clsact":  {{"ingress", netlink.HANDLE_MIN_INGRESS}, {"egress", netlink.HANDLE_MIN_EGRESS}},
	}
	var found []Finding
	for _, side := range sides[q.Type()] {
		filters, err := dump(func() ([]string, error) { return tcFilters(port, side.parent) })
		if err != nil {
			return nil, err
		}
		if len(filters) > 0 {
			found = append(found, Finding{fmt.Sprintf("tc filter on %s %s", name, side.name), few(filters)})
		}
	}
	if q.Attrs().Parent == netlink.HANDLE_ROOT && !slices.Contains(queueing, q.Type()) {
		found = append(found, Finding{fmt.Sprintf("tc qdisc on %s root", name), q.Type() + " (shapes or classifies)"})
	}
	return found, nil
}

// tcFilters lists the filters at a parent as tc names them: `bpf pref 1 protocol all`. A filter with many entries counts once.
func tcFilters(port netlink.Link, parent uint32) ([]string, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETTFILTER, unix.NLM_F_DUMP)
	req.AddData(&nl.TcMsg{Family: unix.AF_UNSPEC, Ifindex: int32(port.Attrs().Index), Parent: parent})
	msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWTFILTER)
	if err != nil {
		return nil, err
	}
	var filters []string
	for _, m := range msgs {
		if len(m) < nl.SizeofTcMsg {
			continue
		}
		pref, protocol := netlink.MajorMinor(nl.DeserializeTcMsg(m).Info)
		err := nested(m[nl.SizeofTcMsg:], func(kind uint16, value []byte) error {
			if kind != nl.TCA_KIND {
				return nil
			}
			f := fmt.Sprintf("%s pref %d protocol %s", cString(value), pref, etherType(nl.Swap16(protocol)))
			if !slices.Contains(filters, f) {
				filters = append(filters, f)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return filters, nil
}

// etherType is an Ethernet protocol as tc prints it.
func etherType(n uint16) string {
	switch n {
	case unix.ETH_P_ALL:
		return "all"
	case unix.ETH_P_IP:
		return "ip"
	case unix.ETH_P_IPV6:
		return "ipv6"
	case unix.ETH_P_8021Q:
		return "802.1Q"
	}
	return fmt.Sprintf("0x%04x", n)
}

// tcx lists BPF programs attached to the ports by bpf_link (Linux 6.6 and later), which tc does not show as filters.
func tcx(ports []netlink.Link) ([]Finding, error) {
	var found []Finding
	for _, port := range ports {
		for _, side := range []struct {
			name   string
			attach ebpf.AttachType
		}{{"ingress", ebpf.AttachTCXIngress}, {"egress", ebpf.AttachTCXEgress}} {
			name := fmt.Sprintf("tcx program on %s %s", port.Attrs().Name, side.name)
			attached, err := link.QueryPrograms(link.QueryOptions{Target: port.Attrs().Index, Attach: side.attach})
			if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
				return nil, nil
			}
			if err != nil {
				return nil, fmt.Errorf("ask for a %s: %w", name, err)
			}
			var programs []string
			for _, p := range attached.Programs {
				programs = append(programs, describeProgram(p.ID))
			}
			if len(programs) > 0 {
				found = append(found, Finding{name, few(programs)})
			}
		}
	}
	return found, nil
}

// describeProgram is a BPF program's id and name.
func describeProgram(id ebpf.ProgramID) string {
	text := fmt.Sprintf("id %d", id)
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return text // gone meanwhile; the id still says which it was
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil || info.Name == "" {
		return text
	}
	return fmt.Sprintf("%s %q", text, info.Name)
}
