package xdpprog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoorDoesNotAllocate(t *testing.T) {
	d := &Door{mem: new(doorMemory)}
	var c Counters
	require.Zero(t, testing.AllocsPerRun(100, func() {
		d.SetGate(3)
		d.Grant(d.Spent() + 64)
		d.SetUnlimited(true)
		d.SetUnlimited(false)
		d.SetCPU(2)
		d.SetDriving(true)
		d.Teach(7)
		head := d.LessonHead()
		c.Lessons += uint64(head[0]) + uint64(d.LessonLen())
		d.Counters(&c)
	}))
	require.EqualValues(t, 3, d.mem.gate.Load())
	require.EqualValues(t, 64, d.mem.granted.Load())
	require.EqualValues(t, 3, d.mem.cpu.Load())
	require.EqualValues(t, 1, d.mem.driving.Load())
	require.EqualValues(t, 7, uint16(d.mem.teach.Load()))
}

func TestPortCountersDoNotAllocate(t *testing.T) {
	p := newPort(t, AttachNative)
	var seen uint64
	require.Zero(t, testing.AllocsPerRun(100, func() { seen += p.Counters().Seen + p.QueueCounters(1).Seen }))
}

func TestCountersAddAndSum(t *testing.T) {
	c := Counters{Seen: 33, SeenHere: 100, SeenDriven: 50, Lessons: 7, Redirected: 1, DroppedNoCredit: 2, DroppedTooLong: 5}
	c.DroppedGate[NumReasons-1] = 3
	c.Passed[NumClasses-1] = 4
	c.Limited[0] = 11
	require.EqualValues(t, 33, c.Sum())
	sum := c
	sum.Add(&c)
	require.Equal(t, uint64(66), sum.Sum())
	require.Equal(t, Counters{
		Seen: 66, SeenHere: 200, SeenDriven: 100, Lessons: 14, Redirected: 2, DroppedNoCredit: 4, DroppedTooLong: 10, DroppedGate: [NumReasons]uint64{4: 6},
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
