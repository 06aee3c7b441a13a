package napi

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// Rank is how the kernel's scheduler ranks a thread.
type Rank struct {
	// Policy is SCHED_NORMAL, SCHED_BATCH, SCHED_IDLE, SCHED_FIFO, SCHED_RR, SCHED_DEADLINE or SCHED_EXT.
	Policy int
	// Priority is 1 to 99 with SCHED_FIFO and SCHED_RR, more is higher; otherwise 0.
	Priority int
	// Nice is -20 to 19 with SCHED_NORMAL, SCHED_BATCH and SCHED_EXT, less is a larger share. Otherwise it has no effect while it lasts.
	Nice int
}

// policyNames are the kernel's, without SCHED_, as chrt says them.
var policyNames = map[int]string{
	unix.SCHED_NORMAL: "OTHER", unix.SCHED_FIFO: "FIFO", unix.SCHED_RR: "RR", unix.SCHED_BATCH: "BATCH", unix.SCHED_IDLE: "IDLE",
	unix.SCHED_DEADLINE: "DEADLINE", unix.SCHED_EXT: "EXT",
}

// String names the rank: "FIFO 50", "OTHER nice -5", "IDLE".
func (r Rank) String() string {
	name, ok := policyNames[r.Policy]
	if !ok {
		name = fmt.Sprintf("policy %d", r.Policy)
	}
	switch r.Policy {
	case unix.SCHED_FIFO, unix.SCHED_RR:
		return fmt.Sprintf("%s %d", name, r.Priority)
	case unix.SCHED_IDLE, unix.SCHED_DEADLINE:
		return name
	}
	return fmt.Sprintf("%s nice %d", name, r.Nice)
}

// Outranks tells whether a thread of this rank runs first whenever both could run on one CPU: deadline before real-time before all
// others before idle, and real-time by priority. Among the others nice says who gets how much, not who is first: neither outranks.
func (r Rank) Outranks(o Rank) bool {
	rc, oc := r.class(), o.class()
	if rc == classRealTime && oc == classRealTime {
		return r.Priority > o.Priority
	}
	return rc > oc
}

const (
	classIdle = iota
	classFair
	classRealTime
	classDeadline
)

func (r Rank) class() int {
	switch r.Policy {
	case unix.SCHED_DEADLINE:
		return classDeadline
	case unix.SCHED_FIFO, unix.SCHED_RR:
		return classRealTime
	case unix.SCHED_IDLE:
		return classIdle
	}
	return classFair
}

// check says what is wrong with a rank, as one to be set.
func (r Rank) check() error {
	_, known := policyNames[r.Policy]
	realTime := r.class() == classRealTime
	switch {
	case !known:
		return fmt.Errorf("policy %d: %w", r.Policy, ErrUnsupported)
	case r.Policy == unix.SCHED_DEADLINE:
		return fmt.Errorf("DEADLINE: %w: a rank does not hold its runtime and period", ErrUnsupported)
	case realTime && (r.Priority < 1 || r.Priority > 99):
		return fmt.Errorf("priority %d is not in 1 to 99: %w", r.Priority, unix.EINVAL)
	case !realTime && r.Priority != 0:
		return fmt.Errorf("priority %d with %s: %w", r.Priority, policyNames[r.Policy], unix.EINVAL)
	case r.Nice < -20 || r.Nice > 19:
		return fmt.Errorf("nice %d is not in -20 to 19: %w", r.Nice, unix.EINVAL)
	}
	return nil
}

// ThreadRank returns the rank of a thread and the CPUs it may run on, in rising order. pid is a thread's own number: NAPI.PID, or
// gettid for the caller. The error wraps ErrGone when there is no such thread.
func ThreadRank(pid int) (Rank, []int, error) {
	if err := checkThread(pid); err != nil {
		return Rank{}, nil, fmt.Errorf("read rank of thread %d: %w", pid, err)
	}
	attr, err := unix.SchedGetAttr(pid, 0)
	if err != nil {
		return Rank{}, nil, fmt.Errorf("read rank of thread %d: %w", pid, explainThread(err))
	}
	r := Rank{Policy: int(attr.Policy), Priority: int(attr.Priority), Nice: int(attr.Nice)}
	cpus, err := threadCPUs(pid)
	if err != nil {
		return Rank{}, nil, fmt.Errorf("read CPUs of thread %d: %w", pid, explainThread(err))
	}
	return r, cpus, nil
}

