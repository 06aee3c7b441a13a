package vmtest

import (
	"bufio"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// guestModules are loaded in every guest: the agent's serial port, and what routers stack on a NIC.
var guestModules = []string{"virtio_pci", "virtio_console", "virtio_rng", "8021q", "vrf", "dummy", "veth"}

// drivers are the modules of NICs by QEMU's model.
var drivers = map[string]string{
	"virtio-net-pci": "virtio_net", "vmxnet3": "vmxnet3", "e1000e": "e1000e", "e1000": "e1000", "igb": "igb",
}

// tools are programs of the host that the guest gets, with their shared libraries. Its shell is dash: busybox prefers its own
// programs to those in PATH, also where one of them, such as timeout, starts another.
var tools = []string{"dash", "ip", "tc", "ethtool"}

// Files are files of the host by their paths in the guest, where they can be executed.
type Files map[string]string

// BuildPrograms compiles what every guest needs into dir, without cgo, and says where it is in the guest: weir as /bin/weir, the agent
// as /init.
func BuildPrograms(ctx context.Context, dir string) (Files, error) {
	files := Files{}
	for guest, pkg := range map[string]string{"/bin/weir": "weir/cmd/weir", "/init": "weir/internal/vmtest/agent"} {
		files[guest] = filepath.Join(dir, path.Base(guest))
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", files[guest], pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", pkg, err, out)
		}
	}
	return files, nil
}

// initramfs writes the root file system of a guest: files, a busybox, tools, and the modules of its kernel.
func initramfs(to string, m Machine) (err error) {
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := bufio.NewWriter(out)
	a := &archive{w: w}
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp", "root", "etc"} {
		a.dir(dir)
	}
	names := append(slices.Clone(guestModules), m.Modules...)
	for _, n := range m.NICs {
		driver, ok := drivers[n.Model]
		if !ok {
			return fmt.Errorf("NIC %s: its driver is not known here", n.Model)
		}
		names = append(names, driver)
	}
	modules, err := m.Kernel.modules(names)
	if err != nil {
		return err
	}
	var list strings.Builder
	for _, mod := range modules {
		a.file("modules.d/"+mod.name+".ko", 0o644, mod.data)
		fmt.Fprintf(&list, "/modules.d/%s.ko\n", mod.name)
	}
	a.file("modules", 0o644, []byte(list.String()))
	if err := a.busybox(); err != nil {
		return err
	}
	if err := a.tools(); err != nil {
		return err
	}
	for guest, host := range m.Files {
		if err := a.copy(strings.TrimPrefix(guest, "/"), host); err != nil {
			return err
		}
	}
	if err := a.close(); err != nil {
		return err
	}
	return w.Flush()
}

// copy adds an executable file of the host.
func (a *archive) copy(name, host string) error {
	data, err := os.ReadFile(host)
	if err != nil {
		return err
	}
	a.file(name, 0o755, data)
	return nil
}

// busybox adds busybox under the name of each of its programs that the guest does not have in full.
func (a *archive) busybox() error {
	host, err := find("busybox")
	if err != nil {
		return err
	}
	if f, err := elf.Open(host); err != nil {
		return err
	} else if libs, err := f.ImportedLibraries(); f.Close() != nil || err != nil || len(libs) > 0 {
		return fmt.Errorf("%s is not static: install busybox-static", host)
	}
	names, err := output("busybox", "--list")
	if err != nil {
		return err
	}
	if err := a.copy("bin/busybox", host); err != nil {
		return err
	}
	a.link("bin/sh", "dash")
	full := map[string]bool{"busybox": true, "sh": true}
	for _, name := range tools {
		full[name] = true
	}
	for _, name := range strings.Fields(string(names)) {
		if !full[name] {
			a.link("bin/"+name, "busybox")
		}
	}
	return nil
}

// tools adds the tools and the shared libraries they name, all in /lib.
func (a *archive) tools() error {
	have := map[string]bool{}
	for _, name := range tools {
		host, err := find(name)
		if err != nil {
			return err
		}
		if err := a.copy("bin/"+name, host); err != nil {
			return err
		}
		libs, err := output("ldd", host)
		if err != nil {
			return err
		}
		// "libmnl.so.0 => /lib/x86_64-linux-gnu/libmnl.so.0 (0x…)", and the loader alone: "/lib64/ld-linux-x86-64.so.2 (0x…)"
		for line := range strings.Lines(string(libs)) {
			to, from, found := strings.Cut(strings.TrimSpace(line), " => ")
			from, _, _ = strings.Cut(from, " (")
			if !found {
				to, _, _ = strings.Cut(to, " (")
				from = to
			} else {
				to = "/lib/" + to
			}
			if have[to] || !filepath.IsAbs(from) {
				continue
			}
			have[to] = true
			if err := a.copy(strings.TrimPrefix(to, "/"), from); err != nil {
				return err
			}
		}
	}
	return nil
}
