package nettest

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// LinkAttr reads an attribute of a link from the namespace's own sysfs, such as threaded, without the final newline.
func (n *NS) LinkAttr(link, attr string) (string, error) {
	var value string
	err := n.linkAttr(link, attr, unix.O_RDONLY, func(f *os.File) error {
		b, err := io.ReadAll(f)
		value = strings.TrimSuffix(string(b), "\n")
		return err
	})
	return value, err
}

// SetLinkAttr writes an attribute of a link in the namespace's own sysfs.
func (n *NS) SetLinkAttr(link, attr, value string) error {
	return n.linkAttr(link, attr, unix.O_WRONLY, func(f *os.File) error {
		_, err := f.WriteString(value)
		return err
	})
}

func (n *NS) linkAttr(link, attr string, mode int, f func(*os.File) error) error {
	path := "class/net/" + link + "/" + attr
	err := n.Do(func() error {
		root, err := openSysfs()
		if err != nil {
			return err
		}
		defer unix.Close(root)
		fd, err := unix.Openat(root, path, mode|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open: %w", err)
		}
		file := os.NewFile(uintptr(fd), path)
		defer file.Close()
		return f(file)
	})
	if err != nil {
		return fmt.Errorf("%s of %s in %s: %w", attr, link, n.name, err)
	}
	return nil
}

// openSysfs opens a sysfs of the calling thread's network namespace that is mounted nowhere and ends with the descriptor.
func openSysfs() (int, error) {
	fs, err := unix.Fsopen("sysfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open a sysfs: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make a sysfs: %w: needs CAP_SYS_ADMIN", err)
	}
	root, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mount a sysfs: %w", err)
	}
	return root, nil
}
