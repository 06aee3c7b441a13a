package xdpprog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever arrives, the verdict is one of three, exactly one counter beside Seen moves, and the verdict is the counter's.
func FuzzRX(f *testing.F) {
	p := newPort(f, AttachNative)
	require.NoError(f, p.SetSocket(0, newXSK(f)))
	for _, tc := range rxCases() {
		f.Add(tc.frame, uint32(0), true)
	}
	f.Add(transit(), uint32(4), true)
	f.Add(transit(), uint32(0), false)
	f.Fuzz(func(t *testing.T, frame []byte, gate uint32, credit bool) {
		if len(frame) < 14 || len(frame) > 64<<10 {
			t.Skip("the kernel runs no such frame")
		}
		d := p.Door(0)
		d.SetGate(gate)
		d.Grant(d.Spent())
		if credit {
			d.Grant(d.Spent() + 1)
		}
		spent := d.Spent()
		before := p.Counters()
		verdict := run(t, p.program, frame, nil)
		after := p.Counters()
		require.Equal(t, before.Seen+1, after.Seen)
		require.Equal(t, after.Seen, after.Sum())

		passed := after.Passed != before.Passed
		redirected := after.Redirected != before.Redirected
		switch verdict {
		case xdpPass:
			require.True(t, passed)
		case xdpRedirect:
			require.True(t, redirected)
			require.True(t, credit && gate == 0)
		case xdpDrop:
			require.False(t, passed || redirected)
		default:
			t.Fatalf("verdict %d", verdict)
		}
		if redirected {
			spent++
		}
		require.Equal(t, spent, d.Spent())
	})
}

// Attributes of IFLA_XDP come from the kernel; still, nothing in them may read past their end.
func FuzzParseXDP(f *testing.F) {
	f.Add([]byte{5, 0, 2, 0, 1, 0, 0, 0, 8, 0, 5, 0, 7, 0, 0, 0})
	f.Add([]byte{8, 0, 6, 0x80, 9, 0, 0, 0})
	f.Add([]byte{3, 0, 6, 0})
	f.Add([]byte{255, 255, 7, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		id, mode := parseXDP(b)
		if id != 0 {
			require.NotEmpty(t, mode)
		}
	})
}

func TestParseXDP(t *testing.T) {
	id, mode := parseXDP([]byte{5, 0, 2, 0, 1, 0, 0, 0, 8, 0, 5, 0, 7, 0, 0, 0})
	require.Equal(t, "native", mode)
	require.EqualValues(t, 7, id)
	id, mode = parseXDP([]byte{8, 0, 6, 0x80, 9, 0, 0, 0})
	require.Equal(t, "generic", mode)
	require.EqualValues(t, 9, id)
}
