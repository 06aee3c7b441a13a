package napi

import (
	"bytes"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestSocketLearns(t *testing.T) {
	c := newCable(t)
	s := c.socket(t)
	require.NotZero(t, s.Port())

	id, err := s.ID()
	require.NoError(t, err)
	require.Zero(t, id)
	require.ErrorIs(t, s.Drive(), errUntaught)
	_, ok, err := s.ReadLesson(make([]byte, 1))
	require.NoError(t, err)
	require.False(t, ok)

	lesson := bytes.Repeat([]byte("0123456789abcdef"), 80)
	c.sendUDP(t, netip.IPv4Unspecified(), broadcast, s.Port(), lesson)
	require.Equal(t, lesson, c.readLesson(t, s))
	id, err = s.ID()
	require.NoError(t, err)
	require.Positive(t, id)
	require.NoError(t, s.Drive())
}

// TestSocketHearsLessonsOnly: what is no lesson does not teach, what comes after the lesson does not stand in the way of driving.
func TestSocketHearsLessonsOnly(t *testing.T) {
	c := newCable(t)
	require.NoError(t, c.ns.Addr("in0", "10.9.0.1/24"))
	s := c.socket(t)
	strays := []struct{ src, dst netip.Addr }{{peer, here}, {peer, broadcast}, {peer, netip.MustParseAddr("10.9.0.255")}}
	for _, stray := range strays {
		c.sendUDP(t, stray.src, stray.dst, s.Port(), []byte("stray"))
	}
	require.Eventually(t, func() bool { return c.received(t) == len(strays) }, 5*time.Second, time.Millisecond)
	id, err := s.ID()
	require.NoError(t, err)
	require.Zero(t, id)

	for _, payload := range []string{"first", "second", "third"} {
		c.sendUDP(t, netip.IPv4Unspecified(), broadcast, s.Port(), []byte(payload))
	}
	require.Equal(t, "first", string(c.readLesson(t, s)))
	require.Equal(t, unix.EAGAIN, s.peek(), "the other lessons are gone")
	_, ok, err := s.ReadLesson(make([]byte, 64))
	require.NoError(t, err)
	require.False(t, ok)

	_, err = s.SetBudget(64)
	require.NoError(t, err)
	c.own(t, s)
	want := c.received(t)
	for range 3 {
		for range 10 {
			c.sendUDP(t, netip.IPv4Unspecified(), broadcast, s.Port(), []byte("late"))
		}
		require.Equal(t, want, c.received(t))
		require.Equal(t, 10, c.drive(t, s, true))
		want += 10
		require.Equal(t, unix.EAGAIN, s.peek())
	}
}

// peek says whether a datagram waits, without taking it.
func (s *Socket) peek() error {
	_, _, err := unix.Recvfrom(s.fd, make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return err
}

func TestSocketShortBuffer(t *testing.T) {
	c := newCable(t)
	s := c.socket(t)
	c.sendUDP(t, netip.IPv4Unspecified(), broadcast, s.Port(), []byte("lesson"))
	awaitDatagram(t, s)
	buf := make([]byte, 4)
	n, ok, err := s.ReadLesson(buf)
	require.ErrorContains(t, err, "6 bytes, the buffer has 4")
	require.True(t, ok)
	require.Equal(t, "less", string(buf[:n]))
	require.NoError(t, s.Drive(), "it has learned all the same")
}

// TestSocketWithoutNAPI: a veth without GRO and XDP receives in the sender's backlog.
func TestSocketWithoutNAPI(t *testing.T) {
	c := newCable(t)
	require.NoError(t, c.ns.Offload("in0", "rx-gro", false))
	s := c.socket(t)
	c.sendUDP(t, netip.IPv4Unspecified(), broadcast, s.Port(), []byte("lesson"))
	awaitDatagram(t, s)
	buf := make([]byte, 64)
	n, ok, err := s.ReadLesson(buf)
	require.ErrorContains(t, err, "came through no NAPI")
	require.True(t, ok)
	require.Equal(t, "lesson", string(buf[:n]))
	require.ErrorIs(t, s.Drive(), errUntaught)
}

func TestSocketOwns(t *testing.T) {
	c := newCable(t)
	s := c.taught(t)
	for _, budget := range []int{1, 4, 32} {
		granted, err := s.SetBudget(budget)
		require.NoError(t, err)
		require.Equal(t, budget, granted)
		c.ownership(t, s, 2*budget)
	}
}

// TestSocketOwnsThreaded: a NAPI that a kernel thread polls is taken from the thread in the same way.
func TestSocketOwnsThreaded(t *testing.T) {
	c := newCable(t)
	s := c.taught(t)
	id, err := s.ID()
	require.NoError(t, err)
	err = c.client.SetThreaded(id, true)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	_, err = s.SetBudget(32)
	require.NoError(t, err)
	c.ownership(t, s, 64)
	c.ownership(t, s, 64)
}

func TestSocketBudget(t *testing.T) {
	c := newCable(t)
	s := c.socket(t)
	granted, err := s.SetBudget(100_000)
	require.NoError(t, err)
	require.Equal(t, 65535, granted)
	_, err = s.SetBudget(0)
	require.ErrorContains(t, err, "in0: budget of 0 packets")
}

func TestSocketErrors(t *testing.T) {
	c := newCable(t)
	require.NoError(t, c.ns.Do(func() error {
		_, err := OpenSocket("nowhere")
		require.ErrorIs(t, err, unix.ENODEV)
		require.ErrorContains(t, err, "nowhere")
		return nil
	}))

	s := c.socket(t)
	withoutNetAdmin(t, func() {
		err := s.SetPrefer(true)
		require.ErrorIs(t, err, unix.EPERM)
		require.ErrorContains(t, err, "in0")
		require.ErrorContains(t, err, "CAP_NET_ADMIN")
		_, err = s.SetBudget(64)
		require.ErrorIs(t, err, unix.EPERM)
		require.NoError(t, s.SetPrefer(false))
	})
}

// withoutNetAdmin runs f on a thread that has no CAP_NET_ADMIN in effect.
func withoutNetAdmin(t *testing.T, f func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var full [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &full[0]))
	less := full
	less[0].Effective &^= 1 << unix.CAP_NET_ADMIN
	require.NoError(t, unix.Capset(&header, &less[0]))
	defer func() { require.NoError(t, unix.Capset(&header, &full[0])) }()
	f()
}

func TestSocketDriveAllocatesNothing(t *testing.T) {
	c := newCable(t)
	s := c.taught(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if s.SetPrefer(true) != nil || s.Drive() != nil || s.SetPrefer(false) != nil || s.Drive() != nil {
			t.Error("failed")
		}
	}))
}
