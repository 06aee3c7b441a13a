package paper

import "testing"

func BenchmarkTrial(b *testing.B) {
	curves, _ := Curves()
	bed := DEC1996()
	for _, i := range []int{0, 1, 3, 4, 5, 15} {
		b.Run(curves[i].String(), func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				_, _ = Trial(&bed, curves[i].Setup, 8000, uint64(n))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10000, "ns/packet")
		})
	}
}
