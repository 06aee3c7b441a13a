package napi

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uringParams mirrors struct io_uring_params of linux/io_uring.h.
type uringParams struct {
	sqEntries, cqEntries, flags uint32
	sqThreadCPU, sqThreadIdle   uint32
	features, wqFD              uint32
	_                           [3]uint32
	_, _                        [40]byte // the rings' offsets: nothing is submitted or completed
}

// uringNAPI mirrors struct io_uring_napi of Linux 6.13. Before, opcode and param were padding that had to be 0.
type uringNAPI struct {
	busyPollUS uint32
	prefer     uint8
	opcode     uint8
	_          [2]uint8
	param      uint32
	_          uint32
}

// uringWait mirrors struct io_uring_getevents_arg, followed by the struct __kernel_timespec that it points to.
type uringWait struct {
	sigmask     uint64
	sigmaskSize uint32
	minWaitUS   uint32
	timeout     uint64 // address of seconds
	seconds     int64
	nanoseconds int64
}

// uringWaitSize is the size of struct io_uring_getevents_arg alone.
const uringWaitSize = unsafe.Offsetof(uringWait{}.seconds)

// The kernel's sizes.
var (
	_ [120]byte = [unsafe.Sizeof(uringParams{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(uringNAPI{})]byte{}
	_ [24]byte  = [uringWaitSize]byte{}
)

// uringSetup makes a ring; the kernel sets close-on-exec.
func uringSetup(entries int, p *uringParams) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// uringRegisterNAPI does one operation of IORING_REGISTER_NAPI. The kernel writes what was in force before to *n.
func uringRegisterNAPI(fd int, n *uringNAPI) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), ioringRegisterNAPI, uintptr(unsafe.Pointer(n)), 1, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// uringEnter waits for one completion as w says. w must be on the heap: it holds its own address.
func uringEnter(fd int, w *uringWait) unix.Errno {
	w.timeout = uint64(uintptr(unsafe.Pointer(&w.seconds)))
	// Raw for the reason given in Socket.Drive.
	_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), 0, 1, ioringEnterGetevents|ioringEnterExtArg,
		uintptr(unsafe.Pointer(w)), uringWaitSize)
	runtime.KeepAlive(w)
	return errno
}
