package napi

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Device is the masking and threads of a whole device, from sysfs (/sys/class/net/X/napi_defer_hard_irqs and so on): all its NAPIs
// together, those of other workers and programs among them. For kernels without napi-set, and for threads before Linux 6.17; newer
// kernels overwrite the settings of every single NAPI when these are written.
//
// One goroutine. The files stay those of the device that was opened: when it is deleted, all calls fail with ErrGone.
type Device struct {
	name  string
	index int
	files [numFiles]int
	buf   [24]byte
}

// The files of a Device.
const (
	fileDefer    = iota // since Linux 5.8
	fileTimeout         // since Linux 3.19
	fileThreaded        // since Linux 5.12
	numFiles
)

var fileNames = [numFiles]string{"napi_defer_hard_irqs", "gro_flush_timeout", "threaded"}

// OpenDevice opens the files of a device of the calling thread's network namespace.
//
// What /sys shows are the devices of the network namespace it was mounted from, where another device may have the same name. So a sysfs
// of the thread's own namespace is opened, mounted nowhere (Linux 5.2, CAP_SYS_ADMIN). Where that is refused, /sys is used if it shows
// exactly the devices of this namespace: name, index and address of each.
//
// The error wraps ErrGone when there is no such device, ErrUnsupported when the kernel has no such files or this process may not reach
// those of its namespace. The caller closes the Device.
func OpenDevice(ifname string) (*Device, error) { return openDevice(ifname, openSysfs) }

// openDevice is OpenDevice with the way to open a sysfs of this namespace.
func openDevice(ifname string, open func() (int, error)) (*Device, error) {
	d, err := tryOpenDevice(ifname, open)
	if err != nil {
		return nil, fmt.Errorf("open NAPI settings of %s: %w", ifname, err)
	}
	return d, nil
}

func tryOpenDevice(ifname string, open func() (int, error)) (*Device, error) {
	index, err := deviceIndex(ifname)
	if err != nil {
		return nil, err
	}
	root, err := open()
	if err != nil {
		refused := err
		if root, err = openAt(unix.AT_FDCWD, "/sys", unix.O_PATH|unix.O_DIRECTORY); err != nil {
			return nil, fmt.Errorf("%w: no sysfs: %w", ErrUnsupported, err)
		}
		if err := sameDevices(root); err != nil {
			unix.Close(root)
			return nil, fmt.Errorf("%w: /sys shows another network namespace (%w), and this one's cannot be opened (%w): "+
				"grant CAP_SYS_ADMIN, or mount sysfs in this namespace", ErrUnsupported, err, refused)
		}
	}
	defer unix.Close(root)
	d := &Device{name: ifname, index: index, files: [numFiles]int{-1, -1, -1}}
	for i := range d.files {
		if d.files[i], err = openAt(root, "class/net/"+ifname+"/"+fileNames[i], unix.O_RDWR); err != nil {
			d.Close()
			switch {
			case errors.Is(err, unix.EROFS):
				err = fmt.Errorf("%w: %w: mount sysfs writable", ErrUnsupported, err)
			case errors.Is(err, unix.ENOENT):
				err = fmt.Errorf("%w: needs Linux 5.12: %w", ErrUnsupported, err)
			}
			return nil, err
		}
	}
	// What was opened goes by its name; this makes sure that the name was still the device's.
	if got, err := readNumber(root, "class/net/"+ifname+"/ifindex"); err != nil || got != index {
		d.Close()
		return nil, fmt.Errorf("%w: interface %d in sysfs, %d to netlink: renamed just now: try again", ErrGone, got, index)
	}
	return d, nil
}

// deviceIndex is the number of a device of the calling thread's namespace.
func deviceIndex(ifname string) (int, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return 0, fmt.Errorf("list interfaces: %w", err)
	}
	for _, i := range ifs {
		if i.Name == ifname {
			return i.Index, nil
		}
	}
	return 0, fmt.Errorf("%w: no such interface in this network namespace", ErrGone)
}

// openSysfs opens a sysfs of the calling thread's network namespace that is mounted nowhere and ends with its last descriptor.
func openSysfs() (int, error) {
	context, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(context)
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	root, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("fsmount", err)
	}
	return root, nil
}

