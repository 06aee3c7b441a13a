package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlanWorkers(t *testing.T) {
	for _, c := range []struct {
		name          string
		asked, usable []int
		ports         []queueCount
		want          []int
		refusal       string
	}{
		{"one queue, two CPUs", nil, []int{0, 1}, []queueCount{{1, 1}, {1, 1}}, []int{1}, ""},
		{"four queues, two CPUs: one stays free", nil, []int{0, 1}, []queueCount{{4, 4}, {4, 4}}, []int{1}, ""},
		{"four queues, eight CPUs", nil, []int{0, 1, 2, 3, 4, 5, 6, 7}, []queueCount{{4, 4}, {8, 8}}, []int{4, 5, 6, 7}, ""},
		{"transmit queues bound, receive queues do not", nil, []int{0, 1, 2, 3}, []queueCount{{4, 2}, {4, 4}}, []int{2, 3}, ""},
		{"a single CPU", nil, []int{3}, []queueCount{{4, 4}}, []int{3}, ""},
		{"asked for", []int{0, 1}, []int{0, 1}, []queueCount{{4, 4}, {2, 2}}, []int{0, 1}, ""},
		{"more asked than transmit queues", []int{0, 1}, []int{0, 1}, []queueCount{{4, 4}, {4, 1}}, nil,
			"workers: 2 asked, but port b has 1 transmit queues"},
		{"a CPU outside the cpuset", []int{5}, []int{0, 1}, []queueCount{{1, 1}}, nil, "workers: CPU 5: not among the CPUs [0 1]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := planWorkers(c.asked, c.usable, c.ports, []string{"a", "b"})
			if c.refusal != "" {
				require.ErrorContains(t, err, c.refusal)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, p.cpus)
		})
	}
}

// Every receive queue has exactly one worker, and each worker's transmit queue is its own.
func TestEveryQueueIsServedOnce(t *testing.T) {
	for workers := 1; workers <= 4; workers++ {
		p := plan{cpus: make([]int, workers)}
		for q := range 8 {
			served := 0
			for w := range workers {
				if p.serves(w, q) {
					served++
				}
			}
			require.Equal(t, 1, served, "%d workers, queue %d", workers, q)
		}
	}
}
