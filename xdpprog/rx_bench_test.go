package xdpprog

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkRX runs the program in the kernel b.N times on one frame: what the door costs, without what comes before and after it. The
// case "empty" is a program of two instructions, that is, the kernel's loop. The packet is in the cache.
func BenchmarkRX(b *testing.B) {
	shut := func(p *Port, dst string, egress int) {
		p.Door(0).Grant(1 << 62)
		p.Door(0).Learn(netip.MustParseAddr(dst), egress)
		p.Door(0).SetShut(1 << 2)
	}
	cases := []struct {
		name    string
		frame   []byte
		set     func(*Port)
		verdict uint32
	}{
		{"redirect", transit(), func(p *Port) { p.Door(0).Grant(1 << 62) }, xdpRedirect},
		{"redirect v6", ethernet(portMAC, ethIP6, ip6("2001:db8:2::2", unix.IPPROTO_UDP, 0)...), func(p *Port) { p.Door(0).Grant(1 << 62) }, xdpRedirect},
		{"redirect 42 bytes", transit()[:42], func(p *Port) { p.Door(0).Grant(1 << 62) }, xdpRedirect},
		{"redirect driven", transit(), func(p *Port) {
			p.Door(0).Grant(1 << 62)
			p.Door(0).SetCPU(cpus(b)[0])
			p.Door(0).SetDriving(true)
		}, xdpRedirect},
		{"no credit", transit(), func(*Port) {}, xdpDrop},
		{"another egress shut, known", transit(), func(p *Port) { shut(p, "10.0.2.2", 3) }, xdpRedirect},
		{"another egress shut, unknown", transit(), func(p *Port) { shut(p, "10.0.2.3", 3) }, xdpRedirect},
		{"egress shut", transit(), func(p *Port) { shut(p, "10.0.2.2", 2) }, xdpDrop},
		{"egress shut v6", transit6(74), func(p *Port) { shut(p, "2001:db8:2::2", 2) }, xdpDrop},
		{"egress shut 42 bytes", transit()[:42], func(p *Port) { shut(p, "10.0.2.2", 2) }, xdpDrop},
		{"gate", transit(), func(p *Port) { p.Door(0).SetGate(2) }, xdpDrop},
		{"local", ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), func(p *Port) { _, _ = p.SetLimit(ClassLocal, Limit{MaxRate, maxBurst}) }, xdpPass},
		{"local limited", ethernet(portMAC, ethIP4, ip4("10.0.1.1")...), func(p *Port) { _, _ = p.SetLimit(ClassLocal, Limit{}) }, xdpDrop},
	}
	for _, mode := range []AttachMode{AttachNative, AttachGeneric} {
		for _, bc := range cases {
			b.Run(mode.String()+"/"+bc.name, func(b *testing.B) {
				p := newPort(b, mode)
				require.NoError(b, p.SetSocket(0, newXSK(b)))
				bc.set(p)
				onCPU(b, cpus(b)[0], func() {
					verdict, perRun, err := p.program.Benchmark(bc.frame, b.N, nil)
					require.NoError(b, err)
					require.Equal(b, bc.verdict, verdict)
					b.ReportMetric(float64(perRun.Nanoseconds()), "ns/frame")
				})
			})
		}
	}
	b.Run("empty", func(b *testing.B) {
		_, perRun, err := passProgram(b).Benchmark(transit(), b.N, nil)
		require.NoError(b, err)
		b.ReportMetric(float64(perRun.Nanoseconds()), "ns/frame")
	})
}
