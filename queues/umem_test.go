package queues_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/queues/ringtest"
)

// untouchable is a kernel that must not be asked for anything.
type untouchable struct{ t *testing.T }

func (k untouchable) Map(int) ([]byte, string, error) {
	k.t.Fatal("memory was mapped")
	return nil, "", nil
}
func (k untouchable) Unmap([]byte) error { k.t.Fatal("memory was unmapped"); return nil }
func (k untouchable) Socket(queues.SocketSpec) (queues.Conn, error) {
	k.t.Fatal("a socket was made")
	return nil, nil
}

func TestNewUMEMRefusesBeforeItTouchesAnything(t *testing.T) {
	for _, test := range []struct {
		numFrames, frameSize int
		is                   error
		says                 string
	}{
		{64, 0, queues.ErrFrameSize, "map UMEM of 64 frames of 0 bytes: frame size not supported: use 2048 or 4096"},
		{64, 1024, queues.ErrFrameSize, ""},
		{64, 3000, queues.ErrFrameSize, ""},
		{64, 8192, queues.ErrFrameSize, ""},
		{64, -2048, queues.ErrFrameSize, ""},
		{0, 2048, queues.ErrNumFrames, "map UMEM of 0 frames of 2048 bytes: number of frames not possible: use a positive multiple of 64"},
		{-64, 2048, queues.ErrNumFrames, ""},
		{63, 2048, queues.ErrNumFrames, ""},
		{65, 4096, queues.ErrNumFrames, ""},
		{1 << 32, 2048, queues.ErrNumFrames, "map UMEM of 4294967296 frames of 2048 bytes: number of frames not possible: use fewer"},
		{math.MaxInt &^ 63, 4096, queues.ErrNumFrames, ""},
	} {
		u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: test.numFrames, FrameSize: test.frameSize, Kernel: untouchable{t}})
		require.Nil(t, u)
		require.ErrorIs(t, err, test.is)
		if test.says != "" {
			require.EqualError(t, err, test.says)
		}
	}
}

type noMemory struct{ untouchable }

func (noMemory) Map(int) ([]byte, string, error) { return nil, "", unix.ENOMEM }

func TestNewUMEMWithoutMemory(t *testing.T) {
	_, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: 64, FrameSize: 2048, Kernel: noMemory{untouchable{t}}})
	require.ErrorIs(t, err, unix.ENOMEM)
	require.EqualError(t, err, "map UMEM of 64 frames of 2048 bytes: cannot allocate memory: use fewer frames")
}

func TestUMEMOnLinuxMemory(t *testing.T) {
	for _, frameSize := range []int{2048, 4096} {
		pages := pagesToExpect(t, 1024*frameSize)
		u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: 1024, FrameSize: frameSize})
		require.NoError(t, err)
		require.Equal(t, frameSize, u.FrameSize())
		require.Equal(t, 1024, u.NumFrames())
		require.Equal(t, pages, u.Pages())
		last := u.Data(queues.Desc{Addr: uint64(1024*frameSize - 1), Len: 1})
		last[0] = 1 // really there
		require.NoError(t, u.Close())
		require.NoError(t, u.Close(), "closing twice does nothing")
		require.Nil(t, u.Data(queues.Desc{Addr: 0, Len: 1}), "the memory is gone")
		_, ok := u.Alloc()
		require.False(t, ok)
		_, err = u.Open(queues.SocketConfig{Ifindex: 1, NumRX: 64, NumFill: 64, NumCompletion: 64})
		require.ErrorIs(t, err, queues.ErrClosed)
	}
}

// pagesToExpect returns the size of the pages that a UMEM of size bytes gets now.
func pagesToExpect(t *testing.T, size int) string {
	t.Helper()
	meminfo, err := os.ReadFile("/proc/meminfo")
	require.NoError(t, err)
	count := func(name string) (n int) {
		_, after, _ := strings.Cut(string(meminfo), name+":")
		fmt.Sscan(after, &n)
		return n
	}
	unused := count("HugePages_Free") - count("HugePages_Rsvd")
	if count("Hugepagesize") == 2048 && unused*2<<20 >= size {
		return "2 MiB"
	}
	return fmt.Sprintf("%d KiB", os.Getpagesize()>>10)
}

