package queues_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/queues/ringtest"
)

// plainMemory maps memory but must not be asked for a socket.
type plainMemory struct{ untouchable }

func (plainMemory) Map(size int) ([]byte, string, error) { return make([]byte, size), "plain", nil }

func TestOpenRefusesBeforeItTouchesAnything(t *testing.T) {
	u := plainUMEM(t, plainMemory{untouchable{t}}, 64)
	for _, test := range []struct {
		name   string
		change func(*queues.SocketConfig)
		is     error
		says   string
	}{
		{"RX 511", func(c *queues.SocketConfig) { c.NumRX = 511 }, queues.ErrRingSize,
			"open eth1 queue 0: ring size is no power of two (RX ring of 511): use 1024, say"},
		{"RX 0", func(c *queues.SocketConfig) { c.NumRX = 0 }, queues.ErrRingSize, ""},
		{"TX 1000", func(c *queues.SocketConfig) { c.NumTX = 1000 }, queues.ErrRingSize, ""},
		{"TX negative", func(c *queues.SocketConfig) { c.NumTX = -2 }, queues.ErrRingSize, ""},
		{"Fill 0", func(c *queues.SocketConfig) { c.NumFill = 0 }, queues.ErrRingSize, ""},
		{"Completion 3", func(c *queues.SocketConfig) { c.NumCompletion = 3 }, queues.ErrRingSize, ""},
		{"Fill 2^32", func(c *queues.SocketConfig) { c.NumFill = 1 << 32 }, queues.ErrRingSize, ""},
		{"Fill smallest int", func(c *queues.SocketConfig) { c.NumFill = -1 << 63 }, queues.ErrRingSize, ""},
		{"depth beyond the ring", func(c *queues.SocketConfig) { c.FillDepth = 17 }, queues.ErrFillDepth,
			"open eth1 queue 0: fill depth not possible (17): the Fill ring has 16 entries"},
		{"depth negative", func(c *queues.SocketConfig) { c.FillDepth = -1 }, queues.ErrFillDepth, ""},
		{"depth beyond the UMEM", func(c *queues.SocketConfig) { c.NumFill, c.FillDepth = 128, 65 }, queues.ErrFillDepth,
			"open eth1 queue 0: fill depth not possible (65): only 64 frames are free: use a larger UMEM"},
		{"queue negative", func(c *queues.SocketConfig) { c.Queue = -1 }, unix.EINVAL, ""},
		{"index negative", func(c *queues.SocketConfig) { c.Ifindex = -1 }, unix.EINVAL, ""},
		{"mode unknown", func(c *queues.SocketConfig) { c.Mode = 7 }, queues.ErrMode, ""},
		{"interface unknown", func(c *queues.SocketConfig) { c.Ifindex, c.Interface = 0, "no-such-link" }, unix.ENODEV,
			"open no-such-link queue 0: no such device"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := smallConfig(1)
			test.change(&c)
			s, err := u.Open(c)
			require.Nil(t, s)
			require.ErrorIs(t, err, test.is)
			require.ErrorContains(t, err, test.says)
			require.Equal(t, queues.Ledger{Free: 64, Total: 64}, u.Ledger())
		})
	}
}

