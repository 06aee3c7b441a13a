package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"weir/engine"
)

// DUT is a device under test: something that forwards from in0 to out0 in the router's namespace of a rig.
type DUT struct {
	// Name is how tables and files call it.
	Name string
	// kind tells devices apart whatever their names.
	kind dutKind
	// control marks a control experiment: livelock is what it is there to show.
	control bool
	// start makes it forward.
	start func(ctx context.Context, r *Rig) (running, error)
}

type dutKind int

const (
	kindWeir dutKind = iota
	kindPlain
	kindKernel
)

// bothWays tells whether the device also forwards from out0 to in0.
func (d DUT) bothWays() bool { return d.kind != kindPlain }

// running is a device under test that forwards.
type running struct {
	pid  int // of the process that does, 0 for the kernel
	stop func() error
	// livelocks is how often the device's own watchdog has found it in livelock; nil where there is none.
	livelocks func(context.Context) (uint64, error)
	// stats are weir's counters; nil for other devices.
	stats func(context.Context) (engine.Stats, error)
}

// DUTWeir is `weir run` with further arguments.
func DUTWeir(name string, args ...string) DUT {
	return DUT{Name: name, kind: kindWeir, start: func(ctx context.Context, r *Rig) (running, error) {
		w, err := StartWeir(ctx, r.Router, append([]string{"--port", "in0", "--port", "out0"}, args...)...)
		if err != nil {
			return running{}, err
		}
		return running{pid: w.Pid(), stop: w.Stop, livelocks: w.livelocks, stats: w.Stats}, nil
	}}
}

// AsControl is the device as a control experiment: that its watchdog fires is no failure.
func (d DUT) AsControl() DUT {
	d.control = true
	return d
}

// DUTPlain is the plain spinning loop, in a process of its own.
func DUTPlain(name string) DUT {
	return DUT{Name: name, kind: kindPlain, start: func(ctx context.Context, r *Rig) (running, error) {
		self, err := os.Executable()
		if err != nil {
			return running{}, fmt.Errorf("find this program: %w", err)
		}
		cmd := r.Router.Command(context.WithoutCancel(ctx), self, "bench", "plain", "--cpu", fmt.Sprint(forwarderCPU), "--mac", macS0.String())
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Stderr = os.Stderr
		ready, err := cmd.StdoutPipe()
		if err != nil {
			return running{}, err
		}
		if err := r.Router.Start(cmd); err != nil {
			return running{}, fmt.Errorf("start the plain loop: %w", err)
		}
		line, err := bufio.NewReader(ready).ReadString('\n')
		if err != nil || strings.TrimSpace(line) != plainReady {
			return running{}, errors.Join(fmt.Errorf("start the plain loop: it said %q: %w", line, err), stopProcess(cmd))
		}
		return running{pid: cmd.Process.Pid, stop: func() error { return stopProcess(cmd) }}, nil
	}}
}

// plainReady is what the plain loop prints when it forwards.
const plainReady = "forwarding"

// DUTKernel is the kernel's own forwarding. A veth takes redirected frames only while it has a NAPI, which GRO gives it.
func DUTKernel(name string) DUT {
	return DUT{Name: name, kind: kindKernel, start: func(_ context.Context, r *Rig) (running, error) {
		const key, gro = "net.ipv4.ip_forward", "rx-gro"
		stop := func() error {
			return errors.Join(r.Router.Sysctl(key, "0"), r.Router.Offload(inPort, gro, false))
		}
		if err := errors.Join(r.Router.Offload(inPort, gro, true), r.Router.Sysctl(key, "1")); err != nil {
			return running{}, errors.Join(err, stop())
		}
		return running{stop: stop}, nil
	}}
}

// stopProcess ends a process with SIGTERM, and with SIGKILL when it is still there after stopTimeout.
func stopProcess(cmd *exec.Cmd) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, cmd.Wait())
	}
	kill := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	return cmd.Wait()
}
