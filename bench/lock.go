package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPath is where labs of one machine meet. Its content is the process id of the holder.
const lockPath = "/run/lock/weir-bench.lock"

// ErrBusy is returned when another lab has the machine.
var ErrBusy = errors.New("another lab measures on this machine")

// Lock takes the machine for one lab: two at once would measure each other. Without wait it returns ErrBusy, with the holder's process id,
// when another has it; with wait it queues until ctx ends. The caller closes the lock; the end of the process does so too.
func Lock(ctx context.Context, wait bool) (io.Closer, error) { return lockFile(ctx, lockPath, wait) }

func lockFile(ctx context.Context, path string, wait bool) (io.Closer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			if err = f.Truncate(0); err == nil {
				_, err = f.WriteAt(fmt.Appendln(nil, os.Getpid()), 0)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("write %s: %w", path, err), f.Close())
			}
			return f, nil
		case err == unix.EINTR:
			continue
		case err != unix.EWOULDBLOCK:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		case !wait:
			holder := "unknown"
			if b, err := io.ReadAll(io.NewSectionReader(f, 0, 32)); err == nil && len(b) > 0 {
				holder = strings.TrimSpace(string(b))
			}
			return nil, errors.Join(fmt.Errorf("%w: process %s holds %s: wait for it with --wait", ErrBusy, holder, path), f.Close())
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return nil, errors.Join(fmt.Errorf("wait for %s: %w", path, err), f.Close())
		}
	}
}
