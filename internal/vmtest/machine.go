package vmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// PortName is the name of the virtual serial port between the host and the agent.
const PortName = "weir"

// NIC is one emulated network card.
type NIC struct {
	// Model is QEMU's: virtio-net-pci, vmxnet3, e1000e. Options are its further properties, such as guest_tso4=off.
	Model   string
	Options []string
	MAC     net.HardwareAddr
	// Tap are the queues of a tap, one for each pair of queues of a virtio-net-pci, otherwise one. They stay the caller's.
	Tap []*os.File
}

// Machine describes a guest.
type Machine struct {
	Kernel  Kernel
	CPUs    int
	NICs    []NIC
	Modules []string // loaded besides the drivers of its NICs and those that every guest has
	Files   Files    // in the guest's root file system besides busybox, dash, ip, tc and ethtool; /init must be the agent
	// Dir is an existing directory for the root file system and the console's log.
	Dir string
	// Start starts QEMU and sees that it does not outlive this process; nil is (*exec.Cmd).Start.
	Start func(*exec.Cmd) error
	// Life bounds the whole life of the guest; bootTimeout that of its boot.
	Life time.Duration
}

// bootTimeout is a multiple of what a boot takes under emulation on a busy machine.
const bootTimeout = 2 * time.Minute

// memory is a guest's, in MiB. Its root file system is in it.
const memory = 512

// Guest is a running guest. All methods may be called from any goroutine.
type Guest struct {
	*Agent
	Release string        // of the kernel that runs
	Booted  time.Duration // from the start of QEMU to the first word of the agent

	cmd    *exec.Cmd
	cancel context.CancelFunc
	ended  chan struct{}
	log    string
	once   sync.Once
	err    error
}

// Boot starts a guest and returns when its agent runs. The caller closes it.
func Boot(m Machine) (_ *Guest, err error) {
	root, log := m.Dir+"/initramfs", m.Dir+"/console"
	if err := initramfs(root, m); err != nil {
		return nil, fmt.Errorf("root file system of the guest: %w", err)
	}
	console, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer console.Close()
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	qemu, err := find("qemu-system-x86_64")
	if err != nil {
		return nil, errors.Join(err, ours.Close())
	}

	ctx, cancel := context.WithTimeout(context.Background(), m.Life)
	g := &Guest{cancel: cancel, ended: make(chan struct{}), log: log}
	g.cmd = exec.CommandContext(ctx, qemu)
	g.cmd.Args = append(g.cmd.Args, m.arguments(root)...)
	g.cmd.Stdout, g.cmd.Stderr = console, console
	g.cmd.ExtraFiles = []*os.File{theirs}
	for _, n := range m.NICs {
		g.cmd.ExtraFiles = append(g.cmd.ExtraFiles, n.Tap...)
	}
	start := g.cmd.Start
	if m.Start != nil {
		start = func() error { return m.Start(g.cmd) }
	}
	began := time.Now()
	if err := start(); err != nil {
		cancel()
		return nil, errors.Join(fmt.Errorf("start QEMU: %w", err), ours.Close())
	}
	go func() {
		_ = g.cmd.Wait() // it ends when it is killed, or the log says why
		close(g.ended)
	}()
	g.Agent = NewAgent(ours)
	bootCtx, done := context.WithTimeout(ctx, bootTimeout)
	defer done()
	if g.Release, err = g.Wait(bootCtx); err != nil {
		return nil, errors.Join(fmt.Errorf("boot Linux %s: %w; the end of its console:\n%s", m.Kernel.Release, err, g.Console(40)), g.Close())
	}
	g.Booted = time.Since(began)
	return g, nil
}

// firstFD is the number that the first of ExtraFiles has in the child.
const firstFD = 3

// arguments is QEMU's command line.
func (m Machine) arguments(root string) []string {
	args := []string{
		// Only one thread for all CPUs is dependable: with one each, guests of two CPUs panicked in 3 of 26 boots (QEMU 7.2).
		"-accel", "tcg,thread=single", "-cpu", "qemu64", "-smp", strconv.Itoa(m.CPUs), "-m", strconv.Itoa(memory),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-kernel", m.Kernel.Image(), "-initrd", root,
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on net.ifnames=0 rdinit=/init",
		"-device", "virtio-rng-pci",
		"-device", "virtio-serial-pci", "-chardev", fmt.Sprintf("socket,id=agent,fd=%d", firstFD),
		"-device", "virtserialport,chardev=agent,name=" + PortName,
	}
	fd := firstFD + 1
	for i, n := range m.NICs {
		var fds []string
		for range n.Tap {
			fds = append(fds, strconv.Itoa(fd))
			fd++
		}
		netdev, device := fmt.Sprintf("tap,id=n%d,fd=%s", i, fds[0]), ""
		if len(fds) > 1 {
			netdev = fmt.Sprintf("tap,id=n%d,fds=%s", i, strings.Join(fds, ":"))
			device = fmt.Sprintf(",mq=on,vectors=%d", 2*len(fds)+2)
		}
		device = fmt.Sprintf("%s,netdev=n%d,mac=%s,romfile=%s", n.Model, i, n.MAC, device)
		args = append(args, "-netdev", netdev, "-device", strings.Join(append([]string{device}, n.Options...), ","))
	}
	return args
}

// Console returns the last lines of what the guest's kernel and QEMU have printed.
func (g *Guest) Console(lines int) string {
	text, err := os.ReadFile(g.log)
	if err != nil {
		return err.Error()
	}
	all := strings.Split(strings.TrimRight(string(text), "\r\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// Close ends the guest at once. Its console can still be read.
func (g *Guest) Close() error {
	g.once.Do(func() {
		g.cancel()
		<-g.ended
		g.err = g.Agent.Close()
	})
	return g.err
}

// socketPair returns two ends of a connection: ours, and one to pass on.
func socketPair() (io.ReadWriteCloser, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("connection to the agent: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "agent of the guest")
	f := os.NewFile(uintptr(fds[0]), "agent")
	defer f.Close()
	ours, err := net.FileConn(f)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}
