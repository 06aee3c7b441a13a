package napi

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// journalDir is a directory that journals take.
func journalDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "weir")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return dir
}

// openJournal opens the journal of the namespace the test runs in, which has lo.
func openJournal(t testing.TB, dir string) *Journal {
	t.Helper()
	j, err := OpenJournal(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}

// crash is what kill -9 does to a journal: its files are closed, nothing more is written.
func (j *Journal) crash() { j.release() }

// files are the names in a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestJournalKeepsTheFirstValue(t *testing.T) {
	dir := journalDir(t)
	j := openJournal(t, dir)
	first := Settings{DeferHardIRQs: 1, GROFlush: time.Second, IRQSuspend: time.Minute, Threaded: true}
	require.NoError(t, j.Took("lo", 0, first))
	before, err := os.ReadFile(j.path)
	require.NoError(t, err)
	require.NoError(t, j.Took("lo", 0, Settings{}))
	require.NoError(t, j.Took("lo", 1, Settings{DeferHardIRQs: 2}))
	after, err := os.ReadFile(j.path)
	require.NoError(t, err)
	require.NotEqual(t, string(before), string(after))

	c, err := parseJournal(after, j.c.Netns)
	require.NoError(t, err)
	require.Len(t, c.Entries, 2)
	require.Equal(t, entry{Device: "lo", Ifindex: 1, Queue: 0, Settings: c.Entries[0].Settings}, c.Entries[0])
	require.Equal(t, first, c.Entries[0].Settings.settings())
	require.Equal(t, Settings{DeferHardIRQs: 2}, c.Entries[1].Settings.settings())

	require.NoError(t, j.Restored("lo", 0))
	require.NoError(t, j.Restored("lo", 7), "nothing noted")
	require.NoError(t, j.Took("lo", 0, Settings{DeferHardIRQs: 3}))
	require.Equal(t, uint32(3), j.c.Entries[1].Settings.DeferHardIRQs)
}

func TestJournalSurvivesKill(t *testing.T) {
	dir := journalDir(t)
	j := openJournal(t, dir)
	require.NoError(t, j.Took("lo", 0, Settings{DeferHardIRQs: 9}))
	require.NoError(t, j.TookRank("lo", 0, 77, Rank{Policy: unix.SCHED_FIFO, Priority: 50}, []int{0, 1}))
	require.NoError(t, j.Took("lo", DeviceWide, Settings{GROFlush: 5}))
	want := j.c.Entries
	j.crash()
	info, err := os.Lstat(j.path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	// What a process killed while writing has left.
	leftover := j.path + ".00c0ffee"
	require.NoError(t, os.WriteFile(leftover, []byte(`{"weir_napi`), 0o600))
	k := openJournal(t, dir)
	require.Equal(t, want, k.c.Entries)
	require.Equal(t, []string{k.name}, files(t, dir))
	rank, ok := k.c.Entries[0].Thread.rank()
	require.True(t, ok)
	require.Equal(t, Rank{Policy: unix.SCHED_FIFO, Priority: 50}, rank)
}

func TestJournalIsGoneWhenNothingIsLeft(t *testing.T) {
	dir := journalDir(t)
	j := openJournal(t, dir)
	require.Equal(t, []string{j.name}, files(t, dir))
	require.NoError(t, j.Took("lo", 0, Settings{}))
	require.NoError(t, j.Restored("lo", 0))
	words, err := j.Replay(nil)
	require.NoError(t, err)
	require.Nil(t, words)
	require.NoError(t, j.Close())
	require.Empty(t, files(t, dir))
	require.ErrorIs(t, j.Took("lo", 0, Settings{}), ErrClosed)

	j = openJournal(t, dir)
	require.NoError(t, j.Took("lo", 0, Settings{}))
	require.NoError(t, j.Close())
	require.Equal(t, []string{j.name}, files(t, dir))
}

func TestJournalHasOneHolder(t *testing.T) {
	dir := journalDir(t)
	j := openJournal(t, dir)
	for range 2 {
		_, err := OpenJournal(dir)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, "pid "+itoa(os.Getpid()))
		// The lock must be on the file that replaced the first as well.
		require.NoError(t, j.Took("lo", 0, Settings{}))
	}
	require.NoError(t, j.Close())
	openJournal(t, dir)
}

