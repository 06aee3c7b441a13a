package xdpprog

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// MaxQueues is the most receive queues a port may have doors for.
const MaxQueues = 4096

// PortConfig describes the interface that [Attach] puts a door on.
type PortConfig struct {
	Interface string     // the name, for errors
	Ifindex   int        // the interface, in the calling thread's network namespace
	Mode      AttachMode // native and generic are requirements, auto is a wish
	MAC       [6]byte    // the interface's; unicast frames to any other go to the kernel
	// MaxQueues is the number of doors, 1 to [MaxQueues]: at least the receive queues the interface has once the program is attached.
	// Frames of a queue beyond it go to the kernel as ClassNoSocket. Each takes a little more than 32 KiB of kernel memory, nearly all of
	// it for what [Door.Learn] stores: 2 MiB for 64.
	MaxQueues int
	// MaxLen is the longest frame in bytes that the sockets' packet buffers take; longer ones to be forwarded are dropped at the door and
	// counted as DroppedTooLong, because the socket would drop them after a credit was spent. 0 is no limit.
	MaxLen int
	// Local are the host's addresses to begin with, see [Port.SetLocal]. Without them, frames to the host are not recognised between
	// Attach and the first SetLocal.
	Local []netip.Prefix
}

func (c *PortConfig) validate() error {
	switch {
	case c.Ifindex <= 0:
		return fmt.Errorf("attach %s: interface index %d: must be positive", c.Interface, c.Ifindex)
	case c.Mode < AttachAuto || c.Mode > AttachGeneric:
		return fmt.Errorf("attach %s: %s: must be auto, native or generic", c.Interface, c.Mode)
	case c.MaxQueues < 1 || c.MaxQueues > MaxQueues:
		return fmt.Errorf("attach %s: %d queues: must be 1 to %d", c.Interface, c.MaxQueues, MaxQueues)
	}
	return nil
}

// Attach loads the receive program and attaches it to the interface by a bpf_link, which detaches it when the process ends in whatever
// way. All doors are closed for want of credit and no queue has a socket, so frames to be forwarded are dropped until the worker grants.
//
// If another program is attached, the error is an [*OtherProgramError] and that program is left alone. If the mode asked for is native or
// generic and cannot be had, that is an error too; auto falls back to generic.
//
// Attach raises RLIMIT_MEMLOCK on kernels before 5.11, which charge BPF memory to it. It needs CAP_BPF and CAP_NET_ADMIN and Linux 5.18.
func Attach(cfg PortConfig) (*Port, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("attach %s: raise the locked-memory limit: %w: run as root, or set LimitMEMLOCK=infinity", cfg.Interface, err)
	}
	if err := CheckFree(cfg.Interface, cfg.Ifindex); err != nil {
		return nil, err
	}
	if cfg.Mode != AttachAuto {
		return attachAs(&cfg, cfg.Mode)
	}
	port, refused := attachAs(&cfg, AttachNative)
	if refused == nil {
		return port, nil
	}
	var other *OtherProgramError
	if errors.As(refused, &other) || errors.Is(refused, unix.EPERM) {
		return nil, refused
	}
	port, err := attachAs(&cfg, AttachGeneric)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", refused, err)
	}
	port.nativeRefused = refused
	return port, nil
}

// attachAs does Attach's work in one mode, native or generic.
func attachAs(cfg *PortConfig, mode AttachMode) (_ *Port, err error) {
	p := &Port{name: cfg.Interface, mode: mode}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if err := p.load(cfg); err != nil {
		return nil, fmt.Errorf("load the receive program for %s: %w", cfg.Interface, explain(err))
	}
	if err := p.SetMAC(cfg.MAC); err != nil {
		return nil, err
	}
	if err := p.SetLocal(cfg.Local); err != nil {
		return nil, err
	}
	p.shared.elems[0].maxLen.Store(uint32(cfg.MaxLen))
	if p.link, err = attachLink(p.program, cfg.Interface, cfg.Ifindex, mode); err != nil {
		return nil, err
	}
	return p, nil
}

