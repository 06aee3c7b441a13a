package host

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// Counters are an interface's own, since it was made, by the kernel's names (struct rtnl_link_stats64, linux/if_link.h).
type Counters struct {
	// RxPackets and TxPackets are packets received and sent.
	RxPackets, TxPackets uint64
	// RxBytes and TxBytes are their bytes, without frame checksums.
	RxBytes, TxBytes uint64
	// RxErrors and TxErrors are bad packets received and failures to send.
	RxErrors, TxErrors uint64
	// RxDropped are packets received and not processed for want of room; TxDropped those dropped on the way out.
	RxDropped, TxDropped uint64
	// RxOverErrors are packets that found no room in the device's ring; RxMissedErrors those the host was too slow to take.
	RxOverErrors, RxMissedErrors uint64
	// TxCarrierErrors are packets not sent for loss of carrier.
	TxCarrierErrors uint64
	// Multicast are multicast packets received.
	Multicast uint64
}

// LinkCounters reads the counters of the interface with an index, whatever its name is by now. The error wraps [ErrNoInterface] when
// there is none.
func LinkCounters(ifindex int) (Counters, error) {
	link, err := netlink.LinkByIndex(ifindex)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return Counters{}, fmt.Errorf("interface %d: %w: it was removed", ifindex, ErrNoInterface)
	}
	if err != nil {
		return Counters{}, fmt.Errorf("read the counters of interface %d: %w", ifindex, err)
	}
	s := link.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("interface %d: the kernel reports no counters for it", ifindex)
	}
	return Counters{
		RxPackets: s.RxPackets, TxPackets: s.TxPackets,
		RxBytes: s.RxBytes, TxBytes: s.TxBytes,
		RxErrors: s.RxErrors, TxErrors: s.TxErrors,
		RxDropped: s.RxDropped, TxDropped: s.TxDropped,
		RxOverErrors: s.RxOverErrors, RxMissedErrors: s.RxMissedErrors,
		TxCarrierErrors: s.TxCarrierErrors,
		Multicast:       s.Multicast,
	}, nil
}