func TestOpenReleasesEverythingWhenItFails(t *testing.T) {
	broken := errors.New("broken")
	for _, test := range []struct {
		name   string
		script func(*ringtest.Kernel)
		mode   queues.Mode
		is     error
		says   string
	}{
		{"socket", func(k *ringtest.Kernel) { k.FailSockets(broken) }, queues.Auto, broken, "open eth1 queue 0: broken"},
		{"bind", func(k *ringtest.Kernel) { k.FailBinds(broken) }, queues.Auto, broken, "bind eth1 queue 0: broken"},
		{"no zero copy", func(*ringtest.Kernel) {}, queues.ZeroCopy, unix.EOPNOTSUPP,
			"bind eth1 queue 0: operation not supported: the driver cannot do zero copy on this queue: use mode copy or auto"},
		{"no such queue", func(k *ringtest.Kernel) { k.FailBinds(unix.EINVAL) }, queues.Auto, unix.EINVAL,
			"bind eth1 queue 0: invalid argument: the interface may not have queue 0"},
		{"removed meanwhile", func(k *ringtest.Kernel) { k.RemoveDevice(1) }, queues.Auto, unix.ENODEV,
			"bind eth1 queue 0: no such device"},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := ringtest.New(ringtest.Config{})
			u := plainUMEM(t, k, 64)
			test.script(k)
			c := smallConfig(1)
			c.Mode = test.mode
			s, err := u.Open(c)
			require.Nil(t, s)
			require.ErrorIs(t, err, test.is)
			require.EqualError(t, err, test.says)
			require.Zero(t, k.NumSockets(), "the socket was closed")
			require.Equal(t, queues.Ledger{Free: 64, Total: 64}, u.Ledger())
			require.NoError(t, u.Audit())

			c = smallConfig(2)
			s, err = u.Open(c)
			require.NoError(t, err, "the UMEM is as good as before")
			require.NoError(t, s.Close())
			require.NoError(t, u.Close())
		})
	}
}

func TestOpenTriesABusyQueueAgain(t *testing.T) {
	k := ringtest.New(ringtest.Config{})
	u := plainUMEM(t, k, 64)
	k.FailBinds(unix.EBUSY, unix.EINTR, unix.EBUSY)
	s, err := u.Open(smallConfig(1))
	require.NoError(t, err)
	require.NoError(t, s.Close())

	busy := make([]error, 1000)
	for i := range busy {
		busy[i] = unix.EBUSY
	}
	k.FailBinds(busy...)
	c := smallConfig(1)
	c.BindTimeout = 5 * time.Millisecond
	_, err = u.Open(c)
	require.ErrorIs(t, err, unix.EBUSY)
	require.ErrorContains(t, err, "bind eth1 queue 0: device or resource busy (tried for 5ms")
	require.Equal(t, 64, u.NumFree())
}

func TestOpenRefusesItsOwnQueueTwice(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	_, err := b.umem.Open(smallConfig(1))
	require.ErrorIs(t, err, queues.ErrInUse)
	b.check()
}

// The scripted kernel refuses what net/xdp refuses: a second registration where one is
// shared, more flags than XDP_SHARED_UMEM, the socket of a device that is gone.
func TestOpenSharesTheUMEMThroughALivingSibling(t *testing.T) {
	k := ringtest.New(ringtest.Config{})
	u := plainUMEM(t, k, 64)
	open := func(ifindex int) *queues.Socket {
		t.Helper()
		s, err := u.Open(smallConfig(ifindex))
		require.NoError(t, err)
		return s
	}
	one, two := open(1), open(2)
	k.RemoveDevice(1)
	three := open(3) // nobody has noticed yet that device 1 is gone: its socket answers EBADF
	require.Equal(t, queues.StateGone, one.State())
	require.Equal(t, 1, k.NumRegistrations())

	require.NoError(t, two.Close())
	four := open(4)
	require.Equal(t, 1, k.NumRegistrations())
	k.RemoveDevice(3)
	k.RemoveDevice(4)
	five := open(5)
	require.Equal(t, 2, k.NumRegistrations(), "no sibling lives: registered anew")
	for _, s := range []*queues.Socket{one, three, four, five} {
		require.NoError(t, s.Close())
	}
	open(6)
	require.Equal(t, 3, k.NumRegistrations())
	require.Equal(t, queues.Ledger{Free: 56, Receive: 8, Total: 64}, u.Ledger())
	require.NoError(t, u.Audit())
	require.NoError(t, k.Audit(u.Ledger()))
}

