package napi

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// rig is a veth pair in0 – p0 in a namespace of its own, and a client in there. in0 has GRO on, hence NAPIs.
type rig struct {
	ns     *nettest.NS
	client *Client
}

// newRig makes a rig whose in0 has that many queues.
func newRig(t testing.TB, queues int) *rig {
	t.Helper()
	return newRigIn(t, "set", queues)
}

// newOtherRig makes a second rig.
func newOtherRig(t testing.TB) *rig {
	t.Helper()
	return newRigIn(t, "other", 1)
}

func newRigIn(t testing.TB, name string, queues int) *rig {
	t.Helper()
	nettest.RequirePrivilege(t)
	ns, err := nettest.NewNS(name)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, ns.Close()) })
	end := nettest.VethEnd{NumRX: queues, NumTX: queues}
	require.NoError(t, nettest.Veth(ns, "in0", ns, "p0", nettest.VethOptions{A: end, B: end}))
	require.NoError(t, ns.Offload("in0", "rx-gro", true))
	require.NoError(t, ns.Up("in0"))
	require.NoError(t, ns.Up("p0"))
	r := &rig{ns: ns}
	require.NoError(t, ns.Do(func() (err error) {
		r.client, err = Dial()
		return err
	}))
	t.Cleanup(func() { require.NoError(t, r.client.Close()) })
	return r
}

// index is the number of a link.
func (r *rig) index(t testing.TB, link string) int {
	t.Helper()
	l, err := r.ns.Link(link)
	require.NoError(t, err)
	return l.Attrs().Index
}

// list is the NAPIs of in0.
func (r *rig) list(t testing.TB) []NAPI {
	t.Helper()
	napis, err := r.client.List(r.index(t, "in0"))
	require.NoError(t, err)
	return napis
}

// settable skips on kernels that have no settings of one NAPI, and fails on those that should.
func (r *rig) settable(t testing.TB, major, minor int) {
	t.Helper()
	if old := olderThan(t, major, minor); old {
		t.Skipf("needs Linux %d.%d", major, minor)
	}
	require.True(t, r.client.CanSet())
}

// olderThan tells whether the running kernel is older than a version.
func olderThan(t testing.TB, major, minor int) bool {
	t.Helper()
	var u unix.Utsname
	require.NoError(t, unix.Uname(&u))
	version := [2]int{}
	i := 0
	for _, b := range u.Release {
		if b < '0' || b > '9' {
			if i++; i == len(version) {
				break
			}
			continue
		}
		version[i] = 10*version[i] + int(b-'0')
	}
	return version[0] < major || version[0] == major && version[1] < minor
}

func TestListTellsQueuesAndSettings(t *testing.T) {
	r := newRig(t, 3)
	r.settable(t, 6, 13)
	napis := r.list(t)
	require.Len(t, napis, 3)
	for i, n := range napis {
		require.Equal(t, NAPI{ID: n.ID, Queue: i}, n)
		require.Positive(t, n.ID)
		if i > 0 {
			require.Greater(t, n.ID, napis[i-1].ID)
		}
	}
	require.NoError(t, r.client.SetMasking(napis[1].ID, 7, 20*time.Millisecond))
	want := napis[1]
	want.Settings = Settings{DeferHardIRQs: 7, GROFlush: 20 * time.Millisecond}
	require.Equal(t, []NAPI{napis[0], want, napis[2]}, r.list(t))
	require.NoError(t, r.client.SetMasking(napis[1].ID, 0, 0))
	require.Equal(t, napis, r.list(t))

	one, err := r.client.Get(napis[2].ID)
	require.NoError(t, err)
	one.Queue = 2
	require.Equal(t, napis[2], one)
}

func TestListOfNothing(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	require.NotEmpty(t, r.list(t))
	require.NoError(t, r.ns.Down("in0"))
	require.Empty(t, r.list(t), "down")
	_, err := r.client.List(r.index(t, "in0") + 1000)
	require.ErrorIs(t, err, ErrGone)
	_, err = r.client.List(0)
	require.ErrorIs(t, err, unix.EINVAL)
}

