package queues

// Statistics are the kernel's counters of one socket since it was made, under the
// kernel's names (struct xdp_statistics, XDP_STATISTICS).
type Statistics struct {
	RXDropped            uint64 // rx_dropped: packets dropped for want of a Fill frame (copy mode) or too large for one
	RXInvalidDescs       uint64 // rx_invalid_descs: Fill entries the kernel refused
	TXInvalidDescs       uint64 // tx_invalid_descs: TX entries the kernel refused; their frames never complete
	RXRingFull           uint64 // rx_ring_full: packets dropped because RX was full; not in RXDropped
	RXFillRingEmptyDescs uint64 // rx_fill_ring_empty_descs: times a frame was wanted and Fill was empty; in copy mode each is in RXDropped too
	TXRingEmptyDescs     uint64 // tx_ring_empty_descs: times the kernel looked at TX and found nothing
}

// Counters are a socket's own counters. They only grow and stay readable after Close.
type Counters struct {
	Kicks            uint64 // sendto calls
	KicksInterrupted uint64 // of these: EINTR
	KicksAgain       uint64 // EAGAIN: stopped by budget, Completion ring, send buffer or device queue
	KicksBusy        uint64 // EBUSY: the device dropped one packet, whose frame completes
	KicksNoBuffer    uint64 // ENOBUFS, ENOMEM
	KicksDown        uint64 // ENETDOWN
	KicksGone        uint64 // ENXIO
	KicksFailed      uint64 // any other errno
	Wakes            uint64 // recvfrom calls for an idle Fill ring
	WakesFailed      uint64 // of these: with an errno other than EINTR and EAGAIN

	RXInvalid         uint64 // descriptors in RX that were refused: not this socket's frame, or leaving it
	TXInvalid         uint64 // descriptors given to Send that were refused: frame not held, or leaving it
	CompletionInvalid uint64 // entries of Completion that were refused: not in transmission here

	RXAbandoned uint64 // packets still unread in RX at Close
	TXAbandoned uint64 // packets still in TX, not taken by the kernel, at Close
}
