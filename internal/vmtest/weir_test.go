//go:build vm

package vmtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/vmtest"
)

// restTimeout is how long after the last packet everything must be accounted for.
const restTimeout = 10 * time.Second

// router is a `weir run` in a guest.
type router struct {
	*vmtest.Process
	lab *lab
	seg *segment
}

// settings are what a weir is started with.
type settings struct {
	mode string   // of both ports
	args []string // more for `weir run`
}

func (s settings) String() string { return strings.Join(append([]string{s.mode}, s.args...), " ") }

// weirRun starts `weir run` on the ports of a card.
func (l *lab) weirRun(t *testing.T, s *segment, c settings) *router {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	text := "ports:\n"
	for _, port := range []string{s.in, s.out} {
		text += fmt.Sprintf("  - {name: %s, mode: %s}\n", port, c.mode)
	}
	require.NoError(t, l.Upload(ctx, "/tmp/weir.yaml", 0o600, []byte(text)))
	p, err := l.Start(vmtest.Command{Argv: append([]string{"weir", "run", "-c", "/tmp/weir.yaml", "--set", "metrics.listen=off"}, c.args...)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		defer cancel()
		if t.Failed() {
			t.Logf("%s:\n%s%s", p, p.Stdout(), p.Stderr())
		}
		_ = p.Signal(unix.SIGKILL) // it, or the guest, may have ended
		_, _ = p.Wait(ctx)
	})
	return &router{p, l, s}
}

// zeros are the lines of a counter that has not counted.
var zeros = regexp.MustCompile(`(?m)^(.*: )? *0,?\n`)

// check runs a check as a test of its own. When it fails, what may tell why is logged.
func (r *router) check(t *testing.T, name string, f func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		defer func() {
			if !t.Failed() {
				return
			}
			ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
			defer cancel()
			for _, command := range []string{
				"weir stats", "weir stats --json", "ip -statistics link", "ip neighbour", "ip route",
				"ethtool -S " + r.seg.in, "ethtool -S " + r.seg.out, "cat /proc/interrupts",
			} {
				out, err := r.lab.Run(ctx, strings.Fields(command)...)
				t.Logf("%s:\n%s%v", command, zeros.ReplaceAllString(out, ""), err)
				if errors.Is(err, vmtest.ErrGone) {
					return
				}
			}
		}()
		f(t)
	})
}

// start starts `weir run` and returns when it says that it forwards.
func (l *lab) start(t *testing.T, s *segment, c settings) *router {
	t.Helper()
	began := time.Now()
	r := l.weirRun(t, s, c)
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	require.NoError(t, r.WaitFor(ctx, func(stdout, _ string) bool { return strings.HasPrefix(stdout, "forwarding; ") }))
	t.Logf("weir forwards after %s", time.Since(began).Round(time.Millisecond))
	return r
}

// end ends weir with a signal and returns its exit code.
func (r *router) end(t *testing.T, s unix.Signal) int {
	t.Helper()
	require.NoError(t, r.Signal(s))
	return r.wait(t)
}

func (r *router) wait(t *testing.T) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stepTimeout)
	defer cancel()
	code, err := r.Wait(ctx)
	require.NoError(t, err)
	return code
}

// stats is the part of `weir stats --json` that these tests read.
type stats struct {
	Totals struct {
		Offered     uint64            `json:"offered"`
		Delivered   uint64            `json:"delivered"`
		Passed      uint64            `json:"passed_to_kernel"`
		Dropped     map[string]uint64 `json:"dropped"`
		InFlight    uint64            `json:"in_flight"`
		Unaccounted int64             `json:"unaccounted"`
	} `json:"totals"`
	Ports   []port `json:"ports"`
	Workers []struct {
		Frames struct {
			Free, Held, Receive, Transmit, Stranded, Total int
			Misused                                        uint64
		} `json:"frames"`
		Sources []struct {
			Name     string
			Counters struct{ Received uint64 }
		} `json:"sources"`
	} `json:"workers"`
	Warnings []string `json:"warnings"`
}

type port struct {
	Name      string `json:"name"`
	Driver    string `json:"driver"`
	ModeAsked string `json:"mode_asked"`
	Mode      string `json:"mode"`
	RxQueues  int    `json:"rx_queues"`
	TxQueues  int    `json:"tx_queues"`
	Delivered uint64 `json:"delivered"`
}

// stats reads all counters.
func (r *router) stats(t *testing.T) (s stats) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.lab.run(t, "weir", "stats", "--json")), &s))
	return s
}

// unbalanced says what a reading at rest leaves open, nothing if nothing.
func (s stats) unbalanced() string {
	if s.Totals.InFlight != 0 || s.Totals.Unaccounted != 0 {
		return fmt.Sprintf("%+v", s.Totals)
	}
	sum := s.Totals.Delivered + s.Totals.Passed + total(s.Totals.Dropped)
	if sum != s.Totals.Offered {
		return fmt.Sprintf("%d packets in %+v", sum, s.Totals)
	}
	for _, w := range s.Workers {
		if f := w.Frames; f.Free+f.Held+f.Receive+f.Transmit+f.Stranded != f.Total || f.Held != 0 || f.Stranded != 0 || f.Misused != 0 {
			return fmt.Sprintf("frames %+v", f)
		}
	}
	return ""
}

// atRest reads all counters when everything is accounted for, which must be so within restTimeout.
func (r *router) atRest(t *testing.T) stats {
	t.Helper()
	for deadline := time.Now().Add(restTimeout); ; {
		s := r.stats(t)
		left := s.unbalanced()
		if left == "" {
			return s
		}
		require.True(t, time.Now().Before(deadline), "%s after the last packet: %s", restTimeout, left)
	}
}

// port is one port in a reading.
func (s stats) port(t *testing.T, name string) port {
	t.Helper()
	for _, p := range s.Ports {
		if p.Name == name {
			return p
		}
	}
	require.FailNow(t, "no such port", "%s in %+v", name, s.Ports)
	return port{}
}

// received is how many packets came out of each receive queue.
func (s stats) received() map[string]uint64 {
	all := map[string]uint64{}
	for _, w := range s.Workers {
		for _, source := range w.Sources {
			all[source.Name] = source.Counters.Received
		}
	}
	return all
}

// total adds up counters.
func total(by map[string]uint64) (n uint64) {
	for _, v := range by {
		n += v
	}
	return n
}
