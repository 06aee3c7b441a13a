package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLivelockWatch(t *testing.T) {
	const few, many = livelockLeast - 1, 50 * livelockLeast
	for name, windows := range map[string][]struct {
		came, finished uint64 // in the window
		begins, now    bool
	}{
		"nothing":                     {{0, 0, false, false}},
		"a good load":                 {{many, many, false, false}},
		"too little to tell":          {{few, 0, false, false}},
		"nothing finished":            {{livelockLeast, 0, true, true}},
		"one in fifty":                {{many, many / livelockPart, false, false}},
		"less than that":              {{many, many/livelockPart - 1, true, true}},
		"an episode ends with finish": {{many, 0, true, true}, {many, 1, false, true}, {many, many, false, false}, {many, 0, true, true}},
		"an episode ends with rest":   {{many, 0, true, true}, {0, 0, false, false}},
		"more finished than came":     {{many, 2 * many, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			l := livelockWatch{}
			var came, finished, episodes, bad uint64
			for i, w := range windows {
				came, finished = came+w.came, finished+w.finished
				require.Equal(t, w.begins, l.window(came, finished), i)
				if w.begins {
					episodes++
				}
				if w.now {
					bad++
				}
				require.Equal(t, Livelock{Now: w.now, Windows: bad, Episodes: episodes}, l.result, i)
			}
		})
	}
	t.Run("counters that were not read at one moment", func(t *testing.T) {
		l := livelockWatch{}
		l.window(10, 0)
		require.False(t, l.window(9, 0), "one packet fewer than before is no flood")
		require.False(t, l.window(10, 0))
	})
}
