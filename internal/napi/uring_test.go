package napi

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// uring opens a ring for in0's NAPI. A kernel that is too old or has io_uring switched off skips the test.
func (c *cable) uring(t testing.TB) *Uring {
	t.Helper()
	id, err := c.taught(t).ID()
	require.NoError(t, err)
	u, err := OpenUring(id)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.Close()) })
	return u
}

func TestUringOwns(t *testing.T) {
	c := newCable(t)
	u := c.uring(t)
	c.ownership(t, u, 16)
	c.ownership(t, u, 16)
}

func TestUringErrors(t *testing.T) {
	nettest.RequirePrivilege(t) // a filter of system calls needs CAP_SYS_ADMIN
	for _, test := range []struct {
		name   string
		number uint32
		errno  unix.Errno
		want   string
	}{
		{"forbidden", unix.SYS_IO_URING_SETUP, unix.EPERM, uringRemedy(unix.EPERM, uringDisabled())},
		{"hidden", unix.SYS_IO_URING_SETUP, unix.ENOSYS, "the kernel is built without io_uring, or a system call filter hides it"},
		{"too old", unix.SYS_IO_URING_REGISTER, unix.EINVAL, "needs Linux 6.13"},
		{"no busy polling", unix.SYS_IO_URING_REGISTER, unix.EOPNOTSUPP, "CONFIG_NET_RX_BUSY_POLL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			refused(t, test.number, test.errno, func() {
				_, err := OpenUring(8193)
				assert.ErrorIs(t, err, test.errno)
				assert.ErrorIs(t, err, ErrUnsupported)
				assert.ErrorContains(t, err, "open io_uring for NAPI 8193: ")
				assert.ErrorContains(t, err, test.want)
			})
		})
	}
}

func TestUringRemedy(t *testing.T) {
	require.Contains(t, uringRemedy(unix.EPERM, "2"), "kernel.io_uring_disabled is 2: set it to 0")
	require.Contains(t, uringRemedy(unix.EPERM, "0"), "a system call filter or a security module forbids it")
}

func TestUringNoID(t *testing.T) {
	newCable(t).uring(t)
	_, err := OpenUring(1) // ids begin above the number of CPUs
	require.ErrorContains(t, err, "track NAPI 1: invalid argument: no id of a NAPI")
}

func TestUringDriveAllocatesNothing(t *testing.T) {
	c := newCable(t)
	u := c.uring(t)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if u.SetPrefer(true) != nil || u.Drive() != nil || u.SetPrefer(false) != nil || u.Drive() != nil {
			t.Error("failed")
		}
	}))
}
