//go:build vm

package vmtest_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// scenario is one weir on one card.
type scenario struct {
	card     string
	combined int    // pairs of queues in use; 0 leaves what the driver has
	mode     string // asked of both ports
	all      bool   // everything that weir does in its life, not only forwarding
}

// name is that of its test.
func (l *lab) name(s scenario) string {
	name := l.cards[s.card].label()
	if s.combined > 0 {
		name += fmt.Sprintf(", %d queues", s.combined)
	}
	return name + ", " + s.mode
}

// label tells cards of one driver apart.
func (c card) label() string {
	for _, o := range c.options {
		if strings.HasPrefix(o, "guest_") {
			return c.driver + " without guest offloads"
		}
		return c.driver + " with " + o
	}
	return c.driver
}

// granted is the mode that weir must say, or "" where it must refuse.
func (l *lab) granted(s scenario) string {
	native := slices.Contains(l.native, s.card)
	switch {
	case s.mode == "zerocopy" || s.mode == "copy" && !native:
		return ""
	case s.mode == "auto" && native:
		return "copy"
	case s.mode == "auto":
		return "generic"
	}
	return s.mode
}

// scenario runs one.
func (l *lab) scenario(t *testing.T, s scenario) {
	seg := l.use(t, s.card)
	if s.combined > 0 {
		l.shell(t, fmt.Sprintf("ethtool -L %s combined %d; ethtool -L %s combined %d", seg.in, s.combined, seg.out, s.combined))
	}
	if l.granted(s) == "" {
		l.refused(t, seg, s)
		return
	}

	r := l.start(t, seg, settings{mode: s.mode})
	r.starts(t, s)
	r.check(t, "ping", r.pings)
	r.check(t, "tcp", r.transfers)
	r.check(t, "udp", r.floods)
	if !s.all {
		r.check(t, "SIGTERM", func(t *testing.T) { require.Zero(t, r.end(t, unix.SIGTERM)) })
		return
	}
	r.check(t, "down and up", func(t *testing.T) {
		if seg.driver == "vmxnet3" && l.granted(s) == "copy" {
			r.forgetsProgram(t)
		} else {
			r.downAndUp(t)
		}
	})
	r.check(t, "kill -9", func(t *testing.T) {
		require.Equal(t, 128+int(unix.SIGKILL), r.end(t, unix.SIGKILL))
		l.kernelAlone(t, seg)
	})
	r = l.start(t, seg, settings{mode: s.mode})
	r.check(t, "again", func(t *testing.T) {
		r.pings(t)
		r.floods(t)
	})
	r.check(t, "SIGTERM", func(t *testing.T) {
		require.Zero(t, r.end(t, unix.SIGTERM))
		l.kernelAlone(t, seg)
	})
}

// refused: weir must say that the driver cannot do it, and leave everything as it was.
func (l *lab) refused(t *testing.T, seg *segment, s scenario) {
	r := l.weirRun(t, seg, settings{mode: s.mode})
	require.Equal(t, 1, r.wait(t), "stdout: %s", r.Stdout())
	message := strings.TrimSuffix(r.Stderr(), "\n")
	t.Log(message)
	require.NotContains(t, message, "\n", "one line")
	require.Contains(t, message, seg.in)
	require.Contains(t, message, unix.EOPNOTSUPP.Error())
	l.kernelAlone(t, seg)
}

// starts: weir says what it was granted.
func (r *router) starts(t *testing.T, s scenario) {
	t.Helper()
	st := r.stats(t)
	rx, tx := r.lab.queues(s)
	for _, name := range []string{r.seg.in, r.seg.out} {
		p := st.port(t, name)
		require.Equal(t, r.seg.driver, p.Driver, name)
		require.Equal(t, s.mode, p.ModeAsked, name)
		require.Equal(t, r.lab.granted(s), p.Mode, name)
		require.Equal(t, [2]int{rx, tx}, [2]int{p.RxQueues, p.TxQueues}, "receive and transmit queues of %s", name)
	}
	for _, w := range st.Warnings {
		t.Log("warning: ", w)
	}
}

// queues are those of a port while weir runs.
func (l *lab) queues(s scenario) (rx, tx int) {
	rx, tx = max(s.combined, 1), max(s.combined, 1)
	switch c := l.cards[s.card]; {
	case c.driver == "vmxnet3":
		return l.cpus, l.cpus
	case c.driver == "virtio_net" && l.granted(s) == "copy" && rx+l.cpus <= c.queues:
		// It takes a pair per CPU for what programs redirect, if it has as many left, and counts them as receive queues only.
		rx += l.cpus
	}
	return rx, tx
}

// pings: the kernel answers for the router, weir forwards to what is behind it.
func (r *router) pings(t *testing.T) {
	for _, dst := range []netip.Addr{nettest.AddrR0, nettest.Addr6R0, nettest.AddrR1, nettest.AddrD0, nettest.Addr6D0} {
		pinged(t, r.seg.src, dst)
	}
	pinged(t, r.seg.dst, nettest.AddrR1)
	pinged(t, r.seg.dst, nettest.AddrS0)
}

