package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

const (
	demoTimeout = time.Minute
	// demoEndTimeout is how long the demo may take to clean up after a signal.
	demoEndTimeout = 10 * time.Second
)

// demoSays is what the demo prints, in this order.
var demoSays = []string{
	`building gen ── rtr ── snk`,
	`port in0, driver veth, mode granted copy \(asked auto\)`,
	`port out0, driver veth, mode granted copy \(asked auto\)`,
	`ping 10\.0\.2\.2: [45] of 5 answered`,
	`ping 2001:db8:2::2: [45] of 5 answered`,
	`tcp: 100 MB through weir .* SHA-256 equal`,
	`flood: .* for 5s`,
	`flood: offered [\d.]+ Mpps, delivered [\d.]+ Mpps`,
	`worker on CPU \d: .*frames .* = \d+`,
	`offered +\d+`,
	`delivered +\d+`,
	`passed to kernel +\d+`,
	`dropped +\d+  door_no_credit`,
	`in flight +0\n`,
	`unaccounted +0\n`,
}

// TestDemo: it shows what it says it shows, accounts for every packet, leaves nothing, and can be run again at once.
func TestDemo(t *testing.T) {
	nettest.RequirePrivilege(t)
	for range 2 {
		p := start(t, nil, weir("demo"))
		require.Zero(t, p.wait(t, demoTimeout), "exit code; stderr: %s", &p.stderr)
		rest := p.stdout.String()
		for _, line := range demoSays {
			at := regexp.MustCompile(line).FindStringIndex(rest)
			require.NotNil(t, at, "%q is missing, or out of place, in:\n%s", line, &p.stdout)
			rest = rest[at[1]:]
		}
		require.Empty(t, p.stderr.String())
		require.Empty(t, namespacesOf(p.cmd.Process.Pid))
		t.Logf("took %s:\n%s", p.took.Round(100*time.Millisecond), &p.stdout)
	}
}

// TestDemoEnds: however the demo ends half way, no program stays attached and no weir stays behind; and what it could not remove, the
// next run does.
func TestDemoEnds(t *testing.T) {
	nettest.RequirePrivilege(t)
	killed := 0
	for _, c := range []struct {
		name   string
		sig    syscall.Signal
		signal func(pid int, sig syscall.Signal) error
	}{
		{"kill -9", unix.SIGKILL, unix.Kill},
		{"Ctrl-C", unix.SIGINT, func(pid int, sig syscall.Signal) error { return unix.Kill(-pid, sig) }}, // to the weir of the demo too
		{"SIGTERM", unix.SIGTERM, unix.Kill},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := weir("demo")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			p := start(t, nil, cmd)
			pid := p.cmd.Process.Pid
			p.waitFor(t, &p.stdout, regexp.MustCompile(`flood: .* for 5s`), demoTimeout)
			require.Empty(t, namespacesOf(killed), "namespaces of the run that was killed")
			time.Sleep(500 * time.Millisecond) // the flood is on

			require.Len(t, namespacesOf(pid), 3)
			rtr, err := os.Open(fmt.Sprintf("/run/netns/weir-%d-rtr", pid))
			require.NoError(t, err)
			defer rtr.Close()
			require.Len(t, programsIn(t, rtr), 2)
			children := childrenOf(t, pid)
			require.Len(t, children, 1, "the weir of the demo")

			require.NoError(t, c.signal(pid, c.sig))
			code := p.wait(t, demoEndTimeout)
			t.Logf("exit %d, %s", code, strings.TrimSpace(p.stderr.String()))
			require.Eventually(t, func() bool { return gone(children[0]) }, 2*time.Second, 10*time.Millisecond, "weir lives on")
			require.Eventually(t, func() bool { return len(programsIn(t, rtr)) == 0 }, 2*time.Second, 10*time.Millisecond, "a program is still attached")
			if c.sig == unix.SIGKILL {
				killed = pid
				return
			}
			require.Equal(t, exitFailure, code)
			require.Contains(t, oneLine(t, p.stderr.String()), "interrupted")
			require.Empty(t, namespacesOf(pid))
		})
	}
}

// namespacesOf lists the network namespaces a process has made.
func namespacesOf(pid int) []string {
	found, _ := filepath.Glob(fmt.Sprintf("/run/netns/weir-%d-*", pid)) // the pattern is good, so there is no error
	return found
}

// programsIn lists the links of a namespace with an XDP program.
func programsIn(t *testing.T, ns *os.File) []string {
	t.Helper()
	var found []string
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread dies inside the namespace
		err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			var links []netlink.Link
			links, err = netlink.LinkList()
			for _, l := range links {
				if l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
					found = append(found, l.Attrs().Name)
				}
			}
		}
		done <- err
	}()
	require.NoError(t, <-done)
	return found
}

// childrenOf lists the children of a process.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	var found []int
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, after, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(after); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			require.NoError(t, err)
			found = append(found, child)
		}
	}
	return found
}
