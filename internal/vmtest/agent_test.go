package vmtest_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/internal/vmtest"
)

// newAgent is an agent whose guest is this process.
func newAgent(t *testing.T) (*vmtest.Agent, context.Context) {
	t.Helper()
	host, guest := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- vmtest.Serve(guest) }()
	a := vmtest.NewAgent(host)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoError(t, <-served)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	release, err := a.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, unix.ByteSliceToString(name.Release[:]), release)
	return a, ctx
}

func TestAgentRuns(t *testing.T) {
	a, ctx := newAgent(t)
	out, err := a.Run(ctx, "echo", "one", "two")
	require.NoError(t, err)
	require.Equal(t, "one two\n", out)

	var exit *vmtest.ExitError
	_, err = a.Run(ctx, "sh", "-c", "echo reason >&2; exit 3")
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.Code)
	require.Equal(t, "reason\n", exit.Stderr)

	_, err = a.Run(ctx, "/no/such/program")
	require.ErrorContains(t, err, "no such file")
}

// Output of any length comes whole and in order, that of processes side by side unmixed.
func TestAgentOutput(t *testing.T) {
	a, ctx := newAgent(t)
	var all []*vmtest.Process
	for _, text := range []string{"a", "b", "c"} {
		p, err := a.Start(vmtest.Command{
			Argv: []string{"sh", "-c", `cat; yes $WHICH | head -n 100000`}, Env: []string{"WHICH=" + text}, Stdin: []byte("begin\n"),
		})
		require.NoError(t, err)
		all = append(all, p)
	}
	for i, text := range []string{"a", "b", "c"} {
		code, err := all[i].Wait(ctx)
		require.NoError(t, err)
		require.Zero(t, code)
		require.Equal(t, "begin\n"+strings.Repeat(text+"\n", 100000), all[i].Stdout())
		require.Empty(t, all[i].Stderr())
	}
}

func TestAgentSignals(t *testing.T) {
	a, ctx := newAgent(t)
	p, err := a.Start(vmtest.Command{Argv: []string{"sh", "-c", "trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.01; done"}})
	require.NoError(t, err)
	ready := func(stdout, _ string) bool { return stdout == "ready\n" }
	require.NoError(t, p.WaitFor(ctx, ready))
	require.NoError(t, p.Signal(unix.SIGTERM))
	code, err := p.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.Equal(t, "ready\ngot\n", p.Stdout())
	require.NoError(t, p.Signal(unix.SIGTERM), "it may have ended")

	p, err = a.Start(vmtest.Command{Argv: []string{"sleep", "1000"}})
	require.NoError(t, err)
	require.NoError(t, p.Signal(unix.SIGKILL))
	require.ErrorContains(t, p.WaitFor(ctx, ready), "exit code 137")
}

// A daemon that keeps the output open does not keep its parent from ending.
func TestAgentLeavesDaemonsBehind(t *testing.T) {
	a, ctx := newAgent(t)
	out, err := a.Run(ctx, "sh", "-c", "sleep 1000 & echo $!")
	require.NoError(t, err)
	_, err = a.Run(ctx, "kill", strings.TrimSpace(out))
	require.NoError(t, err)
}

func TestAgentUploads(t *testing.T) {
	a, ctx := newAgent(t)
	path := t.TempDir() + "/program"
	require.NoError(t, a.Upload(ctx, path, 0o755, []byte("#!/bin/sh\necho it runs\n")))
	out, err := a.Run(ctx, path)
	require.NoError(t, err)
	require.Equal(t, "it runs\n", out)
	require.ErrorContains(t, a.Upload(ctx, "/no/such/directory/file", 0o644, nil), "/no/such/directory/file")
}

// When the guest goes away, whoever waits for it is told.
func TestAgentOfAnEndedGuest(t *testing.T) {
	host, guest := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- vmtest.Serve(guest) }()
	a := vmtest.NewAgent(host)
	p, err := a.Start(vmtest.Command{Argv: []string{"sleep", "1000"}})
	require.NoError(t, err)
	require.NoError(t, guest.Close())
	_, err = p.Wait(t.Context())
	require.ErrorIs(t, err, vmtest.ErrGone)
	_, err = a.Start(vmtest.Command{Argv: []string{"true"}})
	require.ErrorIs(t, err, vmtest.ErrGone)
	require.NoError(t, a.Close())
	require.Error(t, <-served)
}
