// Command agent is the first process of a guest: it mounts what Linux programs expect, loads the modules listed in /modules, in order,
// and runs itself again to serve the host on the serial port named weir. When that ends, the guest is powered off.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"weir/internal/vmtest"
)

func main() {
	run := serve
	if os.Getpid() == 1 {
		run = boot
	}
	if err := run(); err != nil {
		fmt.Println("agent:", err)
	}
	if os.Getpid() == 1 {
		// As a panic would: nothing here has to be written to a disk.
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
}

// boot is what process 1 does.
func boot() error {
	for _, m := range []struct{ kind, dir string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/run"}, {"tmpfs", "/tmp"},
		{"bpf", "/sys/fs/bpf"}, {"tracefs", "/sys/kernel/tracing"},
	} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	list, err := os.ReadFile("/modules")
	if err != nil {
		return err
	}
	for _, path := range strings.Fields(string(list)) {
		if err := load(path); err != nil {
			return err
		}
	}
	for key, value := range map[string]string{"PATH": "/bin", "HOME": "/root", "LD_LIBRARY_PATH": "/lib"} {
		if err := os.Setenv(key, value); err != nil {
			return err
		}
	}
	child := exec.Command("/init")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		return err
	}
	// Orphans become ours.
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if pid == child.Process.Pid || err != nil && err != unix.EINTR {
			return err
		}
	}
}

// load loads one module.
func load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

// serve is what its child does.
func serve() error {
	port, err := findPort()
	if err != nil {
		return err
	}
	defer port.Close()
	return vmtest.Serve(port)
}

// findPort waits for the serial port of the agent.
func findPort() (*os.File, error) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, path := range names {
			if name, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(name)) == vmtest.PortName {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(path)), os.O_RDWR, 0)
			}
		}
	}
	return nil, fmt.Errorf("no serial port named %s", vmtest.PortName)
}
