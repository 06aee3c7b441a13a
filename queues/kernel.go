package queues

import "golang.org/x/sys/unix"

// Kernel is what a UMEM needs of the operating system besides its sockets. The
// zero UMEMConfig uses Linux; package ringtest has one on plain memory.
type Kernel interface {
	// Map returns at least size bytes of zeroed memory that starts on a page, and
	// names the size of its pages ("2 MiB", "4 KiB").
	Map(size int) (mapping []byte, pages string, err error)
	// Unmap releases what Map returned, unchanged.
	Unmap(mapping []byte) error
	// Socket makes a socket with its rings, not yet bound. When it fails nothing
	// is left behind.
	Socket(SocketSpec) (Conn, error)
}

// SocketSpec is what [Kernel.Socket] makes.
type SocketSpec struct {
	// Area is the UMEM to register on this socket (XDP_UMEM_REG), nil when the
	// socket is going to share one that is registered already.
	Area      []byte
	FrameSize int // bytes

	NumFill, NumCompletion, NumRX, NumTX int // entries, powers of two; NumTX 0 makes no TX ring
}

// Rings are the four rings of a socket. TX is the zero Ring when there is none.
type Rings struct {
	Fill       Ring[uint64] // frames for the kernel to receive into: we produce
	Completion Ring[uint64] // frames it has finished sending: the kernel produces
	RX         Ring[Desc]   // packets received: the kernel produces
	TX         Ring[Desc]   // packets to send: we produce
}

// Binding is what [Conn.Bind] binds to, the kernel's struct sockaddr_xdp.
type Binding struct {
	Ifindex, Queue int
	Flags          uint16 // XDP_COPY, XDP_ZEROCOPY, XDP_USE_NEED_WAKEUP, or XDP_SHARED_UMEM alone
	SharedFD       int    // a bound socket of the UMEM to share, with XDP_SHARED_UMEM
}

// Conn is one AF_XDP socket as the kernel sees it. Kick and Wake are crossed once
// per batch; neither blocks nor allocates. Everything else is set-up.
type Conn interface {
	FD() int
	Rings() Rings
	// TXBudget is how many descriptors one Kick may send (XDP_MAX_TX_SKB_BUDGET),
	// 0 where the kernel cannot be told.
	TXBudget() int
	Bind(Binding) error
	// ZeroCopy reports what was granted at bind (XDP_OPTIONS).
	ZeroCopy() (bool, error)
	Statistics() (Statistics, error)
	// TakeError returns the pending error of the socket and clears it (SO_ERROR).
	TakeError() error
	// Kick makes the kernel look at TX (sendto). 0 is success.
	Kick() unix.Errno
	// Wake makes the kernel look at Fill (recvfrom). 0 is success.
	Wake() unix.Errno
	// Close closes the socket. It returns nil only when the kernel and the driver
	// no longer touch the UMEM on its behalf; after an error it may be called again.
	Close() error
}
