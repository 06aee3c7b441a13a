package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"weir/internal/napi"
	"weir/poller"
)

// The NAPI of the scripts, and what it was before weir.
const scriptedNAPI = 7

var scriptedBefore = napi.Settings{DeferHardIRQs: 3, GROFlush: 50 * time.Microsecond}

// scriptedSocket is a handle socket and the masking of its NAPI, which remember what was done to them and fail when told to.
type scriptedSocket struct {
	port     uint16
	waiting  [][]byte // lessons that have arrived and are not read
	deaf     bool     // lessons get lost
	lost     uint64
	budget   int
	budgets  int // times it was set
	driven   func(packets int)
	quiet    bool // nothing is remembered
	log      []string
	fail     map[string]error // by the word in log, once each
	settings napi.Settings
	prefer   bool
	closed   bool
}

func newScriptedSocket() *scriptedSocket {
	return &scriptedSocket{port: 4711, fail: map[string]error{}, settings: scriptedBefore}
}

func (s *scriptedSocket) does(what string) error {
	if s.quiet {
		return nil
	}
	s.log = append(s.log, what)
	err := s.fail[what]
	delete(s.fail, what)
	return err
}

// deliver is the way of a lesson from the door to the socket.
func (s *scriptedSocket) deliver(port uint16, payload []byte) {
	if s.deaf || port != s.port {
		s.lost++
		return
	}
	s.waiting = append(s.waiting, append([]byte(nil), payload...))
}

func (s *scriptedSocket) Drive() error {
	if s.driven != nil {
		s.driven(2 * s.budget)
	}
	return s.does("drive")
}

func (s *scriptedSocket) SetPrefer(on bool) error {
	if !s.quiet {
		if err := s.does(fmt.Sprint("prefer ", on)); err != nil {
			return err
		}
	}
	s.prefer = on
	return nil
}

func (s *scriptedSocket) SetMasking(id int, deferHardIRQs uint32, groFlush time.Duration) error {
	if !s.quiet {
		if err := s.does(fmt.Sprintf("mask %d %d/%v", id, deferHardIRQs, groFlush)); err != nil {
			return err
		}
	}
	s.settings.DeferHardIRQs, s.settings.GROFlush = deferHardIRQs, groFlush
	return nil
}

func (s *scriptedSocket) Port() uint16 { return s.port }
func (s *scriptedSocket) FD() int      { return -1 }

func (s *scriptedSocket) Close() error {
	s.closed = true
	return nil
}

func (s *scriptedSocket) ReadLesson(buf []byte) (int, bool, error) {
	if len(s.waiting) == 0 {
		return 0, false, nil
	}
	n := copy(buf, s.waiting[0])
	s.waiting = s.waiting[1:]
	return n, true, s.does("read")
}

func (s *scriptedSocket) SetBudget(packets int) (int, error) {
	s.budget, s.budgets = packets, s.budgets+1
	return packets, nil
}

// pupil gives the source of a port a scripted NAPI, whose receive work runs on the worker's CPU.
func (r *rig) pupil(port int) (*owner, *scriptedSocket) {
	r.t.Helper()
	p := r.ports[port]
	p.pupil = newScriptedSocket()
	p.door.CPU = r.worker.cpu
	o := p.source.owner
	o.masker = p.pupil
	require.NoError(r.t, o.replace(p.pupil, napi.NAPI{ID: scriptedNAPI, Settings: scriptedBefore}))
	return o, p.pupil
}

// teach makes an owner know its NAPI by a lesson, whose packet it forwards.
func (r *rig) teach(port int, frame []byte) {
	r.t.Helper()
	o := r.ports[port].source.owner
	o.Learn()
	require.Zero(r.t, r.arrive(port, frame), "it was not made a lesson")
	require.True(r.t, o.Learned())
}

const (
	masked   = "mask 7 1/20ms"
	unmasked = "mask 7 3/50µs"
)

func TestOwnerMasksBeforeItPrefers(t *testing.T) {
	r := newRig(t, rigOptions{})
	o, sock := r.pupil(portIn)
	in, _ := numbered(0, 1)
	r.teach(portIn, in[0])
	require.False(t, sock.prefer)
	require.NoError(t, o.Own())
	require.Equal(t, []string{"read", masked, "prefer true"}, sock.log)
	require.Equal(t, o.flush, sock.settings.GROFlush)
	sock.log = nil
	require.NoError(t, o.Release())
	require.Equal(t, []string{"prefer false", unmasked, "drive"}, sock.log, "what was there before, and then a poll for it to be seen")
	require.Zero(t, o.count.failed.Load())
	r.rest()
	r.close()
}

// The flush timeout exceeds the longest sleep that a CPU share brings about.
func TestOwnerFlush(t *testing.T) {
	for period, want := range map[time.Duration]time.Duration{
		10 * time.Millisecond: 20 * time.Millisecond, 50 * time.Millisecond: 100 * time.Millisecond, time.Millisecond: 20 * time.Millisecond,
	} {
		require.Equal(t, want, newOwner(&source{worker: &worker{}}, OwnershipAuto, poller.Share{Period: period}).flush, period)
	}
}

var errScripted = errors.New("scripted")

