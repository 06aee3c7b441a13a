package queues_test

import (
	"encoding/binary"
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"weir/queues"
	"weir/queues/ringtest"
)

// The kernel's half runs in one goroutine, ours in another, across the wrap of the
// indices: under the race detector, with the bytes of every packet read.
func TestKernelAndUserInTwoGoroutines(t *testing.T) {
	const total = 20_000
	kernel := ringtest.New(ringtest.Config{FirstIndex: math.MaxUint32 - total/2, ZeroCopy: true})
	u := plainUMEM(t, kernel, 64)
	in, err := u.Open(smallConfig(1))
	require.NoError(t, err)
	out, err := u.Open(smallConfig(2))
	require.NoError(t, err)
	inPort, outPort := kernel.Port(in), kernel.Port(out)
	outPort.SetNeedWakeup(false, false) // the driver looks by itself
	want := uint64(0)
	outPort.SetSink(func(frame []byte) {
		if binary.BigEndian.Uint64(frame) != want^math.MaxUint64 {
			t.Errorf("packet %d is %x", want, frame[:8])
		}
		want++
	})

	var wg sync.WaitGroup
	wg.Go(func() {
		frame := make([]byte, 60)
		for sent := uint64(0); sent < total; {
			binary.BigEndian.PutUint64(frame, sent)
			n := inPort.Inject(frame)
			sent += uint64(n)
			if outPort.Transmit(8) == 0 && n == 0 {
				runtime.Gosched()
			}
		}
		for outPort.NumTransmitted() < total {
			outPort.Transmit(8)
			runtime.Gosched()
		}
	})
	batch := make([]queues.Desc, 8)
	for received := 0; received < total || out.TXLen() > 0; {
		n := in.Receive(batch[:min(len(batch), out.TXFree())])
		for _, d := range batch[:n] {
			b := u.Data(d)
			binary.BigEndian.PutUint64(b, ^binary.BigEndian.Uint64(b))
		}
		require.Equal(t, n, out.Send(batch[:n]))
		received += n
		out.Kick()
		if out.Reap()+in.Refill()+n == 0 {
			runtime.Gosched()
		}
		l := u.Ledger()
		require.Equal(t, l.Total, l.Sum())
	}
	wg.Wait()
	require.EqualValues(t, total, want)
	require.NoError(t, u.Audit())
	require.NoError(t, kernel.Audit(u.Ledger()))
	require.Zero(t, u.Ledger().Misused)
}
