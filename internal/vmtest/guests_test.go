//go:build vm

package vmtest_test

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// full asks for the whole matrix, which takes longer than a change should wait.
var full = flag.Bool("full", false, "test the whole matrix of drivers, queues, CPUs and modes")

func TestVirtio(t *testing.T) {
	l := boot(t, "6.12", 2, card{name: "v", model: "virtio-net-pci", queues: 4})
	seg := l.use(t, "v")
	r := l.start(t, seg, settings{mode: "auto"})
	st := r.stats(t)
	t.Logf("%+v %v", st.Ports, st.Warnings)
	pinged(t, seg.src, nettest.AddrR0)
	pinged(t, seg.src, nettest.AddrD0)
	pinged(t, seg.src, nettest.Addr6D0)
	transfer(t, seg.src, seg.dst, nettest.AddrD0, 4<<20)
	transfer(t, seg.dst, seg.src, nettest.AddrS0, 4<<20)
	r.oneCopyEach(t, nettest.AddrD0, 2000)
	require.Zero(t, r.end(t, unix.SIGTERM))
}