// A step that fails leaves nothing masked, or nothing released, and is counted.
func TestOwnerFails(t *testing.T) {
	for _, c := range []struct {
		step    string
		err     error
		release bool
		means   Ownership // afterwards, when it was ours to choose
		knows   bool
	}{
		{masked, errScripted, false, OwnershipUring, false},
		{masked, napi.ErrGone, false, OwnershipSocket, false}, // the guard will find another NAPI
		{"prefer true", errScripted, false, OwnershipUring, false},
		{"prefer false", errScripted, true, OwnershipSocket, true},
		{unmasked, errScripted, true, OwnershipSocket, true},
		{"drive", errScripted, true, OwnershipSocket, true},
	} {
		for _, asked := range []Ownership{OwnershipAuto, OwnershipSocket} {
			t.Run(fmt.Sprint(c.step, " ", c.err, " ", asked), func(t *testing.T) {
				r := newRig(t, rigOptions{config: func(c *Config) { c.Ownership = asked }})
				o, sock := r.pupil(portIn)
				in, _ := numbered(0, 1)
				r.teach(portIn, in[0])
				if c.release {
					require.NoError(t, o.Own())
				}
				sock.fail[c.step] = c.err
				if c.release {
					require.ErrorIs(t, o.Release(), c.err)
					require.True(t, o.owned, "it must be driven on")
				} else {
					require.ErrorIs(t, o.Own(), c.err)
					require.False(t, o.owned)
					require.Equal(t, scriptedBefore, sock.settings)
					require.False(t, sock.prefer)
				}
				require.EqualValues(t, 1, o.count.failed.Load())
				require.ErrorIs(t, o.lastErr, c.err)
				if asked == OwnershipSocket {
					require.Equal(t, OwnershipSocket, o.means, "a requirement is not given up")
				} else {
					require.Equal(t, c.means, o.means)
					require.Equal(t, c.knows, o.learned)
				}
				if c.release {
					require.NoError(t, o.Release())
					require.Equal(t, scriptedBefore, sock.settings)
				}
				r.rest()
				r.close()
			})
		}
	}
}

func TestOwnerWithoutNAPI(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	o, sock := r.pupil(portIn)
	o.void()
	o.Learn()
	in, _ := numbered(0, 1)
	require.Equal(t, 1, r.arrive(portIn, in...), "a lesson was asked for")
	require.False(t, o.Learned())
	require.ErrorIs(t, o.Own(), errNoHandle)
	require.Empty(t, sock.log)
	r.rest()
	r.close()
}

func TestOwnerClose(t *testing.T) {
	for name, c := range map[string]struct {
		own  bool
		fail error
		want error
	}{
		"owned": {own: true}, "not owned": {}, "gone": {own: true, fail: napi.ErrGone}, "refused": {true, errScripted, errScripted},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigOptions{})
			r.rest()
			o, sock := r.pupil(portIn)
			in, _ := numbered(0, 2)
			r.teach(portIn, in[0])
			if c.own {
				require.NoError(t, o.Own())
			}
			sock.fail[unmasked] = c.fail
			require.ErrorIs(t, o.close(), c.want)
			require.ErrorIs(t, o.kept, c.want, "what was not put back stays in the journal")
			require.True(t, sock.closed)
			require.Equal(t, c.fail == nil, sock.settings == scriptedBefore)
			require.False(t, sock.prefer)
			// Whatever comes until the worker ends, it owns nothing any more.
			o.Learn()
			require.Equal(t, 1, r.arrive(portIn, in[1]))
			require.False(t, o.Learned())
			require.Error(t, o.Own())
			require.NoError(t, o.close())
			r.rest()
			r.close()
		})
	}
}

func TestBudgetFor(t *testing.T) {
	for limit, want := range map[int]int{1: 4, 8: 4, 9: 8, 16: 8, 17: 16, 64: 32, 65: 64, 128: 64, 129: 128, 256: 128, 257: 128, 1 << 31: 128} {
		require.Equal(t, want, budgetFor(limit), limit)
	}
}

// Where receive work runs is told from at least lookAt frames; owned, only the guard can tell.
func TestOwnerCompetes(t *testing.T) {
	r := newRig(t, rigOptions{noDiscard: true})
	o, _ := r.pupil(portIn)
	door := r.ports[portIn].door
	see := func(here, elsewhere int) {
		for i := range here + elsewhere {
			door.CPU = 1
			if i < here {
				door.CPU = r.worker.cpu
			}
			door.Admit()
		}
	}
	require.False(t, o.Competes(), "nothing is known yet")
	see(lookAt-1, 0)
	require.False(t, o.Competes())
	see(1, 0)
	require.True(t, o.Competes())
	see(0, lookAt-1)
	require.True(t, o.Competes(), "it holds until there is a new look")
	see(0, 1)
	require.False(t, o.Competes())
	see(lookAt/2, lookAt/2)
	require.True(t, o.Competes(), "half of it is enough")
	see(lookAt/2-1, lookAt/2+1)
	require.False(t, o.Competes())

	o.owned = true
	require.True(t, o.Competes())
	o.away = true
	require.False(t, o.Competes())
	o.owned = false
	see(lookAt-1, 0)
	require.False(t, o.Competes(), "the look begins anew: what was driven says nothing")
	require.False(t, o.away)
	see(lookAt, 0)
	require.True(t, o.Competes())
	for _, means := range []Ownership{OwnershipKthread, OwnershipOff} {
		o.means = means
		require.False(t, o.Competes(), means)
	}
}

// Losing tells of packets that were refused for want of a frame since it was asked last. The turns here are not the scheduler's, which
// would ask.
func TestOwnerLosing(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.rest()
	s := r.ports[portIn].source
	in, _ := numbered(0, 200)
	turn := func(n int) {
		r.arrive(portIn, in[:n]...)
		s.Receive(64)
	}
	turn(1)
	require.False(t, s.owner.Losing())
	turn(200)
	require.True(t, s.owner.Losing())
	require.False(t, s.owner.Losing(), "it was asked already")
	s.Receive(64)
	require.False(t, s.owner.Losing(), "nothing was taken")
}
