package queues

import "fmt"

// Mode says whether packets are copied between the UMEM and the driver.
type Mode uint8

// Auto takes what the kernel grants; [Socket.Mode] tells which. The others are
// requirements: a socket that cannot have its mode is not opened.
const (
	Auto     Mode = iota // zero copy where the driver can, else copy
	ZeroCopy             // the driver works on the UMEM itself (XDP_ZEROCOPY)
	Copy                 // the kernel copies every packet (XDP_COPY)
)

// String returns "auto", "zerocopy" or "copy".
func (m Mode) String() string {
	switch m {
	case Auto:
		return "auto"
	case ZeroCopy:
		return "zerocopy"
	case Copy:
		return "copy"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the inverse of [Mode.String].
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Auto, ZeroCopy, Copy} {
		if s == m.String() {
			return m, nil
		}
	}
	return Auto, fmt.Errorf("mode %q: unknown: use auto, zerocopy or copy", s)
}