func TestLinkFlapEndsIDs(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	before := r.list(t)[0].ID
	require.NoError(t, r.client.SetMasking(before, 1, time.Millisecond))
	require.NoError(t, r.ns.Down("in0"))
	require.ErrorIs(t, r.client.SetMasking(before, 1, time.Millisecond), ErrGone)
	require.NoError(t, r.ns.Up("in0"))
	after := r.list(t)[0]
	require.NotEqual(t, before, after.ID)
	require.Equal(t, Settings{}, after.Settings)
	_, err := r.client.Get(before)
	require.ErrorIs(t, err, ErrGone)
}

func TestClientReachesItsOwnNamespaceOnly(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	id := r.list(t)[0].ID
	outside, err := Dial()
	require.NoError(t, err)
	defer outside.Close()
	require.ErrorIs(t, outside.SetMasking(id, 1, time.Millisecond), ErrGone)
	require.Equal(t, Settings{}, r.list(t)[0].Settings)
}

func TestSetThreaded(t *testing.T) {
	r := newRig(t, 2)
	r.settable(t, 6, 17)
	napis := r.list(t)
	require.NoError(t, r.client.SetThreaded(napis[1].ID, true))
	got := r.list(t)
	require.Equal(t, napis[0], got[0])
	require.True(t, got[1].Threaded)
	require.Positive(t, got[1].PID)
	require.NoError(t, r.client.SetThreaded(napis[1].ID, false))
	require.Equal(t, napis, r.list(t))
}

func TestSetChangesWhatDiffers(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 17)
	before := r.list(t)[0]
	s := Settings{DeferHardIRQs: 3, GROFlush: time.Millisecond, IRQSuspend: time.Second, Threaded: true}
	require.NoError(t, r.client.Set(before.ID, s))
	require.Equal(t, s, r.list(t)[0].Settings)
	pid := r.list(t)[0].PID
	s.DeferHardIRQs = 4
	require.NoError(t, r.client.Set(before.ID, s))
	require.Equal(t, s, r.list(t)[0].Settings)
	require.Equal(t, pid, r.list(t)[0].PID, "the thread was made anew")
	require.NoError(t, r.client.Set(before.ID, before.Settings))
	require.Equal(t, before, r.list(t)[0])
}

func TestSetMaskingRefuses(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	id := r.list(t)[0].ID
	require.ErrorIs(t, r.client.SetMasking(0, 1, time.Second), unix.EINVAL)
	require.ErrorIs(t, r.client.SetMasking(-1, 1, time.Second), unix.EINVAL)
	require.ErrorIs(t, r.client.SetMasking(id, 1, -1), unix.EINVAL)
	err := r.client.SetMasking(id, math.MaxUint32, time.Second)
	require.ErrorIs(t, err, unix.ERANGE)
	require.ErrorContains(t, err, "integer out of range", "the kernel's words are left out")
	require.Equal(t, Settings{}, r.list(t)[0].Settings)
	require.NoError(t, r.client.SetMasking(id, 1, time.Second), "an error left the client unusable")
}

func TestSetMaskingAllocatesNothing(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	id := r.list(t)[0].ID
	timeout := time.Millisecond
	require.Zero(t, testing.AllocsPerRun(100, func() {
		timeout += time.Microsecond
		if err := r.client.SetMasking(id, 1, timeout); err != nil {
			t.Fatal(err)
		}
	}))
	require.Equal(t, timeout, r.list(t)[0].GROFlush)
}

func BenchmarkSetMasking(b *testing.B) {
	r := newRig(b, 1)
	id := r.list(b)[0].ID
	b.ReportAllocs()
	for b.Loop() {
		if err := r.client.SetMasking(id, 1, time.Millisecond); err != nil {
			b.Fatal(err)
		}
	}
}

// TestListOfManyQueues has an answer of several datagrams.
func TestListOfManyQueues(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	const queues = 512
	end := nettest.VethEnd{NumRX: queues, NumTX: queues}
	require.NoError(t, nettest.Veth(r.ns, "in1", r.ns, "p1", nettest.VethOptions{A: end}))
	require.NoError(t, r.ns.Offload("in1", "rx-gro", true))
	require.NoError(t, r.ns.Up("in1"))
	napis, err := r.client.List(r.index(t, "in1"))
	require.NoError(t, err)
	require.NotEmpty(t, napis)
	for i, n := range napis {
		require.Equal(t, i, n.Queue)
	}
	t.Log(len(napis), "NAPIs")
}

