package napi

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Replay puts back what the journal holds, which is what a process that did not end orderly has left changed, and strikes it out. It
// returns in words what was put back and what was dropped, and why; nil when the journal was empty. Call it before anything is taken.
//
//   - A device that is gone, or another one by now (the number differs), is dropped. So is all of another boot, or of an earlier
//     network namespace of the same inode.
//   - A queue without a NAPI is dropped: its settings went with it. But if the device is down its driver may keep them, so its entries
//     stay for another Replay.
//   - A thread's rank and CPUs are put back if it is still that thread, or one that Replay itself has made.
//   - What cannot be put back stays in the journal, and is in the error.
//
// The client must be one of the same network namespace, and so must the calling thread; nil means that the kernel has none.
func (j *Journal) Replay(c *Client) ([]string, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.c.Entries) == 0 && len(j.stale) == 0 {
		return nil, nil
	}
	if c != nil && netnsCookie(c.fd) != j.c.Cookie {
		return nil, fmt.Errorf("put back what is in %s: the netlink client is of another network namespace: %w", j.path, unix.EINVAL)
	}
	r := replay{j: j, c: c, threads: map[string]bool{}}
	for _, e := range j.stale {
		r.say(e, "dropped: it was of an earlier network namespace of the same number")
	}
	entries := slices.Clone(j.c.Entries)
	// Whole devices first: that overwrites the settings of their NAPIs, and makes threads.
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Queue, b.Queue))
	})
	var left []entry
	var errs []error
	for _, e := range entries {
		keep, err := r.entry(e)
		if err != nil {
			errs = append(errs, fmt.Errorf("put back %v: %w", e, err))
		}
		if keep {
			left = append(left, e)
		}
	}
	if err := j.replace(left); err != nil {
		errs = append(errs, fmt.Errorf("strike out what was put back in %s: %w", j.path, err))
	} else {
		j.stale = nil
	}
	return r.words, errors.Join(errs...)
}

// replay is one run of Replay.
type replay struct {
	j     *Journal
	c     *Client
	words []string
	// threads are the devices, and the queues of devices, to which this run has given kernel threads.
	threads map[string]bool
}

func (r *replay) say(e entry, format string, args ...any) {
	r.words = append(r.words, fmt.Sprintf("%v: ", e)+fmt.Sprintf(format, args...))
}

// entry puts one entry back. keep means that it must stay in the journal.
func (r *replay) entry(e entry) (keep bool, err error) {
	index, err := r.j.deviceIndex(e.Device)
	switch {
	case errors.Is(err, ErrGone):
		r.say(e, "dropped: there is no such interface any more")
		return false, nil
	case err != nil:
		return true, err
	case index != e.Ifindex:
		r.say(e, "dropped: it is another interface by now (number %d, it was %d)", index, e.Ifindex)
		return false, nil
	}
	if e.Queue == DeviceWide {
		return r.device(e)
	}
	return r.queue(e)
}

// device puts a whole device back.
func (r *replay) device(e entry) (keep bool, err error) {
	if netns, err := threadNetns(); err != nil || netns != r.j.c.Netns {
		return true, fmt.Errorf("this thread is in another network namespace: %w", cmp.Or(err, error(unix.EINVAL)))
	}
	d, err := OpenDevice(e.Device)
	if err != nil {
		return true, err
	}
	defer d.Close()
	if d.Index() != e.Ifindex {
		return true, fmt.Errorf("%w: renamed just now: try again", ErrGone)
	}
	now, err := d.Settings()
	if err != nil {
		return true, err
	}
	before := e.Settings.settings()
	before.IRQSuspend = now.IRQSuspend
	if err := d.Set(before); err != nil {
		return true, err
	}
	if before != now {
		r.say(e, "put back %v (found %v)", before, now)
	}
	r.threads[e.Device] = before.Threaded && !now.Threaded
	return false, nil
}

// queue puts one queue back.
func (r *replay) queue(e entry) (keep bool, err error) {
	if r.c == nil {
		return true, fmt.Errorf("%w: this kernel has no settings of one NAPI", ErrUnsupported)
	}
	napis, err := r.c.List(e.Ifindex)
	if err != nil {
		return true, err
	}
	i := slices.IndexFunc(napis, func(n NAPI) bool { return n.Queue == e.Queue })
	if i < 0 {
		up, err := r.j.isUp(e.Device)
		switch {
		case err != nil:
			return true, err
		case !up:
			r.say(e, "kept: the interface is down, and its driver may have kept the settings")
			return true, nil
		}
		r.say(e, "dropped: the queue has no NAPI any more")
		return false, nil
	}
	n := napis[i]
	if e.Settings != nil {
		before := e.Settings.settings()
		if err := r.c.Set(n.ID, before); err != nil {
			return true, err
		}
		if before != n.Settings {
			r.say(e, "put back %v (found %v)", before, n.Settings)
		}
		if before.Threaded != n.Threaded {
			made, err := r.c.Get(n.ID)
			if err != nil {
				return true, err
			}
			n.PID = made.PID
			r.threads[e.String()] = before.Threaded
		}
	}
	if e.Thread == nil {
		return false, nil
	}
	return r.thread(e, n.PID)
}

// thread puts the rank and the CPUs of a queue's kernel thread back.
func (r *replay) thread(e entry, pid int) (keep bool, err error) {
	switch {
	case pid == 0:
		r.say(e, "rank dropped: the kernel thread %d has ended", e.Thread.PID)
		return false, nil
	case pid != e.Thread.PID && !r.threads[e.String()] && !r.threads[e.Device]:
		r.say(e, "rank dropped: the kernel thread %d is not the one it was, %d", pid, e.Thread.PID)
		return false, nil
	}
	before, _ := e.Thread.rank() // a name that was checked
	now, cpus, err := ThreadRank(pid)
	if err != nil {
		return true, err
	}
	if now != before {
		if err := SetThreadRank(pid, before); err != nil {
			return true, err
		}
		r.say(e, "put back the rank of kernel thread %d, %v (found %v)", pid, before, now)
	}
	if !slices.Equal(cpus, e.Thread.CPUs) {
		if err := SetThreadCPUs(pid, e.Thread.CPUs); err != nil {
			return true, err
		}
		r.say(e, "put back the CPUs of kernel thread %d, %v (found %v)", pid, e.Thread.CPUs, cpus)
	}
	return false, nil
}
