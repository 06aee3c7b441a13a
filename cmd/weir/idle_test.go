package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestIdle: a weir with nothing to do uses less than a hundredth of a CPU, right after it has been busy too.
func TestIdle(t *testing.T) {
	top := nettest.T0With(t, nettest.TopologyOptions{RX: 2, TX: 2})
	fixNeighbours(t, top)
	w := startT0(t, top, "--cpus", "0,1")
	listen(t, top.Dst, nettest.AddrD0, testPort)
	s := sendStream(t, top.Src, "s0", 0, always(top.P()))
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, s.stop())
	before := w.atRest(t)

	const window = 3 * time.Second
	begin := cpuTime(t, w.cmd.Process.Pid)
	time.Sleep(window)
	used := cpuTime(t, w.cmd.Process.Pid) - begin
	rounds := w.stats(t).Workers[0].Rounds - before.Workers[0].Rounds
	t.Logf("%s in %s: %.3f %% of a CPU; %d rounds of the first worker", used, window, 100*used.Seconds()/window.Seconds(), rounds)
	require.Less(t, used, window/100)
}

// cpuTime is the CPU time a process has used, in user space and in the kernel, from its own clock: /proc counts in hundredths of a second.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const cpuclockSched = 2 // the clock of a process, as clock_getcpuclockid(3) makes it
	var ts unix.Timespec
	require.NoError(t, unix.ClockGettime(int32(^pid<<3|cpuclockSched), &ts))
	return time.Duration(ts.Nano())
}
