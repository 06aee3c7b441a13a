package host

import (
	"encoding/binary"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

var errAttributes = errors.New("netlink attributes are not laid out as expected")

// nested calls f for each netlink attribute in a message, with the flags off its type. value is part of attrs.
// The parsers of our netlink libraries trust the kernel; this one only its bounds.
func nested(attrs []byte, f func(kind uint16, value []byte) error) error {
	for len(attrs) >= unix.NLA_HDRLEN {
		size := int(binary.NativeEndian.Uint16(attrs))
		if size < unix.NLA_HDRLEN || size > len(attrs) {
			return errAttributes
		}
		kind := binary.NativeEndian.Uint16(attrs[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
		if err := f(kind, attrs[unix.NLA_HDRLEN:size]); err != nil {
			return err
		}
		aligned := (size + unix.NLA_ALIGNTO - 1) &^ (unix.NLA_ALIGNTO - 1)
		attrs = attrs[min(aligned, len(attrs)):]
	}
	return nil
}

// cString is text up to its closing zero, or all of it.
func cString(value []byte) string {
	text, _, _ := strings.Cut(string(value), "\x00")
	return text
}
