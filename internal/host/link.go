package host

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
)

// Why [CheckPort] refuses an interface; test with errors.Is. ErrManagement is the only one that a user may overrule.
var (
	// ErrNoInterface means that the network namespace has no interface of that name.
	ErrNoInterface = errors.New("no such interface")
	// ErrLoopback means the loopback interface.
	ErrLoopback = errors.New("loopback interface")
	// ErrUnsupportedLink means an interface made of others or without Ethernet frames: bond, bridge, VLAN, macvlan, tunnel and the like.
	ErrUnsupportedLink = errors.New("kind of interface not supported")
	// ErrMember means that a bond, a bridge, a VRF or the like owns the interface.
	ErrMember = errors.New("member of another interface")
	// ErrManagement means that the operator may be reaching this machine through the interface.
	ErrManagement = errors.New("management interface")
)

// CheckPort says why weir should not forward on an interface; nil if it may. The faults are looked for in the order of their errors
// above, so an error that is [ErrManagement] is the only fault.
func CheckPort(name string) error {
	link, err := findLink(name)
	if err != nil {
		return err
	}
	if err := checkKind(link); err != nil {
		return err
	}
	if index := link.Attrs().MasterIndex; index != 0 {
		master, err := netlink.LinkByIndex(index)
		if err != nil {
			return fmt.Errorf("port %s: ask for the interface it is a member of: %w", name, err)
		}
		return memberError(name, master)
	}
	reason, err := management(link)
	if err != nil {
		return fmt.Errorf("port %s: find out whether it is the management interface: %w", name, err)
	}
	if reason != "" {
		return fmt.Errorf("port %s: %w (%s): use another interface, or set allow_management: true for it", name, ErrManagement, reason)
	}
	return nil
}

// kinds are the rtnetlink kinds a port may have, as package netlink calls them. Hardware and virtio have none: "device".
var kinds = map[string]bool{"device": true, "veth": true, "tuntap": true, "dummy": true, "netdevsim": true}

// checkKind refuses what is not one Ethernet device of its own.
func checkKind(link netlink.Link) error {
	a := link.Attrs()
	if a.Flags&net.FlagLoopback != 0 {
		return fmt.Errorf("port %s: %w: name a physical, virtio, veth or tap interface", a.Name, ErrLoopback)
	}
	if !kinds[link.Type()] {
		return fmt.Errorf("port %s: %w (%s): name a physical, virtio, veth or tap interface", a.Name, ErrUnsupportedLink, link.Type())
	}
	if a.EncapType != "ether" {
		return fmt.Errorf("port %s: %w (%s, not Ethernet): name a physical, virtio, veth or tap interface", a.Name, ErrUnsupportedLink, a.EncapType)
	}
	return nil
}

// memberError names whose member a port is.
func memberError(name string, master netlink.Link) error {
	m := master.Attrs().Name
	return fmt.Errorf("port %s: %w (%s %s): take it out (ip link set %s nomaster), or use another interface",
		name, ErrMember, master.Type(), m, name)
}

// findLink is the link of that name; the error wraps ErrNoInterface when there is none.
func findLink(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, fmt.Errorf("port %s: %w in this network namespace: ip link lists those there are", name, ErrNoInterface)
	case err != nil:
		return nil, fmt.Errorf("port %s: ask for the interface: %w", name, err)
	case link.Attrs().Name != name:
		// The kernel also finds alternative names, under which nothing else here would find the interface.
		return nil, fmt.Errorf("port %s: %w of that name: it is another name of %s, use that", name, ErrNoInterface, link.Attrs().Name)
	}
	return link, nil
}
