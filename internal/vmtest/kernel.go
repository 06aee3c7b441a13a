package vmtest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Install is the command that gets everything a guest needs.
const Install = "sudo ./test vm"

// Kernel is an unpacked kernel package of Debian: an image and its modules.
type Kernel struct {
	Release string // as uname -r prints it
	root    string // boot/vmlinuz-<release> and lib/modules/<release> are below it
}

// KernelDir is where ./test vm unpacks kernels, one directory each: WEIR_KERNELS in the environment, or weir/kernels in the user's cache.
func KernelDir() (string, error) {
	if dir := os.Getenv("WEIR_KERNELS"); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where kernels are kept: %w: set WEIR_KERNELS", err)
	}
	return filepath.Join(cache, "weir", "kernels"), nil
}

// FindKernel returns the kernel in a directory of KernelDir, such as 6.12.
func FindKernel(name string) (Kernel, error) {
	dir, err := KernelDir()
	if err != nil {
		return Kernel{}, err
	}
	root := filepath.Join(dir, name)
	images, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	if err != nil {
		return Kernel{}, err
	}
	if len(images) != 1 {
		return Kernel{}, fmt.Errorf("kernel %s: %d images in %s, not one: get it with: %s", name, len(images), root, Install)
	}
	return Kernel{Release: strings.TrimPrefix(filepath.Base(images[0]), "vmlinuz-"), root: root}, nil
}

// Image is the path of the kernel image.
func (k Kernel) Image() string { return filepath.Join(k.root, "boot", "vmlinuz-"+k.Release) }

// module is one loadable module.
type module struct {
	name string // its file's, without extensions
	data []byte // not compressed
}

// modules returns modules by name with all they need, in the order in which they can be loaded. What is built in is left out.
func (k Kernel) modules(names []string) ([]module, error) {
	var found []module
	for _, name := range names {
		out, err := output("modprobe", "-d", k.root, "-S", k.Release, "--show-depends", name)
		if err != nil {
			return nil, fmt.Errorf("module %s of Linux %s: %w", name, k.Release, err)
		}
		for line := range strings.Lines(string(out)) {
			// "insmod path options"; what is built in is "builtin name".
			fields := strings.Fields(line)
			if len(fields) < 2 || fields[0] != "insmod" {
				continue
			}
			path := fields[1]
			base, _, _ := strings.Cut(filepath.Base(path), ".")
			if slices.ContainsFunc(found, func(m module) bool { return m.name == base }) {
				continue
			}
			data, err := os.ReadFile(path)
			if strings.HasSuffix(path, ".xz") && err == nil {
				data, err = output("xz", "-dc", path)
			}
			if err != nil {
				return nil, err
			}
			found = append(found, module{base, data})
		}
	}
	return found, nil
}

// output runs a command of the host and returns what it prints.
func output(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	path, err := find(name)
	if err != nil {
		return nil, err
	}
	cmd.Path = path
	cmd.Err = nil
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// find looks a program up in PATH and where administrators' programs are.
func find(name string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin", "/usr/bin", "/bin") {
		path := filepath.Join(dir, name)
		if s, err := os.Stat(path); err == nil && s.Mode().IsRegular() && s.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: get it with: %s", errors.Join(exec.ErrNotFound, errors.New(name)), Install)
}