// sameDevices tells whether the sysfs at root shows the devices of the calling thread's network namespace, and in its error what differs.
// A name and an index alone prove nothing: namespaces that are set up alike have the same ones.
func sameDevices(root int) error {
	ifs, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list interfaces: %w", err)
	}
	dir, err := openAt(root, "class/net", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(dir), "class/net")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "bonding_masters" })
	if len(names) != len(ifs) {
		return fmt.Errorf("%d interfaces there, %d here", len(names), len(ifs))
	}
	for _, i := range ifs {
		index, err := readNumber(root, "class/net/"+i.Name+"/ifindex")
		if err != nil {
			return err
		}
		if index != i.Index {
			return fmt.Errorf("%s is %d there, %d here", i.Name, index, i.Index)
		}
		if len(i.HardwareAddr) == 0 {
			continue // a loopback or a tunnel: package net tells no address, sysfs does
		}
		address, err := readText(root, "class/net/"+i.Name+"/address")
		if err != nil {
			return err
		}
		if address != i.HardwareAddr.String() {
			return fmt.Errorf("%s has address %s there, %s here", i.Name, address, i.HardwareAddr)
		}
	}
	return nil
}

// openAt is openat, again when interrupted.
func openAt(root int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(root, path, flags|unix.O_CLOEXEC, 0)
		switch {
		case err == nil:
			return fd, nil
		case err != unix.EINTR:
			return -1, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readText is the one line of a file below root.
func readText(root int, path string) (string, error) {
	fd, err := openAt(root, path, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var buf [128]byte
	n, err := pread(fd, buf[:])
	if err != nil {
		return "", &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return strings.TrimSpace(string(buf[:n])), nil
}

func readNumber(root int, path string) (int, error) {
	text, err := readText(root, path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// pread reads a file from its beginning, again when interrupted.
func pread(fd int, b []byte) (int, error) {
	for {
		if n, err := unix.Pread(fd, b, 0); err != unix.EINTR {
			return n, err
		}
	}
}

// Close closes the files.
func (d *Device) Close() error {
	for i, fd := range d.files {
		if fd >= 0 {
			unix.Close(fd)
		}
		d.files[i] = -1
	}
	return nil
}

// Index is the number of the device.
func (d *Device) Index() int { return d.index }

// Settings reads the settings of the device: what a NAPI that it adds begins with. Its NAPIs may each have been set otherwise since.
// IRQSuspend is 0: devices have none.
func (d *Device) Settings() (Settings, error) {
	var v [numFiles]uint64
	for i, fd := range d.files {
		var buf [32]byte
		n, err := pread(fd, buf[:])
		if err == nil {
			v[i], err = strconv.ParseUint(strings.TrimSpace(string(buf[:n])), 10, 64)
		}
		if err != nil {
			return Settings{}, fmt.Errorf("read %s of %s: %w", fileNames[i], d.name, explainSysfs(err))
		}
	}
	return Settings{DeferHardIRQs: uint32(min(v[fileDefer], math.MaxUint32)), GROFlush: duration(v[fileTimeout]), Threaded: v[fileThreaded] != 0}, nil
}

// SetMasking is [Client.SetMasking] for all NAPIs of the device. Two system calls, no allocation unless it fails; when the second fails
// the first is done.
func (d *Device) SetMasking(deferHardIRQs uint32, groFlush time.Duration) error {
	if groFlush < 0 {
		return fmt.Errorf("set gro_flush_timeout of %s to %v: %w", d.name, groFlush, unix.EINVAL)
	}
	if err := d.write(fileTimeout, uint64(groFlush)); err != nil {
		return err
	}
	return d.write(fileDefer, uint64(deferHardIRQs))
}

// SetThreaded gives every NAPI of the device a kernel thread, or takes them away. A device that has no NAPI now, as when it is down,
// refuses.
func (d *Device) SetThreaded(on bool) error {
	v := uint64(0)
	if on {
		v = 1
	}
	return d.write(fileThreaded, v)
}

// Set brings the device to these settings, changing only what differs.
func (d *Device) Set(s Settings) error {
	now, err := d.Settings()
	if err != nil {
		return err
	}
	if s.Threaded != now.Threaded {
		if err := d.SetThreaded(s.Threaded); err != nil {
			return err
		}
	}
	if s.DeferHardIRQs == now.DeferHardIRQs && s.GROFlush == now.GROFlush {
		return nil
	}
	return d.SetMasking(s.DeferHardIRQs, s.GROFlush)
}

// write writes a number to one of the files.
func (d *Device) write(file int, v uint64) error {
	text := strconv.AppendUint(d.buf[:0], v, 10)
	for {
		_, err := unix.Pwrite(d.files[file], text, 0)
		switch {
		case err == nil:
			return nil
		case err != unix.EINTR:
			return fmt.Errorf("set %s of %s to %d: %w", fileNames[file], d.name, v, explainSysfs(err))
		}
	}
}

// explainSysfs sorts the kernel's errors into those of this package.
func explainSysfs(err error) error {
	switch {
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w: %w", ErrGone, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: the device has no NAPI: is it up? %w", ErrUnsupported, err)
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: needs CAP_NET_ADMIN in the user namespace that owns this network namespace", err)
	}
	return err
}
