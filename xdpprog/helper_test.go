package xdpprog

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"reflect"
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// Verdicts of XDP programs.
const (
	xdpAborted uint32 = iota
	xdpDrop
	xdpPass
	xdpTX
	xdpRedirect
)

var (
	portMAC  = [6]byte{2, 0, 0, 0, 1, 1}
	otherMAC = [6]byte{2, 0, 0, 0, 1, 2}

	localAddrs = []netip.Prefix{
		netip.MustParsePrefix("10.0.1.1/32"),
		netip.MustParsePrefix("10.0.1.255/32"),
		netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("2001:db8:1::1/128"),
		netip.MustParsePrefix("fe80::1/128"),
		netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("ff00::/8"),
	}
)

// newPort loads the receive program without attaching it: its verdicts are asked for by BPF_PROG_RUN, on queue 0.
func newPort(t testing.TB, mode AttachMode) *Port {
	t.Helper()
	nettest.RequirePrivilege(t)
	p := &Port{name: "test", mode: mode}
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.loadProgram(&PortConfig{MaxQueues: 4}, false))
	require.NoError(t, p.share())
	require.NoError(t, p.SetMAC(portMAC))
	require.NoError(t, p.SetLocal(localAddrs))
	return p
}

// xdpMD is struct xdp_md, the context of a run.
type xdpMD struct {
	Data, DataEnd, DataMeta, IngressIfindex, RXQueueIndex, EgressIfindex uint32
}

// run returns the program's verdict on a frame. md may be nil.
func run(t testing.TB, prog *ebpf.Program, frame []byte, md *xdpMD) uint32 {
	t.Helper()
	verdict, err := tryRun(prog, frame, md)
	require.NoError(t, err)
	return verdict
}

func tryRun(prog *ebpf.Program, frame []byte, md *xdpMD) (uint32, error) {
	opts := &ebpf.RunOptions{Data: frame}
	if md != nil {
		opts.Context = *md
	}
	return prog.Run(opts)
}

// repeat runs the program n times on one frame, exactly: a signal, of which Go's scheduler sends some, would make the kernel break off and
// the loader library start again.
func repeat(prog *ebpf.Program, frame []byte, n int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var urgent, before unix.Sigset_t
	urgent.Val[0] = 1 << (unix.SIGURG - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &urgent, &before); err != nil {
		return err
	}
	_, _, err := prog.Benchmark(frame, n, nil)
	return errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil))
}

// newXSK returns an AF_XDP socket that is ready to be put into an XSKMAP: it has a UMEM and rings, and is bound to nothing.
func newXSK(t testing.TB) int {
	t.Helper()
	const size, frameSize, ringSize = 64 * 2048, 2048, 64
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })

	reg := binary.NativeEndian.AppendUint64(nil, uint64(reflect.ValueOf(mem).Pointer()))
	reg = binary.NativeEndian.AppendUint64(reg, size)
	reg = binary.NativeEndian.AppendUint32(reg, frameSize)
	reg = append(reg, make([]byte, 12)...) // headroom, flags, tx_metadata_len
	require.NoError(t, unix.SetsockoptString(fd, unix.SOL_XDP, unix.XDP_UMEM_REG, string(reg)))
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING} {
		require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_XDP, ring, ringSize))
	}
	return fd
}

// Frames, built byte by byte so that a test can break any of them.

func ethernet(dst [6]byte, etherType uint16, payload ...byte) []byte {
	f := append(dst[:], otherMAC[:]...)
	f = binary.BigEndian.AppendUint16(f, etherType)
	return append(f, payload...)
}

// ip4 is an IPv4 header with DF, TTL 64 and protocol UDP, and padding to a frame of 60 bytes.
func ip4(dst string) []byte {
	h := make([]byte, 46)
	h[0], h[3], h[6], h[8], h[9] = 0x45, 46, 0x40, 64, unix.IPPROTO_UDP
	copy(h[12:], netip.MustParseAddr("10.0.1.2").AsSlice())
	copy(h[16:], netip.MustParseAddr(dst).AsSlice())
	return h
}

// ip6 is an IPv6 header with the given next header and the first byte after it.
func ip6(dst string, next, first byte) []byte {
	h := make([]byte, 60)
	h[0], h[5], h[6], h[7] = 0x60, 20, next, 64
	copy(h[8:], netip.MustParseAddr("2001:db8:1::2").AsSlice())
	copy(h[24:], netip.MustParseAddr(dst).AsSlice())
	h[40] = first
	return h
}

func pad(f []byte, n int) []byte {
	return append(f, make([]byte, max(0, n-len(f)))...)
}
