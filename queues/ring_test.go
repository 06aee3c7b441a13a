package queues_test

import (
	"math"
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
)

// newRing returns both sides of a ring of size entries whose indices start at first.
func newRing(first uint32, size int) (queues.Producer[uint64], queues.Consumer[uint64], queues.Ring[uint64]) {
	r := queues.Ring[uint64]{
		Producer: new(atomic.Uint32),
		Consumer: new(atomic.Uint32),
		Flags:    new(atomic.Uint32),
		Entries:  make([]uint64, size),
	}
	r.Producer.Store(first)
	r.Consumer.Store(first)
	return queues.NewProducer(r), queues.NewConsumer(r), r
}

func TestDescIsTheKernels(t *testing.T) {
	ours, kernels := reflect.TypeFor[queues.Desc](), reflect.TypeFor[unix.XDPDesc]()
	require.Equal(t, kernels.Size(), ours.Size())
	require.Equal(t, kernels.NumField(), ours.NumField())
	for i := range kernels.NumField() {
		require.Equal(t, kernels.Field(i).Name, ours.Field(i).Name)
		require.Equal(t, kernels.Field(i).Offset, ours.Field(i).Offset)
		require.Equal(t, kernels.Field(i).Type, ours.Field(i).Type)
	}
}

func TestRing(t *testing.T) {
	for _, first := range []uint32{0, math.MaxUint32 - 2, math.MaxUint32, 1 << 31} {
		p, c, r := newRing(first, 4)
		at, n := p.Reserve(3)
		require.Equal(t, 3, n)
		for i := range n {
			*p.At(at + uint32(i)) = 100 + uint64(i)
		}
		require.Equal(t, first, r.Producer.Load(), "nothing is visible before Submit")
		require.Zero(t, c.Waiting())

		p.Submit(2)
		require.Equal(t, first+2, r.Producer.Load())
		require.Equal(t, 2, p.Unconsumed())
		p.Cancel(1)
		require.Equal(t, 2, p.Room())

		_, n = p.Reserve(5)
		require.Equal(t, 2, n, "a partial reservation gets what there is")
		_, n = p.Reserve(1)
		require.Zero(t, n, "full")
		p.Cancel(2)

		at, n = c.Peek(10)
		require.Equal(t, 2, n)
		require.Equal(t, first, at)
		require.EqualValues(t, 100, c.At(at))
		c.Release(1)
		require.Equal(t, 1, p.Unconsumed())
		c.Cancel(1)
		at, n = c.Peek(10)
		require.Equal(t, 1, n, "what was cancelled is peeked again")
		require.EqualValues(t, 101, c.At(at))
		c.Release(1)
		require.Zero(t, c.Waiting())
		require.Equal(t, first+2, r.Consumer.Load())

		// Once around, full and empty.
		for round := range uint64(3) {
			at, n = p.Reserve(4)
			require.Equal(t, 4, n)
			for i := range n {
				*p.At(at + uint32(i)) = round*10 + uint64(i)
			}
			p.Submit(4)
			require.Zero(t, p.Room())
			at, n = c.Peek(4)
			require.Equal(t, 4, n)
			for i := range n {
				require.Equal(t, round*10+uint64(i), c.At(at+uint32(i)))
			}
			c.Release(4)
		}
	}
}

func TestRingTakesOverWhereItStands(t *testing.T) {
	p, _, r := newRing(math.MaxUint32, 8)
	at, _ := p.Reserve(3)
	*p.At(at + 2) = 7
	p.Submit(3)
	r.Consumer.Store(1) // the other side has taken two
	p, c := queues.NewProducer(r), queues.NewConsumer(r)
	require.Equal(t, 7, p.Room())
	at, n := c.Peek(8)
	require.Equal(t, 1, n)
	require.EqualValues(t, 7, c.At(at))
}

func TestNeedWakeup(t *testing.T) {
	p, _, r := newRing(0, 4)
	require.False(t, p.NeedWakeup())
	r.Flags.Store(unix.XDP_RING_NEED_WAKEUP)
	require.True(t, p.NeedWakeup())
}

// Producer and consumer in two goroutines across the wrap: the race detector sees
// both, and every value arrives once and in order.
func TestRingBetweenGoroutines(t *testing.T) {
	const total = 20_000
	p, c, _ := newRing(math.MaxUint32-total/2, 64)
	go func() {
		for sent := uint64(0); sent < total; {
			at, n := p.Reserve(int(min(17, total-sent)))
			for i := range n {
				*p.At(at + uint32(i)) = sent
				sent++
			}
			p.Submit(n)
			if n == 0 {
				runtime.Gosched()
			}
		}
	}()
	for want := uint64(0); want < total; {
		at, n := c.Peek(23)
		for i := range n {
			require.Equal(t, want, c.At(at+uint32(i)))
			want++
		}
		c.Release(n)
		if n == 0 {
			runtime.Gosched()
		}
	}
}
