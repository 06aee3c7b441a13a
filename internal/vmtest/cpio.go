package vmtest

import (
	"fmt"
	"io"
	"path"
	"slices"
)

// Types of cpio entries, as in st_mode.
const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeLink = 0o120000
)

// archive writes a cpio archive in the format newc, which Linux unpacks as its first root file system
// (Documentation/driver-api/early-userspace/buffer-format.rst). It is not compressed: unpacking costs more under emulation than reading.
// The first error is kept and returned by close.
type archive struct {
	w       io.Writer
	written int64
	inode   uint32
	dirs    []string
	err     error
}

// file adds a file, and the directories it is in. name has no leading slash.
func (a *archive) file(name string, perm uint32, data []byte) {
	a.parents(name)
	a.entry(name, modeFile|perm, data)
}

// link adds a symbolic link.
func (a *archive) link(name, target string) {
	a.parents(name)
	a.entry(name, modeLink|0o777, []byte(target))
}

// dir adds a directory.
func (a *archive) dir(name string) {
	if name == "." || slices.Contains(a.dirs, name) {
		return
	}
	a.parents(name)
	a.dirs = append(a.dirs, name)
	a.entry(name, modeDir|0o755, nil)
}

func (a *archive) parents(name string) { a.dir(path.Dir(name)) }

func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, nil)
	return a.err
}

func (a *archive) entry(name string, mode uint32, data []byte) {
	a.inode++
	// magic, ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check
	a.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0))
	a.write([]byte(name + "\x00"))
	a.pad()
	a.write(data)
	a.pad()
}

// pad fills up to the next multiple of four bytes.
func (a *archive) pad() { a.write(make([]byte, -a.written&3)) }

func (a *archive) write(b []byte) {
	if a.err != nil {
		return
	}
	n, err := a.w.Write(b)
	a.written += int64(n)
	a.err = err
}
