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
)

// DUT is a device under test: something that forwards from in0 to out0 in the router's namespace of a rig.
type DUT struct {
	// Name is how tables and files call it.
	Name string
	// start makes it forward and returns the process that does, 0 for the kernel, and how to end it.
	start func(ctx context.Context, r *Rig) (pid int, stop func() error, err error)
}

// DUTWeir is `weir run` with further arguments.
func DUTWeir(name string, args ...string) DUT {
	return DUT{Name: name, start: func(ctx context.Context, r *Rig) (int, func() error, error) {
		w, err := StartWeir(ctx, r.Router, append([]string{"--port", "in0", "--port", "out0"}, args...)...)
		if err != nil {
			return 0, nil, err
		}
		return w.Pid(), w.Stop, nil
	}}
}

// DUTPlain is the plain spinning loop, in a process of its own.
func DUTPlain(cpu int) DUT {
	return DUT{Name: "plain loop", start: func(ctx context.Context, r *Rig) (int, func() error, error) {
		self, err := os.Executable()
		if err != nil {
			return 0, nil, fmt.Errorf("find this program: %w", err)
		}
		cmd := r.Router.Command(context.WithoutCancel(ctx), self, "bench", "plain", "--cpu", fmt.Sprint(cpu), "--mac", macS0.String())
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		cmd.Stderr = os.Stderr
		ready, err := cmd.StdoutPipe()
		if err != nil {
			return 0, nil, err
		}
		if err := r.Router.Start(cmd); err != nil {
			return 0, nil, fmt.Errorf("start the plain loop: %w", err)
		}
		line, err := bufio.NewReader(ready).ReadString('\n')
		if err != nil || strings.TrimSpace(line) != plainReady {
			return 0, nil, errors.Join(fmt.Errorf("start the plain loop: it said %q: %w", line, err), stopProcess(cmd))
		}
		return cmd.Process.Pid, func() error { return stopProcess(cmd) }, nil
	}}
}

// plainReady is what the plain loop prints when it forwards.
const plainReady = "forwarding"

// DUTKernel is the kernel's own forwarding. A veth takes redirected frames only while it has a NAPI, which GRO gives it.
func DUTKernel() DUT {
	return DUT{Name: "kernel ip_forward", start: func(_ context.Context, r *Rig) (int, func() error, error) {
		const key, gro = "net.ipv4.ip_forward", "rx-gro"
		stop := func() error {
			return errors.Join(r.Router.Sysctl(key, "0"), r.Router.Offload("in0", gro, false))
		}
		if err := errors.Join(r.Router.Offload("in0", gro, true), r.Router.Sysctl(key, "1")); err != nil {
			return 0, nil, errors.Join(err, stop())
		}
		return 0, stop, nil
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
