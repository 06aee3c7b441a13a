package xdpprog

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// mapping is the memory of a BPF array map (BPF_F_MMAPABLE) with elements of type T, shared with the programs that use the map. Plain
// and atomic stores to it are seen by them at once. The mapping holds the memory on its own: it outlives the map's file descriptor.
type mapping[T any] struct {
	elems []T    // nil once discarded
	mem   []byte // nil once unmapped
}

// mapArray maps all elements of m. T must have the size and layout of the map's values; the size is checked.
func mapArray[T any](m *ebpf.Map) (*mapping[T], error) {
	var elem T
	if size := unsafe.Sizeof(elem); size != uintptr(m.ValueSize()) || size%8 != 0 {
		return nil, fmt.Errorf("map memory of %s: values are %d bytes in the program and %d here", m, m.ValueSize(), size)
	}
	n := int(m.MaxEntries())
	page := os.Getpagesize()
	length := (n*int(m.ValueSize()) + page - 1) / page * page
	mem, err := unix.Mmap(m.FD(), 0, length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map memory of %s: %w", m, err)
	}
	return &mapping[T]{elems: unsafe.Slice((*T)(unsafe.Pointer(&mem[0])), n), mem: mem}, nil
}

// close unmaps the memory and leaves in elems a private copy of what it last held. Pointers into the old elems must be replaced by
// their owner before they are used again. Closing twice is harmless.
func (m *mapping[T]) close() error {
	if m.mem == nil {
		return nil
	}
	private := make([]T, len(m.elems))
	size := len(private) * int(unsafe.Sizeof(private[0]))
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&private[0])), size), m.mem)
	mem := m.mem
	m.elems, m.mem = private, nil
	return unix.Munmap(mem)
}

// discard is close for memory that nobody needs afterwards: it keeps no copy.
func (m *mapping[T]) discard() error {
	if m.mem == nil {
		return nil
	}
	mem := m.mem
	m.elems, m.mem = nil, nil
	return unix.Munmap(mem)
}
