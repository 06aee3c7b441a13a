package queues

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// registerUMEM tells the kernel which memory the packets of a socket live in. The
// kernel pins its pages until the last socket that shares it is closed.
func registerUMEM(fd int, area []byte, frameSize int) error {
	r := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(area)))), // mapped memory: Go never moves it
		Len:  uint64(len(area)),
		Size: uint32(frameSize),
	}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&r)), unsafe.Sizeof(r), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// mmapOffsets asks where in their mappings the rings are.
func mmapOffsets(fd int) (unix.XDPMmapOffsets, error) {
	var o unix.XDPMmapOffsets
	n, err := getsockopt(fd, unix.XDP_MMAP_OFFSETS, unsafe.Pointer(&o), unsafe.Sizeof(o))
	if err == nil && n != unsafe.Sizeof(o) {
		err = unix.ENOPROTOOPT // before Linux 5.4: no flags, so no need-wakeup
	}
	return o, err
}

// statistics reads XDP_STATISTICS. Kernels before 5.9 fill in the first three only.
func statistics(fd int) (unix.XDPStatistics, error) {
	var st unix.XDPStatistics
	_, err := getsockopt(fd, unix.XDP_STATISTICS, unsafe.Pointer(&st), unsafe.Sizeof(st))
	return st, err
}

func getsockopt(fd, option int, value unsafe.Pointer, size uintptr) (uintptr, error) {
	length := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option),
		uintptr(value), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return 0, errno
	}
	return uintptr(length), nil
}

// at returns a pointer into a mapping, where the kernel said a T is. It is valid
// until the mapping is unmapped.
func at[T any](mapping []byte, offset uint64) *T {
	return (*T)(unsafe.Pointer(&mapping[offset:][:sizeOf[T]()][0]))
}

// sliceAt returns n elements of T in a mapping. It is valid until the mapping is unmapped.
func sliceAt[T any](mapping []byte, offset uint64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(&mapping[offset:][:uint64(n)*sizeOf[T]()][0])), n)
}

func sizeOf[T any]() uint64 {
	var t T
	return uint64(unsafe.Sizeof(t))
}
