package host

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestReadCPUTimes(t *testing.T) {
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	before, err := ReadCPUTimes(cpu, cpu)
	require.NoError(t, err)
	require.Equal(t, before[0], before[1])
	begin := time.Now()
	// Whatever the CPU does, all of it adds up to the time that passes.
	sum := func(c CPUTimes) time.Duration { return c.Idle + c.SoftIRQ + c.Stolen + c.Busy }
	require.Eventually(t, func() bool {
		after, err := ReadCPUTimes(cpu)
		require.NoError(t, err)
		require.LessOrEqual(t, sum(after[0])-sum(before[0]), time.Since(begin)+time.Second)
		return sum(after[0]) > sum(before[0])
	}, 10*time.Second, 20*time.Millisecond)

	_, err = ReadCPUTimes(1 << 20)
	require.ErrorContains(t, err, "CPU 1048576 is not in /proc/stat")
}
