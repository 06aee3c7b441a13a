package host

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// getsockopt passes buf to the kernel and takes its answer in the same bytes; x/sys has no call that does both. buf must not be empty.
func getsockopt(fd, level, option int, buf []byte) error {
	size := uint32(len(buf))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option),
		uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0)
	runtime.KeepAlive(buf)
	if errno != 0 {
		return errno
	}
	return nil
}
