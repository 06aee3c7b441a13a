package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// Hog spins on a CPU until ctx or its input ends, and for each line it reads writes how much work it has done. Only the spinning thread
// is on that CPU.
func Hog(ctx context.Context, cpu int, in io.Reader, out io.Writer) error {
	if err := PinLab(); err != nil {
		return err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	var work atomic.Uint64
	spun := make(chan error, 1)
	go func() {
		spun <- OnCPU(cpu, func() error {
			for ctx.Err() == nil {
				work.Add(spin())
			}
			return nil
		})
	}()
	asked := make(chan error, 1)
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if _, err := fmt.Fprintln(out, work.Load()); err != nil {
				asked <- err
				return
			}
		}
		asked <- nil
	}()
	select {
	case <-ctx.Done():
	case err := <-asked:
		end()
		return errors.Join(err, <-spun)
	case err := <-spun:
		return err
	}
	return <-spun
}

// spinRounds is some ten microseconds.
const spinRounds = 10000

// spin is a unit of work that needs nothing but the CPU.
func spin() uint64 {
	x := uint64(1)
	for range spinRounds {
		x = x*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(x)
	return 1
}

// hog is a Hog in a process of its own.
type hog struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers *bufio.Reader
}

// hogReading is how far a hog has come.
type hogReading struct {
	at   time.Time
	cpu  time.Duration // its CPU clock: exact to the moment, interrupts on top of it included
	work uint64
}

// startHog starts one on the forwarder's CPU, in the namespace, and so in the scheduler's group, of what is measured.
func startHog(ctx context.Context, ns *nettest.NS) (*hog, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	h := &hog{cmd: ns.Command(context.WithoutCancel(ctx), self, "bench", "hog", "--cpu", fmt.Sprint(forwarderCPU))}
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.answers = bufio.NewReader(out)
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := ns.Start(h.cmd); err != nil {
		return nil, fmt.Errorf("start the process that spins: %w", err)
	}
	if _, err := h.read(); err != nil {
		return nil, errors.Join(err, h.stop())
	}
	return h, nil
}

func (h *hog) pid() int { return h.cmd.Process.Pid }

// read asks it how far it is.
func (h *hog) read() (r hogReading, err error) {
	if _, err = fmt.Fprintln(h.in); err != nil {
		return r, fmt.Errorf("ask the process that spins: %w", err)
	}
	if _, err = fmt.Fscan(h.answers, &r.work); err != nil {
		return r, fmt.Errorf("ask the process that spins: %w", err)
	}
	r.at = time.Now()
	var clock unix.Timespec
	// CPUCLOCK_SCHED of a process, as clock_getcpuclockid makes it.
	const sched = 2
	if err := unix.ClockGettime(int32(^h.pid()<<3|sched), &clock); err != nil {
		return r, fmt.Errorf("read the CPU clock of the process that spins: %w", err)
	}
	r.cpu = time.Duration(clock.Nano())
	return r, nil
}

// stop ends it.
func (h *hog) stop() error {
	_ = h.in.Close() // which ends it
	err := stopProcess(h.cmd)
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, os.ErrProcessDone) {
		return nil // it was told to end
	}
	return err
}

// since are the shares of a CPU between two readings: by the CPU clock, and by the work done where perSecond is what one CPU does.
func (r hogReading) since(before hogReading, perSecond float64) (clock, work float64) {
	wall := r.at.Sub(before.at).Seconds()
	if wall <= 0 {
		return 0, 0
	}
	clock = (r.cpu - before.cpu).Seconds() / wall
	if perSecond > 0 {
		work = float64(r.work-before.work) / wall / perSecond
	}
	return clock, work
}

// sameGroup says whether two processes are in the same scheduling group: what one gets beside the other would else be the groups' doing.
func sameGroup(a, b int) (bool, error) {
	var groups [2]string
	for i, pid := range []int{a, b} {
		for _, file := range []string{"autogroup", "cgroup"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return false, err
			}
			groups[i] += groupOf(string(text))
		}
	}
	return groups[0] == groups[1], nil
}

// groupOf keeps what tells scheduling groups apart: the autogroup, and the cgroup of the cpu controller.
func groupOf(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "/autogroup-") || strings.Contains(line, ":cpu:") || strings.Contains(line, ":cpu,") || strings.HasPrefix(line, "0::") {
			b.WriteString(line)
		}
	}
	return b.String()
}
