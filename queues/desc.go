package queues

// Desc describes one packet in a UMEM. It has the layout of the kernel's struct
// xdp_desc (include/uapi/linux/if_xdp.h), because RX and TX rings are arrays of it.
type Desc struct {
	Addr    uint64 // byte offset of the first byte of the packet in the UMEM
	Len     uint32 // bytes
	Options uint32 // zero: packets are whole, one descriptor each
}

// RXHeadroom is how many bytes the kernel leaves free in front of a received
// packet (XDP_PACKET_HEADROOM). A packet that is larger than the frame size less
// this does not fit into a frame, and the kernel drops it.
const RXHeadroom = 256
