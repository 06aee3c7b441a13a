package queues_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
)

// bareKernel is the cheapest kernel there is, so that a benchmark measures our half:
// plain memory, no lock, and a move that costs one copy per descriptor.
type bareKernel struct{ *bareConn }

type bareConn struct {
	queues.Conn // what is not used here

	rings      queues.Rings
	fill       queues.Consumer[uint64]
	rx         queues.Producer[queues.Desc]
	tx         queues.Consumer[queues.Desc]
	completion queues.Producer[uint64]
}

func (k bareKernel) Map(size int) ([]byte, string, error) { return make([]byte, size), "plain", nil }
func (k bareKernel) Unmap([]byte) error                   { return nil }
func (k bareKernel) Socket(s queues.SocketSpec) (queues.Conn, error) {
	c := k.bareConn
	_, _, c.rings.Fill = newRing(0, s.NumFill)
	_, _, c.rings.Completion = newRing(0, s.NumCompletion)
	c.rings.RX, c.rings.TX = newDescRing(s.NumRX), newDescRing(s.NumTX)
	c.rings.TX.Flags.Store(unix.XDP_RING_NEED_WAKEUP)
	c.fill, c.completion = queues.NewConsumer(c.rings.Fill), queues.NewProducer(c.rings.Completion)
	c.rx, c.tx = queues.NewProducer(c.rings.RX), queues.NewConsumer(c.rings.TX)
	return c, nil
}

func newDescRing(size int) queues.Ring[queues.Desc] {
	_, _, r := newRing(0, 1)
	return queues.Ring[queues.Desc]{Producer: r.Producer, Consumer: r.Consumer, Flags: r.Flags, Entries: make([]queues.Desc, size)}
}

func (c *bareConn) FD() int                   { return 0 }
func (c *bareConn) Rings() queues.Rings       { return c.rings }
func (c *bareConn) TXBudget() int             { return len(c.rings.TX.Entries) }
func (c *bareConn) Bind(queues.Binding) error { return nil }
func (c *bareConn) ZeroCopy() (bool, error)   { return false, nil }
func (c *bareConn) Close() error              { return nil }
func (c *bareConn) Wake() unix.Errno          { return 0 }

// arrive moves n frames from Fill to RX.
func (c *bareConn) arrive(n int) {
	from, n := c.fill.Peek(n)
	to, _ := c.rx.Reserve(n)
	for i := range uint32(n) {
		*c.rx.At(to + i) = queues.Desc{Addr: c.fill.At(from+i) + queues.RXHeadroom, Len: 60}
	}
	c.fill.Release(n)
	c.rx.Submit(n)
}

// Kick moves everything from TX to Completion.
func (c *bareConn) Kick() unix.Errno {
	from, n := c.tx.Peek(len(c.rings.TX.Entries))
	to, _ := c.completion.Reserve(n)
	for i := range uint32(n) {
		*c.completion.At(to + i) = c.tx.At(from + i).Addr
	}
	c.tx.Release(n)
	c.completion.Submit(n)
	return 0
}

const benchBatch = 64

// BenchmarkRings is one descriptor through one ring, both halves, in batches.
func BenchmarkRings(b *testing.B) {
	p, c, _ := newRing(0, 2048)
	b.ReportAllocs()
	for i := 0; i < b.N; i += benchBatch {
		at, n := p.Reserve(benchBatch)
		for j := range uint32(n) {
			*p.At(at + j) = uint64(j)
		}
		p.Submit(n)
		at, n = c.Peek(benchBatch)
		for j := range uint32(n) {
			if c.At(at+j) != uint64(j) {
				b.Fatal("wrong value")
			}
		}
		c.Release(n)
	}
	reportRate(b)
}

// BenchmarkForward is what one packet costs this package, from Fill to RX to TX to
// Completion to the free stack, with the cheapest kernel on the other side.
func BenchmarkForward(b *testing.B) {
	k := bareKernel{&bareConn{}}
	u := plainUMEM(b, k, 4096)
	s, err := u.Open(queues.SocketConfig{
		Ifindex: 1, NumRX: 2048, NumTX: 2048, NumFill: 2048, NumCompletion: 2048, FillDepth: 512,
	})
	require.NoError(b, err)
	batch := make([]queues.Desc, benchBatch)
	b.ReportAllocs()
	for i := 0; i < b.N; i += benchBatch {
		k.arrive(benchBatch)
		n := s.Receive(batch)
		s.Send(batch[:n])
		s.Kick()
		s.Reap()
		s.Refill()
	}
	reportRate(b)
	b.StopTimer()
	require.NoError(b, u.Audit())
}

// BenchmarkDrop is what a packet costs that is received and freed.
func BenchmarkDrop(b *testing.B) {
	k := bareKernel{&bareConn{}}
	u := plainUMEM(b, k, 4096)
	s, err := u.Open(queues.SocketConfig{
		Ifindex: 1, NumRX: 2048, NumTX: 2048, NumFill: 2048, NumCompletion: 2048, FillDepth: 512,
	})
	require.NoError(b, err)
	batch := make([]queues.Desc, benchBatch)
	b.ReportAllocs()
	for i := 0; i < b.N; i += benchBatch {
		k.arrive(benchBatch)
		for _, d := range batch[:s.Receive(batch)] {
			u.Free(d.Addr)
		}
		s.Refill()
	}
	reportRate(b)
}

// BenchmarkData is one bounds-checked view of a packet.
func BenchmarkData(b *testing.B) {
	u := plainUMEM(b, bareKernel{&bareConn{}}, 64)
	d := queues.Desc{Addr: 5*2048 + queues.RXHeadroom, Len: 60}
	b.ReportAllocs()
	var sum byte
	for b.Loop() {
		sum += u.Data(d)[0]
	}
	_ = sum
}

// BenchmarkQueue is one descriptor through a bounded queue, in batches.
func BenchmarkQueue(b *testing.B) {
	q, err := queues.NewQueue[queues.Desc](1024, 768, 256)
	require.NoError(b, err)
	batch := make([]queues.Desc, benchBatch)
	b.ReportAllocs()
	for i := 0; i < b.N; i += benchBatch {
		q.PushBatch(batch)
		q.PopBatch(batch)
	}
	reportRate(b)
}

func reportRate(b *testing.B) {
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpackets/s")
}
