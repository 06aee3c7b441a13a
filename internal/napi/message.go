package napi

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// What of linux/netdev.h this package uses.
const (
	familyName    = "netdev"
	familyVersion = 1

	cmdQueueGet = 10
	cmdNAPIGet  = 11
	cmdNAPISet  = 14

	attrNAPIIfindex       = 1
	attrNAPIID            = 2
	attrNAPIIRQ           = 3
	attrNAPIPID           = 4
	attrNAPIDeferHardIRQs = 5
	attrNAPIGROFlush      = 6
	attrNAPIIRQSuspend    = 7
	attrNAPIThreaded      = 8

	attrQueueID      = 1
	attrQueueIfindex = 2
	attrQueueType    = 3
	attrQueueNAPIID  = 4

	queueTypeRX = 0
)

const (
	sizeofGenlMsghdr = 4
	sizeofHeaders    = unix.SizeofNlMsghdr + sizeofGenlMsghdr
	attrTypeMask     = 1<<14 - 1 // NLA_TYPE_MASK of linux/netlink.h
)

// request begins a message of a generic netlink family. Its length is set by finish, its sequence number by each sending.
func request(family, flags uint16, command uint8) []byte {
	b := make([]byte, sizeofHeaders, 128)
	binary.NativeEndian.PutUint16(b[4:], family)
	binary.NativeEndian.PutUint16(b[6:], flags|unix.NLM_F_REQUEST)
	b[unix.SizeofNlMsghdr] = command
	b[unix.SizeofNlMsghdr+1] = familyVersion
	return b
}

// finish writes the length of a message into it.
func finish(b []byte) []byte {
	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	return b
}

// appendAttr appends an attribute and its padding.
func appendAttr(b []byte, kind uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%unix.NLA_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

func appendUint32(b []byte, kind uint16, v uint32) []byte {
	return appendAttr(b, kind, binary.NativeEndian.AppendUint32(nil, v))
}

func appendUint64(b []byte, kind uint16, v uint64) []byte {
	return appendAttr(b, kind, binary.NativeEndian.AppendUint64(nil, v))
}

// answer is one message received: its header's fields, and the rest as a view into the buffer it was received in.
type answer struct {
	kind, flags uint16
	seq         uint32
	body        []byte
}

// nextAnswer takes the first message off a datagram. ok is false at its end, and when what is left is no message.
func nextAnswer(b []byte) (m answer, rest []byte, ok bool) {
	if len(b) < unix.SizeofNlMsghdr {
		return answer{}, nil, false
	}
	length := binary.NativeEndian.Uint32(b)
	if length < unix.SizeofNlMsghdr || uint64(length) > uint64(len(b)) {
		return answer{}, nil, false
	}
	m = answer{
		kind:  binary.NativeEndian.Uint16(b[4:]),
		flags: binary.NativeEndian.Uint16(b[6:]),
		seq:   binary.NativeEndian.Uint32(b[8:]),
		body:  b[unix.SizeofNlMsghdr:length],
	}
	return m, b[min(align(int(length)), len(b)):], true
}

// nextAttr takes the first attribute off b. ok is false at the end, and when what is left is no attribute.
func nextAttr(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < unix.SizeofNlAttr {
		return 0, nil, nil, false
	}
	length := int(binary.NativeEndian.Uint16(b))
	if length < unix.SizeofNlAttr || length > len(b) {
		return 0, nil, nil, false
	}
	kind = binary.NativeEndian.Uint16(b[2:]) & attrTypeMask
	return kind, b[unix.SizeofNlAttr:length], b[min(align(length), len(b)):], true
}

func align(n int) int { return (n + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1) }

// number reads an attribute that the kernel sends in 4 or 8 bytes as it needs (NLA_UINT), or in 2. Anything else is 0.
func number(value []byte) uint64 {
	switch len(value) {
	case 2:
		return uint64(binary.NativeEndian.Uint16(value))
	case 4:
		return uint64(binary.NativeEndian.Uint32(value))
	case 8:
		return binary.NativeEndian.Uint64(value)
	}
	return 0
}
