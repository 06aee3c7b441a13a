package bench

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"weir/internal/napi"
)

// Placement is where the receive work of in0 runs, and with which rank. It is imposed from outside, after the device under test has
// started, as an administrator or a distribution might.
type Placement string

// The placements. In the last two each NAPI of in0 has a kernel thread, pinned to the CPU of what is measured.
const (
	// Pipeline leaves receive work to the sender's CPU: two cores in a row.
	Pipeline Placement = "pipeline"
	// SameCore makes receive and forwarding compete for one CPU, as equals.
	SameCore Placement = "same-core"
	// Outranking has the kernel threads at SCHED_FIFO: receive goes first, as interrupts did in the paper.
	Outranking Placement = "outranking"
)

// Placements lists all of them.
var Placements = []Placement{Pipeline, SameCore, Outranking}

const (
	inPort = "in0"
	// outrankingPriority is above a user's real-time threads that keep to the lower half.
	outrankingPriority = 50
	attrThreaded       = "threaded"
)

// imposed is a placement in force on a rig, until lift.
type imposed struct {
	rig       *Rig
	placement Placement
	threads   []int // kernel threads of in0's NAPIs
}

// impose puts in0's receive work where the placement says. in0 must have its NAPIs: a receive program, or GRO.
func (p Placement) impose(r *Rig) (_ *imposed, err error) {
	i := &imposed{rig: r, placement: p}
	if err := i.lift(); err != nil || p == Pipeline {
		return i, err
	}
	if err := r.Router.SetLinkAttr(inPort, attrThreaded, "1"); err != nil {
		return nil, fmt.Errorf("placement %s: %w", p, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("placement %s: %w", p, err), i.lift())
		}
	}()
	if i.threads, err = r.receiveThreads(); err != nil {
		return i, err
	}
	if len(i.threads) != r.Queues {
		return i, fmt.Errorf("%d kernel threads for the %d queues of %s", len(i.threads), r.Queues, inPort)
	}
	for _, pid := range i.threads {
		if err := errors.Join(napi.SetThreadCPUs(pid, []int{forwarderCPU}), napi.SetThreadRank(pid, p.rank())); err != nil {
			return i, err
		}
	}
	return i, nil
}

// receiveThreads are the kernel threads that poll in0, in the order of its queues.
func (r *Rig) receiveThreads() ([]int, error) {
	link, err := r.Router.Link(inPort)
	if err != nil {
		return nil, err
	}
	var threads []int
	err = r.Router.Do(func() error {
		client, err := napi.Dial()
		if err != nil {
			return err
		}
		defer client.Close()
		list, err := client.List(link.Attrs().Index)
		for _, n := range list {
			if n.PID != 0 {
				threads = append(threads, n.PID)
			}
		}
		return err
	})
	return threads, err
}

// rank is that of the kernel threads.
func (p Placement) rank() napi.Rank {
	if p == Outranking {
		return napi.Rank{Policy: unix.SCHED_FIFO, Priority: outrankingPriority}
	}
	return napi.Rank{Policy: unix.SCHED_NORMAL}
}

// changes says in words what of the placement is not as it was imposed: what is measured may defend itself by that.
func (i *imposed) changes() ([]string, error) {
	threaded, err := i.rig.Router.LinkAttr(inPort, attrThreaded)
	if err != nil {
		return nil, err
	}
	want := "1"
	if i.placement == Pipeline {
		want = "0"
	}
	var changes []string
	if threaded != want {
		changes = append(changes, fmt.Sprintf("%s of %s is %s", attrThreaded, inPort, threaded))
	}
	threads, err := i.rig.receiveThreads()
	if err != nil {
		return nil, err
	}
	if len(threads) != len(i.threads) {
		changes = append(changes, fmt.Sprintf("%s has %d kernel threads, not %d", inPort, len(threads), len(i.threads)))
	}
	for _, pid := range i.threads {
		changes = append(changes, i.changesOf(pid)...)
	}
	return changes, nil
}

func (i *imposed) changesOf(pid int) (changes []string) {
	rank, cpus, err := napi.ThreadRank(pid)
	if err != nil {
		return []string{fmt.Sprintf("a kernel thread of %s is gone", inPort)}
	}
	if want := i.placement.rank(); rank != want {
		changes = append(changes, fmt.Sprintf("a kernel thread of %s is %s, not %s", inPort, rank, want))
	}
	if !slices.Equal(cpus, []int{forwarderCPU}) {
		changes = append(changes, fmt.Sprintf("a kernel thread of %s may run on CPUs %v", inPort, cpus))
	}
	return changes
}

// lift undoes the placement: no thread outranks anything any more, and the device has none after its next receive program. Call it from
// a CPU that the kernel threads do not have. Lifting twice is harmless.
func (i *imposed) lift() error {
	var errs []error
	for _, pid := range i.threads {
		if err := napi.SetThreadRank(pid, napi.Rank{}); err != nil && !errors.Is(err, napi.ErrGone) {
			errs = append(errs, err)
		}
	}
	if threaded, err := i.rig.Router.LinkAttr(inPort, attrThreaded); err != nil || threaded != "0" {
		errs = append(errs, err, i.rig.Router.SetLinkAttr(inPort, attrThreaded, "0"))
	}
	return errors.Join(errs...)
}
