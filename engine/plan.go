package engine

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// plan says who serves which queue: worker w serves the receive queues q with q mod workers = w on every port, and transmits on
// queue w of every port, so that no transmit queue has two writers.
type plan struct {
	cpus []int // CPU of each worker
}

// queueCount is what a port's driver offers after the program is attached; a driver may change it on attach, and the two differ.
type queueCount struct{ rx, tx int }

// planWorkers chooses the workers: those asked for, or as many as the smallest transmit queue count and at most all usable CPUs but
// one, at least one. usable lists the CPUs this process may run on, in rising order; the workers take the last of them, since
// interrupts and everything else tend to the first.
func planWorkers(asked, usable []int, ports []queueCount, names []string) (plan, error) {
	least, at := ports[0].tx, 0
	for i, q := range ports {
		if q.tx < least {
			least, at = q.tx, i
		}
	}
	if len(asked) > least {
		return plan{}, fmt.Errorf("workers: %d asked, but port %s has %d transmit queues and each worker needs its own: "+
			"name at most %d CPUs, or give the interface more queues (ethtool -L)", len(asked), names[at], least, least)
	}
	if len(asked) > 0 {
		for _, cpu := range asked {
			if !slices.Contains(usable, cpu) {
				return plan{}, unusable(cpu, usable)
			}
		}
		return plan{cpus: asked}, nil
	}
	n := max(1, min(least, len(usable)-1))
	return plan{cpus: usable[len(usable)-n:]}, nil
}

func unusable(cpu int, usable []int) error {
	return fmt.Errorf("workers: CPU %d: not among the CPUs %v this process may use: choose one of them", cpu, usable)
}

// serves reports whether worker w serves receive queue q.
func (p plan) serves(w, q int) bool { return q%len(p.cpus) == w }

// usableCPUs lists the CPUs the process may run on.
func usableCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read this process's CPU affinity: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