func TestJournalRefusesWhatCannotBePutBack(t *testing.T) {
	j := openJournal(t, journalDir(t))
	require.ErrorIs(t, j.TookRank("lo", 0, 5, Rank{Policy: unix.SCHED_DEADLINE}, []int{0}), ErrUnsupported)
	require.ErrorIs(t, j.TookRank("lo", 0, 5, Rank{}, nil), unix.EINVAL)
	require.Error(t, j.TookRank("lo", 0, 0, Rank{}, []int{0}), "no thread")
	require.Error(t, j.TookRank("lo", DeviceWide, 5, Rank{}, []int{0}))
	require.Error(t, j.Took("lo", NoQueue, Settings{}))
	require.Error(t, j.Took("lo", 0, Settings{GROFlush: -1}))
	require.ErrorIs(t, j.Took("weir-none", 0, Settings{}), ErrGone)
	require.ErrorIs(t, j.Took("a name that is too long", 0, Settings{}), ErrGone)
	require.Empty(t, j.c.Entries)
}

func TestJournalNotesTheThreadThatIs(t *testing.T) {
	j := openJournal(t, journalDir(t))
	fifo := Rank{Policy: unix.SCHED_FIFO, Priority: 50}
	require.NoError(t, j.TookRank("lo", 0, 5, fifo, []int{1}))
	require.NoError(t, j.TookRank("lo", 0, 5, Rank{}, []int{0, 1}))
	require.Equal(t, threadText{PID: 5, Policy: "FIFO", Priority: 50, CPUs: []int{1}}, *j.c.Entries[0].Thread)
	require.NoError(t, j.TookRank("lo", 0, 6, Rank{}, []int{0, 1}))
	require.Equal(t, threadText{PID: 6, Policy: "OTHER", CPUs: []int{0, 1}}, *j.c.Entries[0].Thread)
}

// TestJournalThatCannotBeWritten keeps what it had, in memory and on disk.
func TestJournalThatCannotBeWritten(t *testing.T) {
	dir := journalDir(t)
	j := openJournal(t, dir)
	require.NoError(t, j.Took("lo", 0, Settings{DeferHardIRQs: 1}))
	require.NoError(t, os.Remove(j.path))
	require.NoError(t, os.Remove(dir)) // files can be made in it no more
	err := j.Took("lo", 1, Settings{})
	require.ErrorIs(t, err, unix.ENOENT)
	require.ErrorContains(t, err, "note the settings of lo queue 1")
	require.Len(t, j.c.Entries, 1)
	require.Error(t, j.Restored("lo", 0))
	require.Len(t, j.c.Entries, 1)
}

// good is a file as it should be, of namespace 99999999999.
const good = `{
  "weir_napi_journal": 1,
  "netns": 99999999999,
  "netns_cookie": 5,
  "boot_id": "b",
  "pid": 7,
  "entries": [
    {
      "device": "in0",
      "ifindex": 2,
      "queue": 0,
      "settings": {
        "defer_hard_irqs": 1,
        "gro_flush_timeout_ns": 20000000,
        "irq_suspend_timeout_ns": 0,
        "threaded": true
      },
      "thread": {
        "pid": 12,
        "policy": "FIFO",
        "priority": 50,
        "nice": 0,
        "cpus": [
          1
        ]
      }
    },
    {
      "device": "in0",
      "ifindex": 2,
      "queue": -2,
      "settings": {
        "defer_hard_irqs": 0,
        "gro_flush_timeout_ns": 0,
        "irq_suspend_timeout_ns": 0,
        "threaded": false
      }
    }
  ]
}
`

const goodNetns = 99999999999

func TestParseJournal(t *testing.T) {
	c, err := parseJournal([]byte(good), goodNetns)
	require.NoError(t, err)
	again, err := c.format()
	require.NoError(t, err)
	require.Equal(t, good, string(again))
}

// TestParseJournalTorn cuts the file at every byte.
func TestParseJournalTorn(t *testing.T) {
	for n := range len(good) - 1 { // without the last newline it is whole
		_, err := parseJournal([]byte(good[:n]), goodNetns)
		require.ErrorIs(t, err, ErrJournal, "%d bytes", n)
	}
}

func TestParseJournalRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"weir_napi_journal": 1`, `"weir_napi_journal": 2`, "format 2"},
		{`"weir_napi_journal": 1,`, ``, "format 0"},
		{`99999999999`, `99999999998`, "of network namespace 99999999998"},
		{`"pid": 7`, `"pod": 7`, "unknown field"},
		{`"in0"`, `"../../x"`, "no name of a device"},
		{`"in0"`, `"in 0"`, "no name of a device"},
		{`"in0"`, `"."`, "no name of a device"},
		{`"in0"`, `""`, "no name of a device"},
		{`"in0"`, `"interface-number-0"`, "no name of a device"},
		{`"ifindex": 2`, `"ifindex": 0`, "interface number 0"},
		{`"ifindex": 2`, `"ifindex": 4294967298`, "interface number"},
		{`"queue": 0`, `"queue": -1`, "queue -1"},
		{`"queue": 0`, `"queue": 65537`, "queue 65537"},
		{`"queue": 0`, `"queue": 0.5`, "cannot unmarshal"},
		{`"queue": -2`, `"queue": 0`, "a second one"},
		{`"queue": 0`, `"queue": -2`, "of no queue"},
		{`"defer_hard_irqs": 1`, `"defer_hard_irqs": -1`, "cannot unmarshal"},
		{`"defer_hard_irqs": 1`, `"defer_hard_irqs": 2147483648`, "no kernel has"},
		{`"gro_flush_timeout_ns": 20000000`, `"gro_flush_timeout_ns": -1`, "no kernel has"},
		{`"threaded": true`, `"threaded": 2`, "cannot unmarshal"},
		{`"pid": 12`, `"pid": 0`, "thread 0"},
		{`FIFO`, `DEADLINE`, "DEADLINE"},
		{`FIFO`, `fifo`, `policy "fifo"`},
		{`"priority": 50`, `"priority": 100`, "priority 100"},
		{`"nice": 0`, `"nice": 20`, "nice 20"},
		{`          1`, `          -1`, "CPU -1"},
		{`          1`, ``, "no CPU"},
		{"]\n}\n", "]\n}\n{}", "behind its end"},
		{"]\n}\n", "]\n}\n\x00", "behind its end"},
		{good, strings.Repeat("\x00", len(good)), "invalid character"},
		{good, "", "it is empty"},
		{good, strings.Repeat(" ", maxJournal+1), "larger than"},
		{good, "[]", "cannot unmarshal"},
		{good, `{"weir_napi_journal":1,"netns":99999999999,"entries":[{"device":"in0","ifindex":2,"queue":0}]}`, "nothing to put back"},
	} {
		t.Run(c.want, func(t *testing.T) {
			text := strings.Replace(good, c.old, c.new, 1)
			require.NotEqual(t, good, text)
			_, err := parseJournal([]byte(text), goodNetns)
			require.ErrorIs(t, err, ErrJournal)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// FuzzParseJournal wants that what is accepted is valid, and comes out as it went in.
func FuzzParseJournal(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(good[:len(good)/2]))
	f.Add([]byte(`{"weir_napi_journal":1,"netns":99999999999,"entries":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseJournal(b, goodNetns)
		if err != nil {
			require.ErrorIs(t, err, ErrJournal)
			require.Nil(t, c)
			return
		}
		for _, e := range c.Entries {
			require.NoError(t, e.check())
		}
		text, err := c.format()
		require.NoError(t, err)
		again, err := parseJournal(text, goodNetns)
		require.NoError(t, err)
		text2, err := again.format()
		require.NoError(t, err)
		require.True(t, bytes.Equal(text, text2))
	})
}

func TestOpenJournalRefuses(t *testing.T) {
	// written makes a valid journal and returns its path.
	written := func(t *testing.T, dir string) string {
		j := openJournal(t, dir)
		require.NoError(t, j.Took("lo", 0, Settings{}))
		require.NoError(t, j.Close())
		return j.path
	}
	for _, c := range []struct {
		name, want string
		damage     func(t *testing.T, dir, path string) error
	}{
		{"torn", "ends in the middle", func(_ *testing.T, _, path string) error { return os.Truncate(path, 100) }},
		{"empty", "it is empty", func(_ *testing.T, _, path string) error { return os.Truncate(path, 0) }},
		{"of zeros", "invalid character", func(_ *testing.T, _, path string) error { return os.WriteFile(path, make([]byte, 300), 0o600) }},
		{"of another namespace", "of network namespace 99999999999", func(_ *testing.T, _, path string) error {
			return os.WriteFile(path, []byte(good), 0o600)
		}},
		{"readable by others", "mode 0640", func(_ *testing.T, _, path string) error { return os.Chmod(path, 0o640) }},
		{"of another user", "belongs to user 12345", func(t *testing.T, _, path string) error {
			if os.Geteuid() != 0 {
				t.Skip("needs CAP_CHOWN: run as root")
			}
			return os.Chown(path, 12345, -1)
		}},
		{"of two names", "2 names", func(_ *testing.T, dir, path string) error { return os.Link(path, filepath.Join(dir, "other")) }},
		{"symbolic link", "symbolic link", func(_ *testing.T, dir, path string) error {
			if err := os.Rename(path, filepath.Join(dir, "other")); err != nil {
				return err
			}
			return os.Symlink("other", path)
		}},
		{"pipe", "no regular file", func(_ *testing.T, _, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return unix.Mkfifo(path, 0o600)
		}},
		{"directory", "no regular file", func(_ *testing.T, _, path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		}},
		{"in a directory of others", "mode 0777", func(_ *testing.T, dir, _ string) error { return os.Chmod(dir, 0o777) }},
		{"in a directory of another user", "belongs to user 12345", func(t *testing.T, dir, _ string) error {
			if os.Geteuid() != 0 {
				t.Skip("needs CAP_CHOWN: run as root")
			}
			return os.Chown(dir, 12345, -1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := journalDir(t)
			path := written(t, dir)
			require.NoError(t, c.damage(t, dir, path))
			before := files(t, dir)
			_, err := OpenJournal(dir)
			require.ErrorIs(t, err, ErrJournal)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, path)
			require.Equal(t, before, files(t, dir), "what was refused was touched")
		})
	}
}

