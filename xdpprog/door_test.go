package xdpprog

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoorDoesNotAllocate(t *testing.T) {
	d := &NewDoor().Door
	var c Counters
	v4, v6 := netip.MustParseAddr("10.0.2.2"), netip.MustParseAddr("2001:db8:2::2")
	egress := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		d.SetGate(3)
		d.Grant(d.Spent() + 64)
		d.SetUnlimited(true)
		d.SetUnlimited(false)
		d.SetCPU(2)
		d.SetDriving(true)
		d.Teach(7)
		d.SetShut(5)
		egress = (egress + 1) % 64
		d.Learn(v4, egress)
		d.Learn(v6, egress)
		d.Learn(v6, egress)
		d.Learn4([4]byte{10, 0, 2, 2}, egress+1)
		d.Learn6(&[16]byte{15: 1}, egress)
		d.Forget()
		head := d.LessonHead()
		c.Lessons += uint64(head[0]) + uint64(d.LessonLen())
		d.Counters(&c)
	}))
	require.EqualValues(t, 3, d.mem.gate.Load())
	require.EqualValues(t, 64, d.mem.granted.Load())
	require.EqualValues(t, 3, d.mem.cpu.Load())
	require.EqualValues(t, 1, d.mem.driving.Load())
	require.EqualValues(t, 5, d.mem.shut.Load())
	require.EqualValues(t, 7, uint16(d.mem.teach.Load()))
}

func TestPortCountersDoNotAllocate(t *testing.T) {
	p := newPort(t, AttachNative)
	var seen uint64
	require.Zero(t, testing.AllocsPerRun(100, func() { seen += p.Counters().Seen + p.QueueCounters(1).Seen }))
}

func TestCountersAddAndSum(t *testing.T) {
	c := Counters{Seen: 46, SeenHere: 100, SeenDriven: 50, Lessons: 7, Redirected: 1, DroppedNoCredit: 2, DroppedTooLong: 5, DroppedEgress: 13}
	c.DroppedGate[NumReasons-1] = 3
	c.Passed[NumClasses-1] = 4
	c.Limited[0] = 11
	require.EqualValues(t, 46, c.Sum())
	sum := c
	sum.Add(&c)
	require.Equal(t, uint64(92), sum.Sum())
	require.Equal(t, Counters{
		Seen: 92, SeenHere: 200, SeenDriven: 100, Lessons: 14, Redirected: 2, DroppedNoCredit: 4, DroppedTooLong: 10, DroppedEgress: 26, DroppedGate: [NumReasons]uint64{4: 6},
		Passed: [NumClasses]uint64{7: 8}, Limited: [NumClasses]uint64{0: 22},
	}, sum)
}

func BenchmarkDoorGrant(b *testing.B) {
	d := &Door{mem: new(doorMemory)}
	b.ReportAllocs()
	for b.Loop() {
		d.Grant(d.Spent() + 64)
	}
}
