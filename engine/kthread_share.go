package engine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

// kernelThreads are the NAPI threads that receive for a worker by means kthread: what they use counts as the worker's, and when the
// share is used up they run only when nobody else does. It belongs to the worker's thread.
type kernelThreads struct{ list []chargedThread }

// chargedThread is one of them.
type chargedThread struct {
	pid   int
	rank  napi.Rank // while there is a share left
	stat  *os.File  // schedstat
	total int64     // its CPU time when last read
}

// resting is the rank of a kernel thread whose worker has used up its share.
var resting = napi.Rank{Policy: unix.SCHED_IDLE}

// add begins to charge a thread; rank is what it has while there is a share left.
func (k *kernelThreads) add(pid int, rank napi.Rank) error {
	k.remove(pid)
	stat, err := os.Open(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return fmt.Errorf("charge kernel thread %d: %w", pid, err)
	}
	t := chargedThread{pid: pid, rank: rank, stat: stat}
	t.read()
	k.list = append(k.list, t)
	return nil
}

// remove ends charging a thread.
func (k *kernelThreads) remove(pid int) {
	for i, t := range k.list {
		if t.pid == pid {
			t.stat.Close()
			k.list = append(k.list[:i], k.list[i+1:]...)
			return
		}
	}
}

// used returns the CPU time of all since it was last read.
func (k *kernelThreads) used() (ns int64) {
	for i := range k.list {
		ns += k.list[i].read()
	}
	return ns
}

// read returns the thread's CPU time since the last call; 0 for one that has ended.
func (t *chargedThread) read() int64 {
	var buf [64]byte
	n, _ := t.stat.ReadAt(buf[:], 0) // EOF comes with the whole line
	first, _, _ := bytes.Cut(buf[:n], []byte{' '})
	total, err := strconv.ParseInt(string(first), 10, 64)
	if err != nil {
		return 0
	}
	used := total - t.total
	t.total = total
	return used
}

// demote lets the threads run only when nobody else does; promote ends that. A thread that has ended is found by the guard.
func (k *kernelThreads) demote() {
	for _, t := range k.list {
		_ = napi.SetThreadRank(t.pid, resting)
	}
}

func (k *kernelThreads) promote() {
	for _, t := range k.list {
		_ = napi.SetThreadRank(t.pid, t.rank)
	}
}

// close ends charging.
func (k *kernelThreads) close() {
	for len(k.list) > 0 {
		k.remove(k.list[0].pid)
	}
}
