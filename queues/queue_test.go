package queues_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/queues"
)

func TestNewQueueRefuses(t *testing.T) {
	for _, c := range [][3]int{{0, 1, 0}, {3, 2, 1}, {-4, 2, 1}, {4, 5, 1}, {4, 2, 2}, {4, 2, 3}, {4, 2, -1}} {
		_, err := queues.NewQueue[int](c[0], c[1], c[2])
		require.ErrorIs(t, err, queues.ErrQueueShape, c)
	}
}

func TestQueue(t *testing.T) {
	q, err := queues.NewQueue[int](8, 6, 2)
	require.NoError(t, err)
	q.StartAt(math.MaxUint32 - 20)
	require.Equal(t, 8, q.Cap())
	_, ok := q.Pop()
	require.False(t, ok)
	next, want := 0, 0
	for range 10 { // around the ring several times
		require.True(t, q.BelowLow())
		for q.Len() < 6 {
			require.False(t, q.AboveHigh())
			require.True(t, q.Push(next))
			next++
		}
		require.True(t, q.AboveHigh())
		require.False(t, q.BelowLow())
		require.Equal(t, 2, q.PushBatch([]int{next, next + 1, -1, -1}), "what fits")
		next += 2
		require.True(t, q.Full())
		require.False(t, q.Push(-1))
		require.Zero(t, q.PushBatch([]int{-1}))

		v, ok := q.Pop()
		require.True(t, ok)
		require.Equal(t, want, v)
		want++
		got := make([]int, 5)
		require.Equal(t, 5, q.PopBatch(got))
		for _, v := range got {
			require.Equal(t, want, v)
			want++
		}
		require.Equal(t, 2, q.Len())
	}
	require.Equal(t, 2, q.PopBatch(make([]int, 9)), "what is there")
	require.Zero(t, q.PopBatch(make([]int, 9)))
	require.Zero(t, q.PopBatch(nil))
	require.Zero(t, q.PushBatch(nil))
}

func TestQueueKeepsNothingAlive(t *testing.T) {
	q, err := queues.NewQueue[*[1 << 10]byte](4, 2, 1)
	require.NoError(t, err)
	freed := make(chan struct{})
	func() {
		v := new([1 << 10]byte)
		runtime.AddCleanup(v, func(c chan struct{}) { close(c) }, freed)
		require.True(t, q.Push(v))
		_, ok := q.Pop()
		require.True(t, ok)
	}()
	runtime.GC()
	<-freed
	runtime.KeepAlive(q)
}

func TestQueueBetweenGoroutines(t *testing.T) {
	const total = 20_000
	q, err := queues.NewQueue[int](64, 48, 16)
	require.NoError(t, err)
	go func() {
		batch := make([]int, 7)
		for sent := 0; sent < total; {
			n := min(len(batch), total-sent)
			for i := range n {
				batch[i] = sent + i
			}
			n = q.PushBatch(batch[:n])
			sent += n
			if n == 0 {
				runtime.Gosched()
			}
		}
	}()
	got := make([]int, 11)
	for want := 0; want < total; {
		n := q.PopBatch(got)
		for _, v := range got[:n] {
			require.Equal(t, want, v)
			want++
		}
		require.LessOrEqual(t, q.Len(), q.Cap())
		if n == 0 {
			runtime.Gosched()
		}
	}
}
