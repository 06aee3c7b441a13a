package host

import "errors"

// Finding is one kernel rule set that forwarded packets would no longer meet.
type Finding struct {
	// Object names what was found, such as `nftables table inet filter chain forward`.
	Object string
	// Detail says how much of it there is, such as `3 rules (hook forward, policy drop)`.
	Detail string
}

// String is the finding in one line.
func (f Finding) String() string { return f.Object + ": " + f.Detail }

// Bypassed lists the kernel rules of the current network namespace that weir would bypass on these ports.
func Bypassed(ports []string) ([]Finding, error) { return nil, nil }

// What CheckPort refuses a port for; test with errors.Is.
var (
	ErrNoInterface     = errors.New("no such interface")
	ErrUnsupportedLink = errors.New("kind of interface not supported")
	ErrMember          = errors.New("member of another interface")
	ErrManagement      = errors.New("management interface")
)

// CheckPort says why weir should not forward on this interface; nil if it may.
func CheckPort(name string) error { return nil }

// Queues counts the receive and transmit queues of an interface.
func Queues(name string) (rx, tx int, err error) { return 1, 1, nil }

// Counters are an interface's counters as the kernel keeps them.
type Counters struct {
	RxPackets, TxPackets, RxBytes, TxBytes, RxErrors, TxErrors, RxDropped, TxDropped uint64
	Multicast, RxMissedErrors, RxOverErrors, TxCarrierErrors, RxNohandler            uint64
}

// LinkCounters reads the counters of an interface.
func LinkCounters(name string) (Counters, error) { return Counters{}, nil }

// Capabilities says which capabilities this process lacks; nil if none.
func Capabilities() error { return nil }

// LockedMemory says whether umem bytes of packet memory may be registered by this process; nil if so.
func LockedMemory(umem uint64) error { return nil }

// NetnsInode is the inode of the current network namespace.
func NetnsInode() (uint64, error) { return 0, nil }
