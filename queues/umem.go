package queues

import (
	"fmt"
	"math"
	"math/bits"
)

// UMEMConfig is the shape of a UMEM.
type UMEMConfig struct {
	NumFrames int // a positive multiple of 64
	FrameSize int // bytes: 2048 or 4096

	// PanicOnMisuse makes every refused frame or descriptor a panic that names it.
	// For tests: in production misuse is counted and the frame left alone.
	PanicOnMisuse bool

	// Kernel is nil for Linux.
	Kernel Kernel
}

// UMEM is packet memory cut into frames, shared by any number of sockets. A frame
// is named by any address inside it.
//
// One goroutine uses a UMEM and all its sockets.
type UMEM struct {
	kernel  Kernel
	mapping []byte // as it was mapped, rounded up to whole pages
	area    []byte // the frames
	pages   string

	shift     uint // log2 of the frame size
	owners    []owner
	free      []uint32  // frame numbers, last in first out: the frame used last is the one still in cache
	held      int       // how many frames are held by the caller
	sockets   []*Socket // by slot; nil where one was closed
	mode      Mode      // granted to the registered UMEM; Auto while no socket is open
	misused   uint64
	panicking bool
}

// NewUMEM maps a UMEM, on 2 MiB pages when the system has any to give and on
// normal pages when not ([UMEM.Pages] says which). All frames are free. It costs no
// privilege; that begins with Open.
func NewUMEM(c UMEMConfig) (*UMEM, error) {
	object := fmt.Sprintf("UMEM of %d frames of %d bytes", c.NumFrames, c.FrameSize)
	if c.FrameSize != 2048 && c.FrameSize != 4096 {
		return nil, fmt.Errorf("map %s: %w: use 2048 or 4096", object, ErrFrameSize)
	}
	if c.NumFrames <= 0 || c.NumFrames%64 != 0 {
		return nil, fmt.Errorf("map %s: %w: use a positive multiple of 64", object, ErrNumFrames)
	}
	// In 64 bits: the product of two ints that are fine each need not fit into one,
	// and the kernel counts frames in 32.
	high, size := bits.Mul64(uint64(c.NumFrames), uint64(c.FrameSize))
	if high != 0 || size > math.MaxInt || uint64(c.NumFrames) > math.MaxUint32 {
		return nil, fmt.Errorf("map %s: %w: use fewer", object, ErrNumFrames)
	}
	kernel := c.Kernel
	if kernel == nil {
		kernel = linux{}
	}
	mapping, pages, err := kernel.Map(int(size))
	if err != nil {
		return nil, fmt.Errorf("map %s: %w: use fewer frames", object, err)
	}
	u := &UMEM{
		kernel:    kernel,
		mapping:   mapping,
		area:      mapping[:size:size],
		pages:     pages,
		shift:     uint(bits.TrailingZeros(uint(c.FrameSize))),
		owners:    make([]owner, c.NumFrames),
		free:      make([]uint32, c.NumFrames),
		panicking: c.PanicOnMisuse,
	}
	for i := range u.free {
		u.free[i] = uint32(c.NumFrames - 1 - i) // so that frame 0 is on top
	}
	return u, nil
}

// Pages returns the size of the pages the UMEM lies on, "2 MiB" or "4 KiB".
func (u *UMEM) Pages() string { return u.pages }

// FrameSize returns the bytes of one frame.
func (u *UMEM) FrameSize() int { return 1 << u.shift }

// NumFrames returns how many frames there are.
func (u *UMEM) NumFrames() int { return len(u.owners) }

// NumFree returns how many frames Alloc could give now.
func (u *UMEM) NumFree() int { return len(u.free) }

// Alloc takes a frame off the free stack: it is the caller's ("held") until Free or
// Send. addr is its first byte. ok is false when no frame is free.
func (u *UMEM) Alloc() (addr uint64, ok bool) {
	top := len(u.free) - 1
	if top < 0 {
		return 0, false
	}
	frame := u.free[top]
	u.free = u.free[:top]
	u.owners[frame] = ownerHeld
	u.held++
	return uint64(frame) << u.shift, true
}

// Free puts the held frame that addr lies in back on the free stack. A frame that
// is not held (freed already, sent, or no frame at all) is left alone and counted
// as misused.
func (u *UMEM) Free(addr uint64) {
	frame := addr >> u.shift
	if frame >= uint64(len(u.owners)) || u.owners[frame] != ownerHeld {
		u.misuse("free", addr)
		return
	}
	u.held--
	u.putFree(uint32(frame))
}

// Data returns the packet that d describes, len and cap d.Len, or nil when d leaves
// its frame or the UMEM. The bytes are the caller's while it holds the frame.
func (u *UMEM) Data(d Desc) []byte {
	if !u.fits(d) {
		return nil
	}
	end := d.Addr + uint64(d.Len)
	return u.area[d.Addr:end:end]
}

// Close unmaps the UMEM. Its sockets must be closed first.
func (u *UMEM) Close() error {
	if u.mapping == nil {
		return nil
	}
	for _, s := range u.sockets {
		if s != nil && s.fd >= 0 {
			return fmt.Errorf("close UMEM: %w (%s queue %d is open): close its sockets first", ErrInUse, s.name, s.queue)
		}
	}
	if err := u.kernel.Unmap(u.mapping); err != nil {
		return fmt.Errorf("close UMEM: %w", err)
	}
	u.mapping, u.area, u.owners, u.free, u.held = nil, nil, nil, nil, 0
	return nil
}

// fits reports whether d lies within one frame of the UMEM.
func (u *UMEM) fits(d Desc) bool {
	offset := d.Addr & (1<<u.shift - 1)
	return d.Addr < uint64(len(u.area)) && offset+uint64(d.Len) <= 1<<u.shift
}

// isPacket reports whether d is a packet inside one frame that has this mark.
func (u *UMEM) isPacket(d Desc, mark owner) bool {
	frame := d.Addr >> u.shift
	return frame < uint64(len(u.owners)) && u.owners[frame] == mark &&
		d.Addr&(1<<u.shift-1)+uint64(d.Len) <= 1<<u.shift && d.Len != 0 && d.Options == 0
}

// putFree pushes a frame on the free stack, whoever had it.
func (u *UMEM) putFree(frame uint32) {
	u.owners[frame] = ownerFree
	u.free = append(u.free, frame) // never grows: there are as many places as frames
}

// misuse counts a frame or descriptor that was refused.
func (u *UMEM) misuse(operation string, addr uint64) {
	u.misused++
	if u.panicking {
		panic(fmt.Sprintf("queues: %s of address %#x: not the owner, or outside its frame", operation, addr))
	}
}
