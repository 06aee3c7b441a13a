package queues

import "golang.org/x/sys/unix"

// KickResult says how [Socket.Kick] left the TX ring.
type KickResult uint8

const (
	// KickEmpty: the kernel has taken everything that was submitted.
	KickEmpty KickResult = iota
	// KickPending: something is left, kick again later. Either the kernel asked for
	// time (EAGAIN, EBUSY, ENOBUFS), or the driver is at work on its own.
	KickPending
	// KickDown: the device is down; what is in TX stays there until it is up.
	KickDown
	// KickGone: the device was removed. The socket's frames are stranded until
	// Close, and it will never send or receive again.
	KickGone
	// KickFailed: an errno nobody expects; [Socket.LastErrno] has it. Close the socket.
	KickFailed
)

// String returns the result in lower case.
func (r KickResult) String() string {
	switch r {
	case KickEmpty:
		return "empty"
	case KickPending:
		return "pending"
	case KickDown:
		return "down"
	case KickGone:
		return "gone"
	case KickFailed:
		return "failed"
	}
	return "unknown"
}

// left returns what to say of a ring with so many packets unsent.
func left(unsent int) KickResult {
	if unsent == 0 {
		return KickEmpty
	}
	return KickPending
}

// verdict is what an errno of Kick or Wake means.
type verdict uint8

const (
	verdictDone        verdict = iota // no error
	verdictInterrupted                // a signal came first: call again
	verdictMore                       // the kernel stopped early: call again if it made progress
	verdictLater                      // no room where it sends to: come back next round
	verdictDown                       // the device is down, and may come up again
	verdictGone                       // the device was removed
	verdictFatal                      // a mistake of ours, or a kernel we do not know
)

// sortErrno is the one place where an errno of a system call on the packet path is
// given a meaning (net/xdp/xsk.c, Linux 6.18).
func sortErrno(e unix.Errno) verdict {
	switch e {
	case 0:
		return verdictDone
	case unix.EINTR:
		// Go's scheduler preempts with signals, so this is daily business.
		return verdictInterrupted
	case unix.EAGAIN:
		// The budget of the call is used up, the Completion ring or the socket's send
		// buffer is full, or the device's queue is stopped.
		return verdictMore
	case unix.EBUSY, unix.ENOBUFS, unix.ENOMEM:
		// EBUSY: the device refused one packet, which was dropped and completes.
		// Going on at once would only drop the next.
		return verdictLater
	case unix.ENETDOWN:
		return verdictDown
	case unix.ENXIO:
		// Not bound any more: the kernel unbinds a socket when its device goes.
		return verdictGone
	}
	return verdictFatal
}
