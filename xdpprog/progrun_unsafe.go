package xdpprog

import (
	"math"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// progRunAttr is the part of union bpf_attr that BPF_PROG_RUN reads (include/uapi/linux/bpf.h, Linux 6.18).
type progRunAttr struct {
	progFD      uint32
	retval      uint32
	dataSizeIn  uint32
	dataSizeOut uint32
	dataIn      uint64
	dataOut     uint64
	repeat      uint32
	duration    uint32
	ctxSizeIn   uint32
	ctxSizeOut  uint32
	ctxIn       uint64
	ctxOut      uint64
	flags       uint32
	cpu         uint32
	batchSize   uint32
	_           uint32
}

const (
	bpfProgRun           = 10     // BPF_PROG_RUN
	bpfTestXDPLiveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES
)

// call runs the generator's program once per frame, 2^32-1 times, or until the thread gets a signal: then the error is EINTR. The loader
// library's own call is of no use here, because after EINTR it starts again.
func (g *Generator) call() error {
	attr := progRunAttr{
		progFD:     uint32(g.objs.WeirGenerator.FD()),
		dataSizeIn: uint32(len(g.frame)),
		dataIn:     uint64(uintptr(unsafe.Pointer(&g.frame[0]))),
		repeat:     math.MaxUint32,
		flags:      bpfTestXDPLiveFrames,
		batchSize:  g.batch,
	}
	_, _, errno := unix.Syscall(unix.SYS_BPF, bpfProgRun, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(g.frame)
	if errno != 0 {
		return errno
	}
	return nil
}