// TestJournalOfAnotherNamespaceOfTheSameInode drops what it holds.
func TestJournalOfAnotherNamespaceOfTheSameInode(t *testing.T) {
	for _, change := range []func(c *contents){
		func(c *contents) { c.Boot = "another" },
		func(c *contents) { c.Cookie++ },
	} {
		dir := journalDir(t)
		j := openJournal(t, dir)
		c := j.c
		change(&c)
		j.c = c
		require.NoError(t, j.Took("lo", 0, Settings{DeferHardIRQs: 1}))
		j.crash()

		k := openJournal(t, dir)
		words, err := k.Replay(nil)
		require.NoError(t, err)
		require.Equal(t, []string{"lo queue 0: dropped: it was of an earlier network namespace of the same number"}, words)
		words, err = k.Replay(nil)
		require.NoError(t, err)
		require.Empty(t, words)
		require.NoError(t, k.Close())
		require.Empty(t, files(t, dir))
	}
}

// TestJournalOfAKilledProcess kills a process that writes all the time: whatever it was doing, the journal is whole.
func TestJournalOfAKilledProcess(t *testing.T) {
	if dir := os.Getenv("WEIR_TEST_JOURNAL"); dir != "" {
		writeForever(t, dir) // the process to be killed is this test itself
	}
	dir := journalDir(t)
	netns, err := threadNetns()
	require.NoError(t, err)
	path := filepath.Join(dir, fmt.Sprintf("%d.journal", netns))
	for range 5 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestJournalOfAKilledProcess$", "-test.timeout=60s")
		child.Env = append(os.Environ(), "WEIR_TEST_JOURNAL="+dir)
		require.NoError(t, child.Start())
		writes, last := 0, uint64(0)
		require.Eventually(t, func() bool {
			var s unix.Stat_t
			if unix.Stat(path, &s) == nil && s.Ino != last {
				writes, last = writes+1, s.Ino
			}
			return writes >= 10
		}, 20*time.Second, time.Millisecond, "it writes nothing")
		_, err := OpenJournal(dir)
		require.ErrorIs(t, err, ErrInUse)
		require.ErrorContains(t, err, fmt.Sprintf("pid %d", child.Process.Pid))
		require.NoError(t, child.Process.Kill())
		require.ErrorContains(t, child.Wait(), "killed")

		j, err := OpenJournal(dir)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(j.c.Entries), 1)
		require.Equal(t, uint32(7), j.c.Entries[0].Settings.DeferHardIRQs)
		require.NoError(t, j.Close())
		require.Equal(t, []string{filepath.Base(path)}, files(t, dir))
	}
}

// writeForever takes and restores until it fails or is killed.
func writeForever(t *testing.T, dir string) {
	j := openJournal(t, dir)
	require.NoError(t, j.Took("lo", 0, Settings{DeferHardIRQs: 7}))
	for queue := 1; ; queue = queue%50 + 1 {
		require.NoError(t, j.Took("lo", queue, Settings{}))
		require.NoError(t, j.Restored("lo", (queue+25)%50+1))
	}
}

// TestJournalRace has goroutines share a journal, and others open it all the while.
func TestJournalRace(t *testing.T) {
	dir := journalDir(t)
	j := openJournal(t, dir)
	errs := make(chan error)
	for queue := range 4 {
		go func() {
			for range 20 {
				if err := errors.Join(j.Took("lo", queue, Settings{}), j.Restored("lo", queue), j.Took("lo", queue, Settings{DeferHardIRQs: 3})); err != nil {
					errs <- err
					return
				}
			}
			_, err := OpenJournal(dir)
			if !errors.Is(err, ErrInUse) {
				errs <- fmt.Errorf("opened a second time: %w", err)
				return
			}
			errs <- nil
		}()
	}
	for range 4 {
		require.NoError(t, <-errs)
	}
	require.Len(t, j.c.Entries, 4)
}
