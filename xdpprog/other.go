package xdpprog

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// OtherProgramError says that an XDP program of someone else is attached to the interface. It is left as it is. It unwraps to
// unix.EBUSY.
type OtherProgramError struct {
	Interface string
	ProgramID uint32
	Name      string // as loaded; may be empty
	Mode      string // native, generic or offload
}

// Error names the interface, the program and how to get rid of it.
func (e *OtherProgramError) Error() string {
	how := map[string]string{"native": "xdpdrv", "generic": "xdpgeneric", "offload": "xdpoffload"}[e.Mode]
	return fmt.Sprintf("attach %s: another XDP program is attached (id %d %q, %s): stop its owner, or detach it (ip link set dev %s %s off)",
		e.Interface, e.ProgramID, e.Name, e.Mode, e.Interface, how)
}

// Unwrap returns unix.EBUSY.
func (e *OtherProgramError) Unwrap() error { return unix.EBUSY }

// CheckFree returns an *OtherProgramError if an interface of the calling thread's network namespace has an XDP program attached.
func CheckFree(name string, ifindex int) error {
	id, mode, err := attachedProgram(ifindex)
	if err != nil {
		return fmt.Errorf("attach %s: look for other XDP programs: %w", name, explain(err))
	}
	if id == 0 {
		return nil
	}
	e := &OtherProgramError{Interface: name, ProgramID: id, Mode: mode}
	if prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id)); err == nil {
		if info, err := prog.Info(); err == nil {
			e.Name = info.Name
		}
		prog.Close()
	}
	return e
}

// Attributes of IFLA_XDP that carry the id of a program, by mode (include/uapi/linux/if_link.h).
var xdpModes = map[uint16]string{
	5: "native",  // IFLA_XDP_DRV_PROG_ID
	6: "generic", // IFLA_XDP_SKB_PROG_ID
	7: "offload", // IFLA_XDP_HW_PROG_ID
}

// nlaTypeMask strips the flags from a netlink attribute's type (include/uapi/linux/netlink.h).
const nlaTypeMask = 0x3fff

// attachedProgram returns the id and mode of the XDP program attached to an interface, or 0.
func attachedProgram(ifindex int) (id uint32, mode string, err error) {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return 0, "", err
	}
	msgs, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return 0, "", err
	}
	for i := range msgs {
		m := &msgs[i]
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg || binary.NativeEndian.Uint32(m.Data[4:]) != uint32(ifindex) {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(m)
		if err != nil {
			return 0, "", err
		}
		for _, a := range attrs {
			if a.Attr.Type&nlaTypeMask == unix.IFLA_XDP {
				id, mode = parseXDP(a.Value)
				return id, mode, nil
			}
		}
		return 0, "", nil
	}
	return 0, "", unix.ENODEV
}

// parseXDP finds a program in the nested attributes of IFLA_XDP.
func parseXDP(b []byte) (id uint32, mode string) {
	for len(b) >= unix.SizeofNlAttr {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.SizeofNlAttr || size > len(b) {
			return 0, ""
		}
		typ := binary.NativeEndian.Uint16(b[2:]) & nlaTypeMask
		if m, ok := xdpModes[typ]; ok && size >= unix.SizeofNlAttr+4 {
			return binary.NativeEndian.Uint32(b[unix.SizeofNlAttr:]), m
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return 0, ""
}
