package napi

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Journal is a file that says what was there before weir changed it, so that the next start can undo what a crash has left. It is
// <directory>/<inode of the network namespace>.journal, JSON, mode 0600, and is replaced as a whole before each change: a reader sees
// the old one or the new one, and kill -9 loses nothing. While it is open no other process can open it.
//
// Its methods may be called from several goroutines at once, and from any network namespace but where they say otherwise.
type Journal struct {
	path string
	name string
	dir  int // the directory
	sock int // of the namespace: to ask for devices

	mu   sync.Mutex
	file int // the file as it is now, locked
	c    contents
	// stale are entries that were in the file, but of another namespace that had the same inode.
	stale []entry
}

// OpenJournal opens the journal of the calling thread's network namespace in a directory, which is made if it is missing, and locks it.
// What it holds is untouched until Replay. The caller closes it.
//
// The error wraps ErrJournal when the directory or the file can be written by others, when the file belongs to another user or is not
// what this package writes; it wraps ErrInUse when another process has it open.
func OpenJournal(dir string) (*Journal, error) {
	j := &Journal{dir: -1, sock: -1, file: -1}
	if err := j.open(dir); err != nil {
		j.release()
		return nil, fmt.Errorf("open NAPI journal %s: %w", filepath.Join(dir, j.name), err)
	}
	return j, nil
}

func (j *Journal) open(dir string) (err error) {
	if err := j.identify(); err != nil {
		return err
	}
	j.name = fmt.Sprintf("%d.journal", j.c.Netns)
	j.path = filepath.Join(dir, j.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if j.dir, err = openAt(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return err
	}
	if err := j.checkDirectory(); err != nil {
		return err
	}
	// Whoever replaces or removes the file between our looking and our locking makes us look again.
	for range 100 {
		again, err := j.claim()
		if err != nil || !again {
			return err
		}
	}
	return fmt.Errorf("%w: it keeps being replaced", ErrInUse)
}

// identify finds out which network namespace this is.
func (j *Journal) identify() (err error) {
	netns, err := threadNetns()
	if err != nil {
		return err
	}
	if j.sock, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return os.NewSyscallError("socket", err)
	}
	j.c = contents{Version: journalVersion, Netns: netns, PID: os.Getpid()}
	// Neither is needed to work, see contents.
	j.c.Cookie = netnsCookie(j.sock)
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	j.c.Boot = strings.TrimSpace(string(boot))
	return nil
}

// threadNetns is the inode of the calling thread's network namespace.
func threadNetns() (uint64, error) {
	var s unix.Stat_t
	// Not self: that is the process's first thread, which may be in another namespace.
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil {
		return 0, fmt.Errorf("identify the network namespace: %w", err)
	}
	return s.Ino, nil
}

// netnsCookie is the number of a socket's network namespace, 0 before Linux 5.14.
func netnsCookie(fd int) uint64 {
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0
	}
	return cookie
}

// checkDirectory refuses a directory where another user could put a file of ours aside.
func (j *Journal) checkDirectory() error {
	var s unix.Stat_t
	if err := unix.Fstat(j.dir, &s); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	if uid := uint32(os.Geteuid()); s.Uid != uid && s.Uid != 0 {
		return fmt.Errorf("%w: the directory belongs to user %d, not to %d: choose another, or chown it", ErrJournal, s.Uid, uid)
	}
	if s.Mode&0o022 != 0 {
		return fmt.Errorf("%w: the directory can be written by others (mode %04o): chmod go-w it, or choose another", ErrJournal, s.Mode&0o7777)
	}
	return nil
}

// claim locks and reads the file, or makes and locks an empty one. again means that the file was replaced meanwhile.
func (j *Journal) claim() (again bool, err error) {
	fd, err := openAt(j.dir, j.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	switch {
	case errors.Is(err, unix.ENOENT):
		return j.create()
	case errors.Is(err, unix.ELOOP):
		return false, fmt.Errorf("%w: it is a symbolic link: remove it", ErrJournal)
	case err != nil:
		return false, err
	}
	if again, err = j.adopt(fd); again || err != nil {
		unix.Close(fd)
		return again, err
	}
	j.file = fd
	j.removeLeftovers()
	return false, nil
}

// create makes an empty file. It appears under its name locked and complete.
func (j *Journal) create() (again bool, err error) {
	fd, temporary, err := j.write(&j.c)
	if err != nil {
		return false, err
	}
	err = unix.Linkat(j.dir, temporary, j.dir, j.name, 0)
	unix.Unlinkat(j.dir, temporary, 0)
	if err != nil {
		unix.Close(fd)
		if err == unix.EEXIST || err == unix.ENOENT {
			return true, nil // another one was faster, and has cleared up behind us
		}
		return false, os.NewSyscallError("linkat", err)
	}
	j.file = fd
	j.removeLeftovers()
	return false, nil
}

// adopt checks, locks and reads a file.
func (j *Journal) adopt(fd int) (again bool, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return false, os.NewSyscallError("fstat", err)
	}
	if err := checkFile(&s, uint32(os.Geteuid())); err != nil {
		return false, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	if err := lock(fd); err != nil {
		if err != unix.EWOULDBLOCK {
			return false, os.NewSyscallError("flock", err)
		}
		holder := "another process"
		if b, err := readAll(fd); err == nil {
			if c, err := parseJournal(b, j.c.Netns); err == nil {
				holder = fmt.Sprintf("pid %d", c.PID)
			}
		}
		return false, fmt.Errorf("%w: %s works in this network namespace: stop it", ErrInUse, holder)
	}
	var now unix.Stat_t
	err = unix.Fstatat(j.dir, j.name, &now, unix.AT_SYMLINK_NOFOLLOW)
	if err == unix.ENOENT || err == nil && (now.Ino != s.Ino || now.Dev != s.Dev) {
		return true, nil
	}
	if err != nil {
		return false, os.NewSyscallError("fstatat", err)
	}
	b, err := readAll(fd)
	if err != nil {
		return false, err
	}
	c, err := parseJournal(b, j.c.Netns)
	if err != nil {
		return false, fmt.Errorf("%w: nothing in it was put back: look at it, set the NAPIs right, then remove it", err)
	}
	if c.Boot != j.c.Boot || c.Cookie != j.c.Cookie {
		j.stale = c.Entries
	} else {
		j.c.Entries = c.Entries
	}
	return false, nil
}

// checkFile refuses a file that others may have written, or that is none.
func checkFile(s *unix.Stat_t, uid uint32) error {
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("it is no regular file: remove it")
	case s.Uid != uid:
		return fmt.Errorf("it belongs to user %d, not to %d: look at it, then remove it", s.Uid, uid)
	case s.Mode&0o077 != 0:
		return fmt.Errorf("others may reach it (mode %04o, not 0600): look at it, then remove it", s.Mode&0o7777)
	case s.Nlink > 1:
		return fmt.Errorf("it has %d names: look at it, then remove it", s.Nlink)
	}
	return nil
}

