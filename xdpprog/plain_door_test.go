package xdpprog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlainDoor(t *testing.T) {
	d := NewDoor()
	admitted := func(n int) (in int) {
		for range n {
			if d.Admit() {
				in++
			}
		}
		return in
	}
	require.Zero(t, admitted(1), "no credit at first")
	d.Grant(2)
	require.Equal(t, 2, admitted(5))
	require.EqualValues(t, 2, d.Spent())
	d.Grant(1)
	require.Zero(t, admitted(1), "granted is below spent")
	d.SetUnlimited(true)
	require.Equal(t, 3, admitted(3))
	require.EqualValues(t, 2, d.Spent(), "unlimited spends nothing")
	for _, gate := range []uint32{1 << 1, 1<<1 | 1<<2, 1 << 9} {
		d.SetGate(gate)
		require.Zero(t, admitted(1))
	}
	d.SetGate(0)
	require.Equal(t, 1, admitted(1))
	var c Counters
	d.Counters(&c)
	require.Equal(t, Counters{Seen: 14, Redirected: 6, DroppedNoCredit: 5, DroppedGate: [NumReasons]uint64{1: 2, 4: 1}}, c)
	require.Equal(t, c.Seen, c.Sum())
}

func TestPlainDoorLesson(t *testing.T) {
	d := NewDoor()
	none := func(n int) {
		t.Helper()
		payload, port := d.Lesson(transit4(n))
		require.Nil(t, payload)
		require.Zero(t, port)
	}
	none(60)
	d.Teach(500)
	none(43)
	none(2049)
	frame := transit4(60)
	payload, port := d.Lesson(frame)
	require.EqualValues(t, 500, port)
	head := d.LessonHead()
	require.Equal(t, frame, append(head[:], payload...))
	require.Equal(t, 60, d.LessonLen())
	none(60)
	d.Teach(500)
	_, port = d.Lesson(transit4(44))
	require.EqualValues(t, 500, port)
	d.Teach(0)
	none(60)
	var c Counters
	d.Counters(&c)
	require.Equal(t, Counters{Seen: 2, Lessons: 2}, c)
}

func TestPlainDoorSeen(t *testing.T) {
	d := NewDoor()
	see := func(wantHere, wantDriven uint64) {
		t.Helper()
		_, here0, driven0 := d.Seen()
		d.Admit()
		_, here, driven := d.Seen()
		require.Equal(t, []uint64{wantHere, wantDriven}, []uint64{here - here0, driven - driven0})
	}
	d.SetDriving(true)
	see(0, 0)
	d.CPU = 0
	see(0, 0)
	d.SetCPU(0)
	see(1, 1)
	d.SetDriving(false)
	see(1, 0)
	d.CPU = 1
	see(0, 0)
	d.CPU = -1
	d.SetCPU(-1)
	see(0, 0)
}
