package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// usage is who had used which CPU how long, at one moment.
type usage struct {
	at      time.Time
	threads map[threadKey]threadUse
	cpus    map[int]cpuUse
}

// threadKey names a thread for good: ids are used again.
type threadKey struct {
	tid     int
	started string // in ticks since boot
}

type threadUse struct {
	pid  int
	name string
	cpu  int // it was last on
	ran  time.Duration
}

// cpuUse is what /proc/stat says of a CPU, in seconds. Busy time is not among it: the kernel only samples that, while it measures what is
// left over.
type cpuUse struct{ idle, interrupts, stolen float64 }

// readUsage looks at every thread there is. It costs some 20 µs for each.
func readUsage() (usage, error) {
	u := usage{threads: map[threadKey]threadUse{}, cpus: map[int]cpuUse{}}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return u, err
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		threads, err := os.ReadDir("/proc/" + p.Name() + "/task")
		if err != nil {
			continue // it has ended
		}
		for _, t := range threads {
			dir := "/proc/" + p.Name() + "/task/" + t.Name()
			if key, use, ok := readThread(dir, pid); ok {
				u.threads[key] = use
			}
		}
	}
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return u, err
	}
	stat, err := fs.Stat()
	if err != nil {
		return u, err
	}
	for _, cpu := range labCPUs {
		c := stat.CPU[int64(cpu)]
		u.cpus[cpu] = cpuUse{idle: c.Idle + c.Iowait, interrupts: c.IRQ + c.SoftIRQ, stolen: c.Steal}
	}
	u.at = time.Now()
	return u, nil
}

// readThread reads one thread; not ok when it has ended.
func readThread(dir string, pid int) (threadKey, threadUse, bool) {
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return threadKey{}, threadUse{}, false
	}
	key, use, err := parseThread(stat)
	if err != nil {
		return key, use, false
	}
	use.pid = pid
	// The scheduler's own figure, in ns; /proc/…/stat has hundredths of a second.
	if precise, err := os.ReadFile(dir + "/schedstat"); err == nil {
		first, _, _ := bytes.Cut(precise, []byte(" "))
		if ns, err := strconv.ParseInt(string(first), 10, 64); err == nil {
			use.ran = time.Duration(ns)
		}
	}
	return key, use, true
}

// parseThread understands /proc/PID/task/TID/stat.
func parseThread(stat []byte) (key threadKey, use threadUse, err error) {
	// The name, in parentheses, may hold anything; the fields follow the last one. They are counted from 1 in proc(5), the state is 3.
	const state, utime, stime, started, processor = 3, 14, 15, 22, 39
	open, closing := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 1 || closing < open {
		return key, use, fmt.Errorf("no name in %q", stat)
	}
	use.name = string(stat[open+1 : closing])
	fields := strings.Fields(string(stat[closing+1:]))
	if len(fields) <= processor-state {
		return key, use, fmt.Errorf("%d fields in %q", len(fields), stat)
	}
	at := func(field int) int64 {
		n, wrong := strconv.ParseInt(fields[field-state], 10, 64)
		if wrong != nil && err == nil {
			err = wrong
		}
		return n
	}
	key.started = fields[started-state]
	use.ran = time.Duration(at(utime)+at(stime)) * time.Second / userHZ
	use.cpu = int(at(processor))
	tid, wrong := strconv.Atoi(string(bytes.TrimSpace(stat[:open])))
	if wrong != nil {
		return key, use, wrong
	}
	key.tid = tid
	return key, use, err
}

// userHZ is the unit of the CPU times in /proc, fixed by the kernel's interface to user space.
const userHZ = 100

// CPUShare is what others took of a CPU over a measured time, 1 being all of it.
type CPUShare struct {
	// Foreign is what ran there beside the experiment, Stolen what the hypervisor says it took.
	Foreign float64 `json:"foreign"`
	Stolen  float64 `json:"stolen"`
	// By names the processes that took most of Foreign, if any did.
	By []string `json:"by,omitempty"`
}

// Whose work a thread does, for the lab.
type participants struct {
	device int // process id, 0 for the kernel
	lab    int
	beside int // process that runs beside the device on purpose, 0 for none
}

// partOf tells whether a thread belongs to the experiment: the device under test, the generator, and the kernel threads that poll.
func (p participants) partOf(t threadUse) bool {
	return t.pid == p.device && p.device != 0 || t.pid == p.lab || t.pid == p.beside && p.beside != 0 || strings.HasPrefix(t.name, "napi/") || strings.HasPrefix(t.name, "ksoftirqd/")
}

// shares compares two readings for one CPU.
//
// Threads seen at both ends are charged to the CPUs they were seen on; one that moved is charged to both, since nobody knows where it
// was in between. A process that came and went shows in neither reading, only in the time that the CPU was not idle and that the
// experiment did not use; that figure is taken where it is the larger, less two ticks, which is what it can be wrong by. Time in interrupts
// is left out of it: without CONFIG_IRQ_TIME_ACCOUNTING it is in the threads' times already.
func (p participants) shares(before, after usage, cpu int) CPUShare {
	elapsed := after.at.Sub(before.at).Seconds()
	if elapsed <= 0 {
		return CPUShare{}
	}
	var foreign, ours float64
	by := map[string]float64{}
	for key, now := range after.threads {
		was, ok := before.threads[key]
		if !ok {
			was.cpu = now.cpu
		}
		if now.cpu != cpu && was.cpu != cpu {
			continue
		}
		ran := (now.ran - was.ran).Seconds()
		if p.partOf(now) {
			ours += ran
			continue
		}
		foreign += ran
		by[now.name] += ran
	}
	a, b := before.cpus[cpu], after.cpus[cpu]
	stolen := b.stolen - a.stolen
	rest := elapsed - (b.idle - a.idle) - (b.interrupts - a.interrupts) - stolen - ours - 2./userHZ
	return CPUShare{
		Foreign: min(max(foreign, rest, 0)/elapsed, 1), Stolen: max(stolen, 0) / elapsed, By: largest(by, elapsed*minNamed),
	}
}

const (
	// minNamed is the part of a CPU from which a process is named, maxNamed how many are.
	minNamed = 0.005
	maxNamed = 3
)

// largest names those above a limit, the largest first.
func largest(seconds map[string]float64, limit float64) []string {
	var names []string
	for name, s := range seconds {
		if s > limit {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(seconds[b], seconds[a]), strings.Compare(a, b))
	})
	return names[:min(len(names), maxNamed)]
}