// transfers: TCP with the hosts' offloads on, both ways over both families.
func (r *router) transfers(t *testing.T) {
	if r.seg.merges {
		r.refusesMerged(t)
	}
	const size = 2 << 20
	for _, c := range []struct {
		from, to *nettest.NS
		server   netip.Addr
	}{
		{r.seg.src, r.seg.dst, nettest.AddrD0},
		{r.seg.src, r.seg.dst, nettest.Addr6D0},
		{r.seg.dst, r.seg.src, nettest.AddrS0},
		{r.seg.dst, r.seg.src, nettest.Addr6S0},
	} {
		transfer(t, c.from, c.to, c.server, size)
	}
}

// refusesMerged: packets longer than the MTU are dropped and counted, which weir has warned of. For the rest
// of the test it switches off the hosts' offloads, which is what the warning says to do.
func (r *router) refusesMerged(t *testing.T) {
	t.Helper()
	before := r.atRest(t)
	require.Contains(t, strings.Join(before.Warnings, "\n"), "packets that the device or its peer has merged are too long")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := nettest.TransferTCP(ctx, r.seg.src, r.seg.dst, nettest.AddrD0, 1<<20)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Greater(t, r.atRest(t).Totals.Dropped["too_big"]+r.stats(t).Totals.Dropped["door_too_long"],
		before.Totals.Dropped["too_big"]+before.Totals.Dropped["door_too_long"])
	segmentation := func(on bool) {
		for _, feature := range []string{"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-generic-segmentation"} {
			require.NoError(t, r.seg.src.Offload("s0", feature, on))
			require.NoError(t, r.seg.dst.Offload("d0", feature, on))
		}
	}
	segmentation(false)
	t.Cleanup(func() { segmentation(true) })
}

// floods: one copy of each datagram of many flows, which use every receive queue, except those that QEMU's vmxnet3 leaves idle: it has
// no receive side scaling.
func (r *router) floods(t *testing.T) {
	r.oneCopyEach(t, nettest.AddrD0, 1000)
	st := r.oneCopyEach(t, nettest.Addr6D0, 500)
	taken := st.received()
	queues := st.port(t, r.seg.in).RxQueues
	if r.seg.driver == "vmxnet3" {
		queues = 1
	}
	for q := range queues {
		require.NotZero(t, taken[fmt.Sprintf("%s/%d", r.seg.in, q)], "packets taken from queue %d of %s: %v", q, r.seg.in, taken)
	}
}

// downAndUp: a port that was down forwards again, and nothing is lost without being counted.
func (r *router) downAndUp(t *testing.T) {
	for _, name := range []string{r.seg.out, r.seg.in} {
		r.lab.shell(t, fmt.Sprintf("ip link set %[1]s down; ip link set %[1]s up", name))
		r.lab.carrier(t, name)
		pinged(t, r.seg.src, nettest.AddrD0)
		pinged(t, r.seg.src, nettest.Addr6D0)
		pinged(t, r.seg.src, nettest.AddrR0)
	}
	r.floods(t)
}

// forgetsProgram: after down and up the driver shows the program and does not run it, with any program: packets go to the kernel. Seen on
// Linux 6.12.117. A weir that starts again makes it run again, as the checks after this one see. When this fails, the driver is better
// than that, or weir does something about it: then downAndUp is the check.
func (r *router) forgetsProgram(t *testing.T) {
	xdpPackets := func() string {
		return r.lab.shell(t, "ethtool -S "+r.seg.out+" | grep 'xdp packets'")
	}
	before := xdpPackets()
	r.lab.shell(t, fmt.Sprintf("ip link set %[1]s down; ip link set %[1]s up", r.seg.out))
	r.lab.carrier(t, r.seg.out)
	pinged(t, r.seg.dst, nettest.AddrR1)
	require.Equal(t, before, xdpPackets())
	for _, link := range r.lab.links(t) {
		require.Equal(t, link.Name == r.seg.in || link.Name == r.seg.out, link.XDP != nil, "program on %s", link.Name)
	}
}

// kernelAlone: there is no program on the ports any more, the kernel answers on them and would forward.
func (l *lab) kernelAlone(t *testing.T, seg *segment) {
	t.Helper()
	for _, link := range l.links(t) {
		if link.Name == seg.in || link.Name == seg.out {
			require.Nil(t, link.XDP, "program on %s", link.Name)
		}
	}
	pinged(t, seg.src, nettest.AddrR0)
	l.forwarding(t, true)
	defer l.forwarding(t, false) // a kernel that forwards hides the faults of a router beside it
	pinged(t, seg.src, nettest.AddrD0)
	pinged(t, seg.src, nettest.Addr6D0)
}

// forwarding switches the forwarding of the guest's kernel.
func (l *lab) forwarding(t *testing.T, on bool) {
	t.Helper()
	value := map[bool]string{false: "0", true: "1"}[on]
	l.shell(t, "cd /proc/sys/net; for f in ipv4/ip_forward ipv6/conf/all/forwarding; do echo "+value+" >$f; done")
}
