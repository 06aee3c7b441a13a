package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The packet of a lesson is forwarded whole, byte for byte, and counted once.
func TestLessonIsForwarded(t *testing.T) {
	for _, w := range bothWays {
		t.Run(w.name, func(t *testing.T) {
			r := newRig(t, w.options)
			r.rest()
			o, sock := r.pupil(portIn)
			in, out := numbered(0, 3)
			require.Equal(t, 1, r.arrive(portIn, in[0]))
			o.Learn()
			require.Equal(t, 1, r.arrive(portIn, in[1:]...), "one of them is the lesson, and one only")
			r.check()
			require.Len(t, sock.waiting, 1)
			require.True(t, o.Learned())
			r.check()
			r.rest()
			sent := r.ports[portOut].wire.Transmitted()
			require.ElementsMatch(t, out, sent)
			s := r.ports[portIn].source
			require.EqualValues(t, 3, s.read(sourceReceived))
			require.EqualValues(t, 1, s.read(sourceLessons))
			require.EqualValues(t, 3, s.read(int(forwarded)))
			require.Empty(t, r.ports[portIn].drops())
			r.close()
		})
	}
}

// Every frame that forward has a case for ends as it would have without a lesson.
func TestLessonAgreesWithForward(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, _ := r.pupil(portIn)
	want := map[Reason]uint64{}
	tried := 0
	for _, c := range forwardCases() {
		o.forget()
		o.Learn()
		if c.partial || len(c.frame) == 0 || r.arrive(portIn, c.frame) != 0 {
			r.rest() // too short, or its checksum would be partial
			r.ports[portIn].wire.Transmitted()
			r.ports[portOut].wire.Transmitted()
			if !c.partial && len(c.frame) > 0 && c.reason != forwarded {
				want[c.reason]++
			}
			continue
		}
		tried++
		require.True(t, o.Learned(), c.name)
		r.rest()
		sent := append(r.ports[portIn].wire.Transmitted(), r.ports[portOut].wire.Transmitted()...)
		if c.reason == forwarded {
			sameFrames(t, [][]byte{c.out}, sent, c.name)
		} else {
			require.Empty(t, sent, c.name)
			want[c.reason]++
		}
		require.Equal(t, want, r.ports[portIn].drops(), c.name)
	}
	require.NotZero(t, tried)
	r.close()
}

// What the door keeps of a lesson's packet is of the last one: while one is on its way none is asked for, and a late one is still whole.
func TestLessonThatIsLate(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, sock := r.pupil(portIn)
	in, out := numbered(0, 4)
	o.Learn()
	require.Zero(t, r.arrive(portIn, in[0]))
	late := sock.waiting
	sock.waiting = nil // it has left the door, and is not here yet
	require.False(t, o.Learned())
	require.EqualValues(t, 1, r.ports[portIn].source.lessonsOnTheWay())
	o.Learn()
	require.Equal(t, 1, r.arrive(portIn, in[1]), "a second lesson would overwrite the head of the first")
	sock.waiting = late
	require.True(t, o.Learned())
	require.Zero(t, r.ports[portIn].source.lessonsOnTheWay())
	r.rest()
	require.ElementsMatch(t, out[:2], r.ports[portOut].wire.Transmitted())
	r.close()
}

// A request that nothing has answered stays the only one: there is no second lesson to come.
func TestLessonIsAskedForOnce(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, sock := r.pupil(portIn)
	for range maxLessons {
		o.Learn()
	}
	in, _ := numbered(0, 10)
	require.Equal(t, 9, r.arrive(portIn, in...))
	require.Len(t, sock.waiting, 1)
	require.True(t, o.Learned())
	r.rest()
	r.close()
}

// A lesson that does not arrive is lost and counted so, and another one is asked for; when too many are, the next means is tried.
func TestLessonIsLost(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, sock := r.pupil(portIn)
	sock.deaf = true
	in, _ := numbered(0, 1)
	var asked []int // calls of Learn that made a lesson
	for i := range maxLessons {
		o.Learn()
		if r.arrive(portIn, in[0]) == 0 {
			asked = append(asked, i)
		}
		require.False(t, o.Learned())
		require.Equal(t, OwnershipSocket, o.means)
		r.rest()
	}
	require.Equal(t, []int{0, 2, 4}, asked)
	require.EqualValues(t, 3, r.ports[portIn].doorCounters().Lessons)
	require.EqualValues(t, 3, sock.lost)
	require.True(t, o.looksForLesson())
	require.False(t, o.looksForLesson(), "given up")
	require.Zero(t, r.ports[portIn].source.lessonsOnTheWay())
	o.asked = OwnershipSocket
	o.Learn()
	require.Equal(t, OwnershipSocket, o.means, "a requirement is not given up")
	r.arrive(portIn, in[0])
	o.asked = OwnershipAuto
	o.napi.ID = anonymous // so that no ring is opened
	o.Learn()
	require.Equal(t, OwnershipUring, o.means)
	require.ErrorIs(t, o.why, errNoLesson)
	r.rest()
	r.close()
}

// A lesson without a frame to put it in waits in its socket.
func TestLessonWaitsForAFrame(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, sock := r.pupil(portIn)
	umem := r.ports[portIn].umem
	var held []uint64
	for addr, ok := umem.Alloc(); ok; addr, ok = umem.Alloc() {
		held = append(held, addr)
	}
	o.Learn()
	in, _ := numbered(0, 1)
	require.Zero(t, r.arrive(portIn, in...))
	require.False(t, o.Learned())
	require.Len(t, sock.waiting, 1)
	for _, addr := range held {
		umem.Free(addr)
	}
	require.True(t, o.Learned())
	r.rest()
	r.close()
}

// Lessons cost no credit, however many there are: the door lets in as much as ever.
func TestLessonsLeaveTheCreditsRight(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, _ := r.pupil(portIn)
	p := r.ports[portIn]
	in, _ := numbered(0, 300)
	atRest := func() int {
		n := r.arrive(portIn, in...)
		r.rest()
		r.ports[portOut].wire.Transmitted()
		return n
	}
	want := atRest()
	require.Less(t, want, len(in))
	for i := range 5000 {
		o.forget()
		o.Learn()
		require.Zero(t, r.arrive(portIn, in[i%len(in)]))
		require.True(t, o.Learned())
		if i%7 == 0 {
			r.arrive(portIn, in[:i%20]...)
		}
		r.step()
		r.ports[portOut].wire.Transmitted()
	}
	r.rest()
	require.EqualValues(t, 5000, p.source.read(sourceLessons))
	require.Equal(t, want, atRest())
	r.close()
}
