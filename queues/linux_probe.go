package queues

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// probe finds out whether a queue is free, by binding a socket of its own to it for a
// moment. The kernel has no other way to ask: a closed socket is gone from all its
// lists before the driver has let go of the queue.
type probe struct {
	ifindex, queue int
	area           []byte
	conn           Conn
}

// newProbe makes a probe in the network namespace of the calling thread.
func newProbe(ifindex, queue int) (*probe, error) {
	const frames, frameSize = 4, 4096
	area, err := unix.Mmap(-1, 0, frames*frameSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map probe: %w", err)
	}
	conn, err := linux{}.Socket(SocketSpec{
		Area: area, FrameSize: frameSize, NumFill: frames, NumCompletion: frames, NumRX: frames,
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open probe: %w", err), unix.Munmap(area))
	}
	return &probe{ifindex: ifindex, queue: queue, area: area, conn: conn}, nil
}

// wait returns nil when the queue is free or gone. After an error it may be called
// again.
func (p *probe) wait(timeout time.Duration) error {
	for end := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		err := p.conn.Bind(Binding{Ifindex: p.ifindex, Queue: p.queue, Flags: unix.XDP_COPY})
		if !errors.Is(err, unix.EBUSY) {
			return nil // bound, or there is no such queue any more: either way nobody else is
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w (the driver still uses the queue after %v): close again later", err, timeout)
		}
	}
}

// close frees the probe, and with it the queue it may have bound.
func (p *probe) close() error { return errors.Join(p.conn.Close(), unix.Munmap(p.area)) }