// maxCPUs is more than any kernel is built for.
const maxCPUs = 1 << 16

func threadCPUs(pid int) ([]int, error) {
	for size := 1024; ; size *= 2 {
		set := unix.NewCPUSet(size)
		err := unix.SchedGetaffinityDynamic(pid, set)
		if err == unix.EINVAL && size < maxCPUs {
			continue // the kernel's set is larger
		}
		if err != nil {
			return nil, err
		}
		var cpus []int
		for cpu := range size {
			if set.IsSet(cpu) {
				cpus = append(cpus, cpu)
			}
		}
		return cpus, nil
	}
}

// SetThreadRank ranks a thread. Not to SCHED_DEADLINE, of which a Rank does not hold enough. Needs CAP_SYS_NICE for most changes, and for
// the real-time policies a cpu cgroup that grants real-time. No allocation unless it fails.
func SetThreadRank(pid int, r Rank) error {
	err := checkThread(pid)
	if err == nil {
		err = r.check()
	}
	if err == nil {
		attr := unix.SchedAttr{Policy: uint32(r.Policy), Priority: uint32(r.Priority), Nice: int32(r.Nice)}
		if err = unix.SchedSetAttr(pid, &attr, 0); err != nil {
			err = explainRank(err, r)
		}
	}
	if err != nil {
		return fmt.Errorf("rank thread %d as %v: %w", pid, r, err)
	}
	return nil
}

// SetThreadCPUs lets a thread run on these CPUs only. It may take until the thread's next sleep or preemption to be there.
func SetThreadCPUs(pid int, cpus []int) error {
	err := checkThread(pid)
	if err == nil {
		err = checkCPUs(cpus)
	}
	if err == nil {
		set := unix.NewCPUSet(max(slices.Max(cpus)+1, 1024))
		for _, cpu := range cpus {
			set.Set(cpu)
		}
		if err = unix.SchedSetaffinityDynamic(pid, set); err == unix.EINVAL {
			err = fmt.Errorf("%w: none of these CPUs is online and in the thread's cpuset, or the kernel has bound the thread", err)
		} else if err != nil {
			err = explainThread(err)
		}
	}
	if err != nil {
		return fmt.Errorf("let thread %d run on CPUs %v: %w", pid, cpus, err)
	}
	return nil
}

// checkCPUs refuses a list that is no set of CPUs.
func checkCPUs(cpus []int) error {
	if len(cpus) == 0 {
		return fmt.Errorf("no CPU: %w", unix.EINVAL)
	}
	for _, cpu := range cpus {
		if cpu < 0 || cpu >= maxCPUs {
			return fmt.Errorf("CPU %d: %w", cpu, unix.EINVAL)
		}
	}
	return nil
}

// checkThread refuses 0, which the kernel takes for the caller, and NAPI for no thread.
func checkThread(pid int) error {
	if pid <= 0 {
		return fmt.Errorf("no such thread: the NAPI has none, or it is in another PID namespace: %w", ErrGone)
	}
	return nil
}

func explainThread(err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: needs CAP_SYS_NICE in the initial user namespace", err)
	}
	return err
}

// explainRank tells the two reasons for EPERM apart.
func explainRank(err error, r Rank) error {
	if err == unix.EPERM && r.class() == classRealTime && hasSysNice() {
		return fmt.Errorf("%w: the thread's cpu cgroup grants no real-time (CONFIG_RT_GROUP_SCHED): "+
			"give it cpu.rt_runtime_us, or move the thread to the root cgroup", err)
	}
	return explainThread(err)
}

// hasSysNice tells whether the calling thread has CAP_SYS_NICE.
func hasSysNice() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	return unix.Capget(&header, &sets[0]) == nil && sets[0].Effective&(1<<unix.CAP_SYS_NICE) != 0
}