// load loads the program that sees VLAN tags beside the frame where mode and kernel allow, else the one that does not, and its maps.
// What it took before failing is Close's to release.
func (p *Port) load(cfg *PortConfig) error {
	if p.mode == AttachNative {
		err := p.loadProgram(cfg, true)
		if err == nil {
			return p.share()
		}
		if errors.Is(err, unix.EPERM) {
			return err
		}
		// A kernel before 6.8, or one without BTF. Whatever else it is stops the other program too.
	}
	if err := p.loadProgram(cfg, false); err != nil {
		return err
	}
	return p.share()
}

// share maps the memory of the loaded maps and sets the defaults.
func (p *Port) share() (err error) {
	if p.shared, err = mapArray[portMemory](p.maps.Ports); err != nil {
		return err
	}
	if p.memory, err = mapArray[doorMemory](p.maps.Doors); err != nil {
		return err
	}
	if p.destinations, err = mapArray[destinationsMemory](p.maps.Destinations); err != nil {
		return err
	}
	p.doors = make([]Door, len(p.memory.elems))
	p.placeDoors()
	for c := range Class(NumClasses) {
		p.shared.elems[0].buckets[c].set(DefaultLimit(c))
	}
	p.programID, err = programID(p.program)
	return err
}

// bpfXDPDevBoundOnly is BPF_F_XDP_DEV_BOUND_ONLY: the program is for one device, and runs on the CPU all the same.
const bpfXDPDevBoundOnly = 1 << 6

func (p *Port) loadProgram(cfg *PortConfig, bound bool) error {
	spec, err := loadRx()
	if err != nil {
		return err
	}
	spec.Maps[rxMapDoors].MaxEntries = uint32(cfg.MaxQueues)
	spec.Maps[rxMapDestinations].MaxEntries = uint32(cfg.MaxQueues)
	spec.Maps[rxMapSockets].MaxEntries = uint32(cfg.MaxQueues)
	if err := spec.Variables[rxVarSharedWriters].Set(p.mode == AttachGeneric); err != nil {
		return err
	}
	name, unused := rxProgWeirRxUnbound, rxProgWeirRx
	if bound {
		name, unused = unused, name
		spec.Programs[name].Ifindex = uint32(cfg.Ifindex)
		spec.Programs[name].Flags |= bpfXDPDevBoundOnly
	}
	delete(spec.Programs, unused)
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return err
	}
	defer coll.Close() // what is not taken out of it
	var maps rxMaps
	if err := coll.Assign(&maps); err != nil {
		return err
	}
	p.maps, p.program, p.seesTags = &maps, coll.DetachProgram(name), bound
	return nil
}

// attachLink attaches an XDP program by a bpf_link and names whoever is in the way.
func attachLink(prog *ebpf.Program, name string, ifindex int, mode AttachMode) (link.Link, error) {
	flags := link.XDPDriverMode
	if mode == AttachGeneric {
		flags = link.XDPGenericMode
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: ifindex, Flags: flags})
	if err == nil {
		return l, nil
	}
	// Someone may have come between looking and attaching.
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		if err := CheckFree(name, ifindex); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("attach %s in %s mode: %w", name, mode, explain(err))
}

// explain adds the remedy to what the kernel answers when it refuses to load or attach a program.
func explain(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case unix.EPERM:
		return fmt.Errorf("%w: run as root, or with CAP_BPF and CAP_NET_ADMIN", errno)
	case unix.EOPNOTSUPP:
		return fmt.Errorf("%w: the driver has no native XDP: use mode generic", errno)
	case unix.ERANGE:
		return fmt.Errorf("%w: the MTU of the interface or of its veth peer is too large for XDP: lower it", errno)
	case unix.ENOSPC:
		return fmt.Errorf("%w: the interface has fewer receive queues than its veth peer transmit queues, or too few for XDP: change them (ethtool -L)", errno)
	case unix.ENODEV:
		return fmt.Errorf("%w: the interface is not, or no longer, in this network namespace", errno)
	case unix.EINVAL:
		// The reason, if the verifier gave one, is in the error's text.
		return fmt.Errorf("%w: the driver refuses XDP as configured (MTU, LRO, ring sizes), or the kernel is older than 5.18", err)
	}
	return err
}

func programID(prog *ebpf.Program) (uint32, error) {
	info, err := prog.Info()
	if err != nil {
		return 0, err
	}
	id, _ := info.ID()
	return uint32(id), nil
}