func TestModes(t *testing.T) {
	for _, test := range []struct {
		zeroCopy      bool // the kernel can
		first, second queues.Mode
		granted       queues.Mode
		firstErr      error
		secondErr     error
	}{
		{false, queues.Auto, queues.Auto, queues.Copy, nil, nil},
		{true, queues.Auto, queues.Auto, queues.ZeroCopy, nil, nil},
		{true, queues.Copy, queues.Auto, queues.Copy, nil, nil},
		{true, queues.ZeroCopy, queues.ZeroCopy, queues.ZeroCopy, nil, nil},
		{false, queues.ZeroCopy, queues.Auto, queues.Auto, unix.EOPNOTSUPP, nil},
		{true, queues.Copy, queues.ZeroCopy, queues.Copy, nil, queues.ErrMode},
		{true, queues.Auto, queues.Copy, queues.ZeroCopy, nil, queues.ErrMode},
		{false, queues.Auto, queues.Copy, queues.Copy, nil, nil},
	} {
		k := ringtest.New(ringtest.Config{ZeroCopy: test.zeroCopy})
		u := plainUMEM(t, k, 64)
		c := smallConfig(1)
		c.Mode = test.first
		s, err := u.Open(c)
		require.ErrorIs(t, err, test.firstErr)
		if test.firstErr != nil {
			continue
		}
		require.Equal(t, test.granted, s.Mode())
		c = smallConfig(2)
		c.Mode = test.second
		s, err = u.Open(c)
		require.ErrorIs(t, err, test.secondErr)
		if test.secondErr == nil {
			require.Equal(t, test.granted, s.Mode())
		}
		require.Equal(t, 64, u.Ledger().Sum())
	}
}

func TestModeOfASharedUMEMIsNamed(t *testing.T) {
	k := ringtest.New(ringtest.Config{})
	u := plainUMEM(t, k, 64)
	_, err := u.Open(smallConfig(1))
	require.NoError(t, err)
	c := smallConfig(2)
	c.Mode = queues.ZeroCopy
	_, err = u.Open(c)
	require.EqualError(t, err, "open eth1 queue 0: mode not granted (zerocopy): the UMEM is in mode copy: use another UMEM")
	k.FailBinds(unix.EOPNOTSUPP)
	_, err = u.Open(smallConfig(2))
	require.EqualError(t, err, "bind eth1 queue 0: operation not supported: the driver cannot have the mode of the UMEM it is to share: use another UMEM")
}

// A kernel that grants something else than a requirement is not believed.
func TestModeThatWasNotGranted(t *testing.T) {
	k := ringtest.New(ringtest.Config{ZeroCopy: true})
	k.GrantCopyOnly()
	u := plainUMEM(t, k, 64)
	c := smallConfig(1)
	c.Mode = queues.ZeroCopy
	_, err := u.Open(c)
	require.EqualError(t, err, "bind eth1 queue 0: mode not granted (zerocopy): the kernel granted copy")
	require.Zero(t, k.NumSockets())
	require.Equal(t, queues.Ledger{Free: 64, Total: 64}, u.Ledger())
}

func TestUMEMClosesAfterItsSockets(t *testing.T) {
	b := newBench(t, ringtest.Config{})
	require.EqualError(t, b.umem.Close(), "close UMEM: in use (eth1 queue 0 is open): close its sockets first")
	require.NoError(t, b.socket.Close())
	require.NoError(t, b.umem.Close())
}

func TestInterfaceWithoutNameIsNamedByIndex(t *testing.T) {
	k := ringtest.New(ringtest.Config{})
	k.FailBinds(unix.EINVAL)
	c := smallConfig(9)
	c.Interface = ""
	_, err := plainUMEM(t, k, 64).Open(c)
	require.ErrorContains(t, err, "bind interface 9 queue 0: ")
}

func TestMapsRings(t *testing.T) {
	for _, test := range []struct {
		maps string
		want bool
	}{
		{"", false},
		{"7f24e0000000-7f24e0001000 rw-s 180000000 00:08 33297                      socket:[33297]\n", true},
		{"7f24e0000000-7f24e0001000 rw-s 00000000 00:08 33297                      socket:[33297]\n" +
			"7f24e0001000-7f24e0002000 rw-s 100000000 00:08 33297                      socket:[33297]\n", true},
		{"7f24e0000000-7f24e0001000 rw-s 00000000 00:08 33297                      socket:[33297]\n", false},
		{"7f24e0000000-7f24e0001000 rw-s 100000000 00:08 33297                     /some/file\n", false},
		{"7f24e0000000-7f24e0001000 rw-s 100000000 00:08 33297\n", false},
	} {
		require.Equal(t, test.want, queues.MapsRings([]byte(test.maps)), test.maps)
	}
}
