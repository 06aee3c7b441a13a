package napi

import (
	"errors"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func itoa(n int) string { return strconv.Itoa(n) }

// device opens a link of the rig.
func (r *rig) device(t testing.TB, link string) *Device {
	t.Helper()
	var d *Device
	require.NoError(t, r.ns.Do(func() (err error) {
		d, err = OpenDevice(link)
		return err
	}))
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func TestDevice(t *testing.T) {
	r := newRig(t, 2)
	d := r.device(t, "in0")
	require.Equal(t, r.index(t, "in0"), d.Index())
	before, err := d.Settings()
	require.NoError(t, err)
	require.Equal(t, Settings{}, before)

	require.NoError(t, d.SetMasking(5, 2*time.Millisecond))
	require.NoError(t, d.SetThreaded(true))
	want := Settings{DeferHardIRQs: 5, GROFlush: 2 * time.Millisecond, Threaded: true}
	got, err := d.Settings()
	require.NoError(t, err)
	require.Equal(t, want, got)
	for _, n := range r.list(t) {
		require.Equal(t, want, n.Settings)
		require.Positive(t, n.PID)
	}
	require.NoError(t, d.Set(before))
	for _, n := range r.list(t) {
		require.Equal(t, before, n.Settings)
	}
	require.ErrorIs(t, d.SetMasking(0, -1), unix.EINVAL)
}

func TestDeviceMaskingAllocatesNothing(t *testing.T) {
	r := newRig(t, 1)
	d := r.device(t, "in0")
	timeout := time.Millisecond
	require.Zero(t, testing.AllocsPerRun(100, func() {
		timeout += time.Microsecond
		if err := d.SetMasking(1, timeout); err != nil {
			t.Fatal(err)
		}
	}))
	got, err := d.Settings()
	require.NoError(t, err)
	require.Equal(t, timeout, got.GROFlush)
}

func TestDeviceThatGoes(t *testing.T) {
	r := newRig(t, 1)
	d := r.device(t, "in0")
	require.NoError(t, r.ns.Down("in0"))
	require.ErrorIs(t, d.SetThreaded(true), ErrUnsupported, "a veth has no NAPI while it is down")
	require.NoError(t, r.ns.Delete("in0"))
	require.ErrorIs(t, d.SetMasking(1, time.Millisecond), ErrGone)
	_, err := d.Settings()
	require.ErrorIs(t, err, ErrGone)
	require.ErrorIs(t, r.ns.Do(func() error {
		_, err := OpenDevice("in0")
		return err
	}), ErrGone)
}

// TestDeviceOfAnotherNamespace has a device of the same name and number in each of two namespaces, and a /sys of the wrong one.
func TestDeviceOfAnotherNamespace(t *testing.T) {
	r := newRig(t, 1)
	root := -1
	require.NoError(t, r.ns.Do(func() (err error) {
		root, err = openSysfs()
		return err
	}))
	defer unix.Close(root)
	require.NoError(t, r.ns.Do(func() error { return sameDevices(root) }))

	other := newOtherRig(t)
	require.Equal(t, r.index(t, "in0"), other.index(t, "in0"), "the test means to have them alike")
	err := other.ns.Do(func() error { return sameDevices(root) })
	require.ErrorContains(t, err, "has address")

	refused := func() (int, error) { return -1, unix.EPERM }
	err = other.ns.Do(func() error {
		_, err := openDevice("in0", refused)
		return err
	})
	require.ErrorIs(t, err, ErrUnsupported)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "/sys shows another network namespace")
}

// TestDeviceThroughMountedSysfs falls back on /sys, which shows the namespace the tests were started in.
func TestDeviceThroughMountedSysfs(t *testing.T) {
	refused := func() (int, error) { return -1, unix.EPERM }
	d, err := openDevice("lo", refused)
	if errors.Is(err, ErrUnsupported) || errors.Is(err, unix.EACCES) {
		t.Skip("/sys is not writable, or not of this namespace: ", err)
	}
	require.NoError(t, err)
	defer d.Close()
	want, err := os.ReadFile("/sys/class/net/lo/gro_flush_timeout")
	require.NoError(t, err)
	got, err := d.Settings()
	require.NoError(t, err)
	require.Equal(t, string(want), itoa(int(got.GROFlush))+"\n")
}
