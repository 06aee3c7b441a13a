package xdpprog

import "strconv"

// AttachMode says how the receive program is attached to an interface.
type AttachMode int

const (
	// AttachAuto asks for native and settles for generic. [Port.Mode] says which it became, [Port.NativeRefused] why.
	AttachAuto AttachMode = iota
	// AttachNative runs the program in the driver, before a socket buffer exists. As a wish it is a requirement.
	AttachNative
	// AttachGeneric runs the program in the kernel's core, on socket buffers, for any driver. As a wish it is a requirement. It does
	// not see tags kept beside the frame, see [Port.SeesTags].
	AttachGeneric
)

// String returns auto, native or generic.
func (m AttachMode) String() string {
	switch m {
	case AttachAuto:
		return "auto"
	case AttachNative:
		return "native"
	case AttachGeneric:
		return "generic"
	}
	return "mode " + strconv.Itoa(int(m))
}
