package napi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// journalVersion is that of the file's format. A file of another one is refused.
const journalVersion = 1

// Bounds of a file: more than a machine has of either.
const (
	maxJournal = 4 << 20 // bytes
	maxEntries = 1 << 14
)

// contents is what a journal file holds.
type contents struct {
	Version int `json:"weir_napi_journal"`
	// Netns is the inode of the network namespace, as in the file's name.
	Netns uint64 `json:"netns"`
	// Cookie is the namespace's number that no other one gets until the next boot (SO_NETNS_COOKIE, Linux 5.14), Boot that boot's. Inodes
	// are used again, so these tell whether it is still the same namespace. 0 and "" where the kernel does not say.
	Cookie uint64 `json:"netns_cookie"`
	Boot   string `json:"boot_id"`
	// PID is the process that wrote it.
	PID     int     `json:"pid"`
	Entries []entry `json:"entries"`
}

// entry is what one queue, or a whole device, had before.
type entry struct {
	Device   string        `json:"device"`
	Ifindex  int           `json:"ifindex"`
	Queue    int           `json:"queue"`
	Settings *settingsText `json:"settings,omitempty"`
	Thread   *threadText   `json:"thread,omitempty"`
}

// settingsText is Settings in a file.
type settingsText struct {
	DeferHardIRQs uint32 `json:"defer_hard_irqs"`
	GROFlushNS    int64  `json:"gro_flush_timeout_ns"`
	IRQSuspendNS  int64  `json:"irq_suspend_timeout_ns"`
	Threaded      bool   `json:"threaded"`
}

func (s settingsText) settings() Settings {
	return Settings{DeferHardIRQs: s.DeferHardIRQs, GROFlush: time.Duration(s.GROFlushNS), IRQSuspend: time.Duration(s.IRQSuspendNS), Threaded: s.Threaded}
}

// threadText is the rank and the CPUs of a kernel thread in a file.
type threadText struct {
	PID      int    `json:"pid"`
	Policy   string `json:"policy"`
	Priority int    `json:"priority"`
	Nice     int    `json:"nice"`
	CPUs     []int  `json:"cpus"`
}

// rank is false for a policy that has no such name.
func (t threadText) rank() (Rank, bool) {
	for policy, name := range policyNames {
		if name == t.Policy {
			return Rank{Policy: policy, Priority: t.Priority, Nice: t.Nice}, true
		}
	}
	return Rank{}, false
}

// same tells whether two entries are of the same thing.
func (e entry) same(o entry) bool {
	return e.Device == o.Device && e.Ifindex == o.Ifindex && e.Queue == o.Queue
}

// String names what the entry is of.
func (e entry) String() string {
	if e.Queue == DeviceWide {
		return e.Device
	}
	return fmt.Sprintf("%s queue %d", e.Device, e.Queue)
}

// format is the file of these contents.
func (c *contents) format() ([]byte, error) {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	if len(b) > maxJournal || len(c.Entries) > maxEntries {
		return nil, fmt.Errorf("%d bytes, %d entries: more than the journal takes", len(b), len(c.Entries))
	}
	return b, nil
}

// parseJournal reads a file of the namespace of that inode. Nothing is believed: whatever this package would not have written is an error,
// which wraps ErrJournal.
func parseJournal(b []byte, netns uint64) (*contents, error) {
	c := &contents{}
	if err := c.parse(b, netns); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return c, nil
}

func (c *contents) parse(b []byte, netns uint64) error {
	if len(b) > maxJournal {
		return fmt.Errorf("larger than %d bytes", maxJournal)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("it is empty, or ends in the middle")
		}
		return err
	}
	if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%d bytes behind its end", len(rest))
	}
	switch {
	case c.Version != journalVersion:
		return fmt.Errorf("format %d, this weir knows %d", c.Version, journalVersion)
	case c.Netns != netns:
		return fmt.Errorf("of network namespace %d, not of %d", c.Netns, netns)
	case len(c.Entries) > maxEntries:
		return fmt.Errorf("%d entries", len(c.Entries))
	}
	seen := map[string]bool{}
	for i, e := range c.Entries {
		if err := e.check(); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		key := fmt.Sprintf("%s %d", e, e.Ifindex)
		if seen[key] {
			return fmt.Errorf("entry %d: a second one for %v", i, e)
		}
		seen[key] = true
	}
	return nil
}