func plainUMEM(t testing.TB, k queues.Kernel, numFrames int) *queues.UMEM {
	t.Helper()
	u, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: numFrames, FrameSize: 2048, Kernel: k})
	require.NoError(t, err)
	return u
}

func TestFreeFramesAreAStack(t *testing.T) {
	u := plainUMEM(t, ringtest.New(ringtest.Config{}), 64)
	a, ok := u.Alloc()
	require.True(t, ok)
	b, _ := u.Alloc()
	require.Equal(t, []uint64{0, 2048}, []uint64{a, b})
	u.Free(a + 2047) // any address inside
	u.Free(b)
	c, _ := u.Alloc()
	require.Equal(t, b, c, "last in, first out")
	require.Equal(t, queues.Ledger{Free: 63, Held: 1, Total: 64}, u.Ledger())
	for range 63 {
		_, ok = u.Alloc()
		require.True(t, ok)
	}
	_, ok = u.Alloc()
	require.False(t, ok)
	require.Equal(t, queues.Ledger{Held: 64, Total: 64}, u.Ledger())
	require.NoError(t, u.Audit())
}

func TestFreeRefusesWhatIsNotHeld(t *testing.T) {
	u := plainUMEM(t, ringtest.New(ringtest.Config{}), 64)
	a, _ := u.Alloc()
	u.Free(a)
	for _, addr := range []uint64{a, a + 100, 5 * 2048, 64 * 2048, math.MaxUint64} {
		u.Free(addr)
	}
	require.Equal(t, queues.Ledger{Free: 64, Total: 64, Misused: 5}, u.Ledger())
	require.NoError(t, u.Audit())

	strict, err := queues.NewUMEM(queues.UMEMConfig{
		NumFrames: 64, FrameSize: 2048, Kernel: ringtest.New(ringtest.Config{}), PanicOnMisuse: true,
	})
	require.NoError(t, err)
	require.PanicsWithValue(t, "queues: free of address 0x800: not the owner, or outside its frame", func() { strict.Free(2048) })
}

func TestData(t *testing.T) {
	u := plainUMEM(t, ringtest.New(ringtest.Config{}), 64)
	const size = 64 * 2048
	for _, test := range []struct {
		name string
		d    queues.Desc
		ok   bool
	}{
		{"whole frame", queues.Desc{Addr: 2048, Len: 2048}, true},
		{"behind headroom", queues.Desc{Addr: 2048 + 256, Len: 60}, true},
		{"last byte", queues.Desc{Addr: size - 1, Len: 1}, true},
		{"empty", queues.Desc{Addr: 10, Len: 0}, true},
		{"into the next frame", queues.Desc{Addr: 2047, Len: 2}, false},
		{"beyond the UMEM", queues.Desc{Addr: size, Len: 1}, false},
		{"empty beyond the UMEM", queues.Desc{Addr: size, Len: 0}, false},
		{"over the end", queues.Desc{Addr: size - 1, Len: 2}, false},
		{"len that wraps 32 bits", queues.Desc{Addr: 2000, Len: math.MaxUint32}, false},
		{"addr that wraps 64 bits", queues.Desc{Addr: math.MaxUint64, Len: 2}, false},
	} {
		b := u.Data(test.d)
		require.Equal(t, test.ok, b != nil, test.name)
		if test.ok {
			require.Len(t, b, int(test.d.Len), test.name)
			require.Equal(t, len(b), cap(b), "%s: append must not run into the rest of the frame", test.name)
		}
	}
}

func TestCloseOfUMEMFails(t *testing.T) {
	u := plainUMEM(t, cannotUnmap{ringtest.New(ringtest.Config{})}, 64)
	require.ErrorIs(t, u.Close(), errUnmap)
}

var errUnmap = errors.New("no")

type cannotUnmap struct{ *ringtest.Kernel }

func (cannotUnmap) Unmap([]byte) error { return errUnmap }