func TestAssign(t *testing.T) {
	napi := func(id, queue int, mapped bool) NAPI { return NAPI{ID: id, Queue: queue, Mapped: mapped} }
	for _, c := range []struct {
		name   string
		napis  []int
		queues []rxQueue
		want   []NAPI
	}{
		{"order", []int{12, 10, 11}, []rxQueue{{1, 0}, {0, 0}, {2, 0}}, []NAPI{napi(10, 0, false), napi(11, 1, false), napi(12, 2, false)}},
		{"transmit NAPIs, no map", []int{10, 11}, []rxQueue{{0, 0}}, []NAPI{napi(10, NoQueue, false), napi(11, NoQueue, false)}},
		{"transmit NAPIs", []int{10, 11, 12, 13}, []rxQueue{{0, 11}, {1, 13}},
			[]NAPI{napi(11, 0, true), napi(13, 1, true), napi(10, NoQueue, false), napi(12, NoQueue, false)}},
		{"reversed", []int{10, 11}, []rxQueue{{0, 11}, {1, 10}}, []NAPI{napi(11, 0, true), napi(10, 1, true)}},
		{"shared", []int{10}, []rxQueue{{0, 10}, {1, 10}}, []NAPI{napi(10, 0, true), napi(10, 1, true)}},
		{"unknown id", []int{10}, []rxQueue{{0, 9}}, []NAPI{napi(10, NoQueue, false)}},
		{"no queues", []int{10}, nil, []NAPI{napi(10, NoQueue, false)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var napis []NAPI
			for _, id := range c.napis {
				napis = append(napis, napi(id, NoQueue, false))
			}
			require.Equal(t, c.want, assign(napis, c.queues))
		})
	}
}

func TestNAPIString(t *testing.T) {
	n := NAPI{ID: 8193, Queue: 1, IRQ: 25, PID: 77, Settings: Settings{DeferHardIRQs: 2, GROFlush: time.Millisecond, Threaded: true}}
	require.Equal(t, "NAPI 8193, queue 1 by order, irq 25, thread 77: "+
		"defer-hard-irqs 2, gro-flush-timeout 1ms, irq-suspend-timeout 0s, threaded 1", n.String())
	n.Mapped = true
	require.Contains(t, n.String(), "8193, queue 1, irq")
	n.Queue = NoQueue
	require.Contains(t, n.String(), "8193, no queue, irq")
}

func TestExplain(t *testing.T) {
	for errno, want := range map[unix.Errno]error{
		unix.EOPNOTSUPP: ErrUnsupported, unix.ENOENT: ErrGone, unix.ENODEV: ErrGone, unix.EPERM: unix.EPERM, unix.EBUSY: unix.EBUSY,
	} {
		err := explain(fmt.Errorf("answer: %w", &kernelError{errno: errno, words: "why"}))
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, errno)
		require.ErrorContains(t, err, "why")
	}
}

// TestSetMaskingNeedsPrivilege gives up CAP_NET_ADMIN on a thread that ends with it.
func TestSetMaskingNeedsPrivilege(t *testing.T) {
	r := newRig(t, 1)
	r.settable(t, 6, 13)
	id := r.list(t)[0].ID
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread has lost its capabilities and ends here
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			done <- err
			return
		}
		done <- r.client.SetMasking(id, 1, time.Millisecond)
	}()
	err := <-done
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorContains(t, err, "needs CAP_NET_ADMIN")
	require.Equal(t, Settings{}, r.list(t)[0].Settings)
}

// FuzzAnswer wants no more of the parsers than that they keep within their bounds.
func FuzzAnswer(f *testing.F) {
	f.Add(finish(appendUint32(request(30, 0, cmdNAPIGet), attrNAPIID, 8193)))
	f.Add(finish(appendUint64(request(unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS, 0xff), attrNAPIGROFlush, 1)))
	f.Fuzz(func(t *testing.T, b []byte) {
		left := len(b)
		for m, rest, ok := nextAnswer(b); ok; m, rest, ok = nextAnswer(rest) {
			require.Less(t, len(rest), left)
			left = len(rest)
			_ = m.err()
			if len(m.body) >= sizeofGenlMsghdr {
				attrs := m.body[sizeofGenlMsghdr:]
				require.Equal(t, NoQueue, parseNAPI(attrs).Queue)
				parseQueue(attrs)
				hasCommand(attrs, cmdNAPISet)
			}
		}
	})
}