// check says what is wrong with an entry.
func (e entry) check() error {
	switch {
	case !isDeviceName(e.Device):
		return fmt.Errorf("%q is no name of a device", e.Device)
	case e.Ifindex <= 0 || e.Ifindex > 1<<31-1:
		return fmt.Errorf("interface number %d", e.Ifindex)
	case e.Queue < 0 && e.Queue != DeviceWide || e.Queue > 1<<16:
		return fmt.Errorf("queue %d", e.Queue)
	case e.Settings == nil && e.Thread == nil:
		return fmt.Errorf("nothing to put back on %v", e)
	case e.Thread != nil && e.Queue == DeviceWide:
		return fmt.Errorf("a thread of %v, of no queue", e)
	}
	if s := e.Settings; s != nil && (s.DeferHardIRQs > 1<<31-1 || s.GROFlushNS < 0 || s.IRQSuspendNS < 0) {
		return fmt.Errorf("settings of %v that no kernel has: %v", e, s.settings())
	}
	t := e.Thread
	if t == nil {
		return nil
	}
	rank, ok := t.rank()
	if !ok {
		return fmt.Errorf("policy %q", t.Policy)
	}
	if t.PID <= 0 {
		return fmt.Errorf("thread %d", t.PID)
	}
	if err := rank.check(); err != nil {
		return err
	}
	return checkCPUs(t.CPUs)
}

// isDeviceName tells whether the kernel would let a device be called so (dev_valid_name, net/core/dev.c).
func isDeviceName(name string) bool {
	return name != "" && len(name) < unix.IFNAMSIZ && name != "." && name != ".." && !strings.ContainsAny(name, "/: \t\n\v\f\r\x00")
}

// Took notes what a queue of a device had before it is changed, or with DeviceWide what the device had. It is in the file when Took
// returns nil; when it does not, the queue must not be changed. What is noted already stays until Restored: after a crash that was not
// undone, the current values are not the ones to go back to.
func (j *Journal) Took(dev string, queue int, before Settings) error {
	err := j.note(dev, queue, func(e *entry) bool {
		if e.Settings != nil {
			return false
		}
		e.Settings = &settingsText{
			DeferHardIRQs: before.DeferHardIRQs, GROFlushNS: int64(before.GROFlush), IRQSuspendNS: int64(before.IRQSuspend), Threaded: before.Threaded,
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("note the settings of %s queue %d in %s: %w", dev, queue, j.path, err)
	}
	return nil
}

// TookRank notes the rank and the CPUs that the kernel thread of a queue's NAPI had before, as Took does. A rank that could not be put
// back, SCHED_DEADLINE, is refused.
func (j *Journal) TookRank(dev string, queue int, pid int, r Rank, cpus []int) error {
	err := j.note(dev, queue, func(e *entry) bool {
		if e.Thread != nil && e.Thread.PID == pid {
			return false
		}
		// Of another thread: the one noted is gone, and its rank with it.
		e.Thread = &threadText{PID: pid, Policy: policyNames[r.Policy], Priority: r.Priority, Nice: r.Nice, CPUs: slices.Clone(cpus)}
		return true
	})
	if err != nil {
		return fmt.Errorf("note the rank of thread %d of %s queue %d in %s: %w", pid, dev, queue, j.path, err)
	}
	return nil
}

// Restored strikes out all that is noted of a queue, or with DeviceWide of the device: it has been put back.
func (j *Journal) Restored(dev string, queue int) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(j.c.Entries), func(e entry) bool { return e.Device == dev && e.Queue == queue })
	if len(left) == len(j.c.Entries) {
		return nil
	}
	if err := j.replace(left); err != nil {
		return fmt.Errorf("strike out %s queue %d in %s: %w", dev, queue, j.path, err)
	}
	return nil
}

// note changes the entry of a queue with f, which tells whether it did, and writes the file. On an error nothing is changed.
func (j *Journal) note(dev string, queue int, f func(*entry) bool) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file < 0 {
		return ErrClosed
	}
	index, err := j.deviceIndex(dev)
	if err != nil {
		return err
	}
	e := entry{Device: dev, Ifindex: index, Queue: queue}
	i := slices.IndexFunc(j.c.Entries, e.same)
	if i >= 0 {
		e = j.c.Entries[i]
	}
	if !f(&e) {
		return nil
	}
	if err := e.check(); err != nil {
		return err
	}
	entries := slices.Clone(j.c.Entries)
	if i >= 0 {
		entries[i] = e
	} else {
		entries = append(entries, e)
	}
	return j.replace(entries)
}
