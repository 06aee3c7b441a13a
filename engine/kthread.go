package engine

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

// below is the rank of a kernel thread that serves a worker of a nice value: the worker gets nine tenths when both want the CPU, and
// sleeps when it has nothing. No lower: beside a third that never sleeps the thread would starve, and the worker with it.
func below(nice int) napi.Rank {
	return napi.Rank{Policy: unix.SCHED_NORMAL, Nice: min(nice+10, 19)}
}

// took is what weir has changed of a NAPI's thread.
type took struct {
	pid      int // 0: nothing
	rank     napi.Rank
	threaded bool // the thread was made for weir
	client   *napi.Client
	id       int
}

// checkThread sees to means kthread: the NAPI has a thread, and where it may have the worker's CPU it ranks below the worker.
func (g *guard) checkThread(s *guarded, n napi.NAPI) error {
	o := s.owner
	o.mu.Lock()
	wanted := o.means == OwnershipKthread
	o.mu.Unlock()
	if !wanted {
		return nil
	}
	if g.client == nil || n.ID <= 0 {
		return fmt.Errorf("kernel threads of single NAPIs: %w: needs Linux 6.17", napi.ErrUnsupported)
	}
	if !n.Threaded {
		if err := g.client.SetThreaded(n.ID, true); err != nil {
			return err
		}
		s.took = took{threaded: true, client: g.client, id: n.ID}
		return nil // its thread shows at the next look
	}
	k, demoted := s.kernel, below(s.worker.nice)
	if k.pid == 0 || k.rank == demoted || s.took.pid == k.pid && k.rank.Policy == resting.Policy || !slices.Contains(k.cpus, s.worker.cpu) {
		return nil
	}
	if g.journal != nil {
		if err := g.journal.TookRank(s.port.config.Name, s.sock.Queue(), k.pid, k.rank, k.cpus); err != nil {
			return err
		}
	}
	if s.took.pid == k.pid {
		o.count.retaken.Add(1)
		g.engine.notice("port %s queue %d: somebody ranked kernel thread %d %v: demoted again", s.port.config.Name, s.sock.Queue(), k.pid, k.rank)
	}
	if err := napi.SetThreadRank(k.pid, demoted); err != nil {
		return fmt.Errorf("rank it below the worker: %w", err)
	}
	s.took.pid, s.took.rank, s.took.client, s.took.id = k.pid, k.rank, g.client, n.ID
	var err error
	if !s.worker.driver.call(func() { err = s.worker.threads.add(k.pid, demoted) }) {
		err = s.worker.stuck()
	}
	return err
}

// restoreThread gives a NAPI's thread its rank back, or ends it if it was made for weir.
func (s *guarded) restoreThread() error {
	t := s.took
	var err error
	switch {
	case t.threaded:
		err = t.client.SetThreaded(t.id, false)
	case t.pid != 0:
		err = napi.SetThreadRank(t.pid, t.rank)
	}
	if errors.Is(err, napi.ErrGone) {
		return nil // with its device, or with the program that was attached to it
	}
	return err
}
