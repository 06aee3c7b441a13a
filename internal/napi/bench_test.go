package napi

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkDrive is a Drive of an owned NAPI that has nothing to receive. switches/op counts how often the thread gave the CPU up.
func BenchmarkDrive(b *testing.B) {
	c := newCable(b)
	for _, means := range []struct {
		name string
		open func() driver
	}{
		{"socket", func() driver { return c.taught(b) }},
		{"uring", func() driver { return c.uring(b) }},
	} {
		b.Run(means.name, func(b *testing.B) {
			d := means.open()
			c.own(b, d)
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var before, after unix.Rusage
			require.NoError(b, unix.Getrusage(unix.RUSAGE_THREAD, &before))
			b.ReportAllocs()
			for b.Loop() {
				if err := d.Drive(); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, unix.Getrusage(unix.RUSAGE_THREAD, &after))
			b.ReportMetric(float64(after.Nvcsw-before.Nvcsw)/float64(b.N), "switches/op")
			require.NoError(b, d.SetPrefer(false))
			c.mask(b, 0, 0)
			require.NoError(b, d.Drive())
		})
	}
}