// readAll reads a file from its beginning, up to one byte more than a journal may have.
func readAll(fd int) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(readerAt(fd), 0, maxJournal+1))
}

// readerAt reads a descriptor without owning it.
type readerAt int

// ReadAt is io.ReaderAt.
func (fd readerAt) ReadAt(b []byte, off int64) (int, error) {
	total := 0
	for total < len(b) {
		n, err := unix.Pread(int(fd), b[total:], off+int64(total))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return total, os.NewSyscallError("pread", err)
		case n == 0:
			return total, io.EOF
		}
		total += n
	}
	return total, nil
}

func lock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// write writes contents to a new file beside the journal and locks it. The caller gives it its name or removes it.
func (j *Journal) write(c *contents) (fd int, name string, err error) {
	b, err := c.format()
	if err != nil {
		return -1, "", err
	}
	name = fmt.Sprintf("%s.%08x", j.name, rand.Uint32())
	for {
		fd, err = unix.Openat(j.dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, "", fmt.Errorf("create %s: %w", name, err)
	}
	if err = fill(fd, b); err != nil {
		unix.Close(fd)
		unix.Unlinkat(j.dir, name, 0)
		return -1, "", fmt.Errorf("write %s: %w", name, err)
	}
	return fd, name, nil
}

// fill locks a new file and writes it. What the kernel has, kill -9 does not undo, and what a crash of the machine undoes it undoes on the
// NAPIs too: nobody waits for the disk.
func fill(fd int, b []byte) error {
	if err := lock(fd); err != nil {
		return os.NewSyscallError("flock", err)
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil && err != unix.EINTR {
			return err
		}
		b = b[max(n, 0):]
	}
	return nil
}

// replace makes these the entries, in the file and then in memory.
func (j *Journal) replace(entries []entry) error {
	if j.file < 0 {
		return ErrClosed
	}
	c := j.c
	c.Entries = entries
	fd, temporary, err := j.write(&c)
	if err != nil {
		return err
	}
	if err := unix.Renameat(j.dir, temporary, j.dir, j.name); err != nil {
		unix.Close(fd)
		unix.Unlinkat(j.dir, temporary, 0)
		return os.NewSyscallError("renameat", err)
	}
	unix.Close(j.file) // its lock goes when the new one is in place
	j.file, j.c = fd, c
	return nil
}

// removeLeftovers removes what processes that died while writing have left.
func (j *Journal) removeLeftovers() {
	fd, err := openAt(j.dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return
	}
	f := os.NewFile(uintptr(fd), "journals")
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		if strings.HasPrefix(name, j.name+".") {
			unix.Unlinkat(j.dir, name, 0)
		}
	}
}

// Close unlocks the journal. The file stays if there is something in it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file >= 0 && len(j.c.Entries) == 0 {
		unix.Unlinkat(j.dir, j.name, 0)
	}
	j.release()
	return nil
}

// release closes what is open.
func (j *Journal) release() {
	for _, fd := range []*int{&j.file, &j.dir, &j.sock} {
		if *fd >= 0 {
			unix.Close(*fd)
		}
		*fd = -1
	}
}

// deviceIndex is the number of a device of the journal's namespace.
func (j *Journal) deviceIndex(dev string) (int, error) {
	r, err := unix.NewIfreq(dev)
	if err == nil {
		err = unix.IoctlIfreq(j.sock, unix.SIOCGIFINDEX, r)
	}
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EINVAL):
		return 0, fmt.Errorf("%w: no interface %q: %w", ErrGone, dev, err)
	case err != nil:
		return 0, os.NewSyscallError("ioctl SIOCGIFINDEX", err)
	}
	return int(r.Uint32()), nil
}

// isUp tells whether a device is administratively up.
func (j *Journal) isUp(dev string) (bool, error) {
	r, err := unix.NewIfreq(dev)
	if err == nil {
		err = unix.IoctlIfreq(j.sock, unix.SIOCGIFFLAGS, r)
	}
	if err != nil {
		return false, os.NewSyscallError("ioctl SIOCGIFFLAGS", err)
	}
	return r.Uint16()&unix.IFF_UP != 0, nil
}
