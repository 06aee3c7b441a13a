package napi

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Uring drives a NAPI whose id is known through an io_uring that never carries a request. Unlike a Socket it needs no packet to learn from;
// but it takes 8 packets per poll (BUSY_POLL_BUDGET, fixed), 16 per Drive, and its way back to the caller is the longer one.
//
// What the kernel does in one Drive (Linux 6.18: io_uring/io_uring.c io_cqring_wait, io_uring/napi.c):
//
//   - The NAPIs of a ring are polled only in a call that waits for a completion, and none is there: so Drive asks for one that never comes.
//   - With one NAPI in the list its loop ends when busy_poll_to has passed. 0 has passed at once: one poll, and the second of
//     busy_poll_stop, as Socket describes. Anything else would poll on for so many µs.
//   - Then the call waits, and what makes it return is the timeout of IORING_ENTER_EXT_ARG, which is 0: the timer it sets is due at once.
//     ETIME is the good end. The caller may lose the CPU for that moment: this wait is a real one.
//   - A pending signal ends polling after the first poll, and the call with EINTR.
//   - Static tracking keeps the id until it is deleted (dynamic tracking forgets it after 60 s). An id that ends is not noticed: then Drive
//     drives nothing, without an error.
//
// Leaving the NAPI masked takes the same three as with a Socket: prefer, defer-hard-irqs and gro-flush-timeout. No capability is needed.
//
// One goroutine. The id, not the network namespace of the caller, says what is driven.
type Uring struct {
	fd   int
	id   int
	wait *uringWait
	napi *uringNAPI
}

// Of linux/io_uring.h, Linux 6.13.
const (
	ioringRegisterNAPI   = 27
	ioringEnterGetevents = 1 << 0
	ioringEnterExtArg    = 1 << 3

	ioUringNAPIRegisterOp     = 0
	ioUringNAPIStaticAddID    = 1
	ioUringNAPITrackingStatic = 1
)

// OpenUring opens a ring that drives the NAPI with this id, which the kernel gave (NAPI.ID); that it exists is not checked. The ring begins
// with prefer off. The caller closes it. Needs Linux 6.13; the error says what stands in the way, and
// wraps ErrUnsupported when that is io_uring switched off, filtered, or too old.
func OpenUring(id int) (*Uring, error) {
	var p uringParams
	fd, err := uringSetup(1, &p)
	if err != nil {
		err = fmt.Errorf("%w: %s", os.NewSyscallError("io_uring_setup", err), uringRemedy(err, uringDisabled()))
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
			err = fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
		return nil, fmt.Errorf("open io_uring for NAPI %d: %w", id, err)
	}
	u := &Uring{fd: fd, id: id, wait: new(uringWait), napi: new(uringNAPI)}
	if err := u.SetPrefer(false); err != nil {
		u.Close()
		return nil, fmt.Errorf("open io_uring for NAPI %d: %w", id, err)
	}
	return u, nil
}

// uringDisabled returns kernel.io_uring_disabled, 0 where it does not exist (before Linux 6.6).
func uringDisabled() string {
	b, err := os.ReadFile("/proc/sys/kernel/io_uring_disabled")
	if err != nil {
		return "0"
	}
	return strings.TrimSpace(string(b))
}

// uringRemedy says why there is no ring and what to do.
func uringRemedy(err error, disabled string) string {
	const instead = "or set poller.ownership to another means"
	switch {
	case errors.Is(err, unix.EPERM) && disabled != "0":
		return fmt.Sprintf("kernel.io_uring_disabled is %s: set it to 0, %s", disabled, instead)
	case errors.Is(err, unix.EPERM):
		return "a system call filter or a security module forbids it: allow io_uring_setup, io_uring_register and io_uring_enter, " + instead
	case errors.Is(err, unix.ENOSYS):
		return "the kernel is built without io_uring, or a system call filter hides it: take another kernel, " + instead
	case errors.Is(err, unix.ENOMEM):
		return "before Linux 5.12 rings count against RLIMIT_MEMLOCK: raise it, " + instead
	}
	return "raise what has run out, " + instead
}

// SetPrefer says whether the next Drive leaves the NAPI masked, with its timer armed, or gives it back. It takes effect with that Drive.
// Two system calls, no allocation: the kernel sets prefer only with a new list of NAPIs.
func (u *Uring) SetPrefer(on bool) error {
	*u.napi = uringNAPI{opcode: ioUringNAPIRegisterOp, param: ioUringNAPITrackingStatic}
	if on {
		u.napi.prefer = 1
	}
	if err := uringRegisterNAPI(u.fd, u.napi); err != nil {
		switch err {
		case unix.EINVAL:
			return fmt.Errorf("register static NAPI tracking: %w: %w: needs Linux 6.13", ErrUnsupported, err)
		case unix.EOPNOTSUPP:
			return fmt.Errorf("register static NAPI tracking: %w: %w: the kernel is built without CONFIG_NET_RX_BUSY_POLL",
				ErrUnsupported, err)
		}
		return fmt.Errorf("register static NAPI tracking: %w", err)
	}
	*u.napi = uringNAPI{opcode: ioUringNAPIStaticAddID, param: uint32(u.id)}
	if err := uringRegisterNAPI(u.fd, u.napi); err != nil {
		if err == unix.EINVAL {
			return fmt.Errorf("track NAPI %d: %w: no id of a NAPI", u.id, err)
		}
		return fmt.Errorf("track NAPI %d: %w", u.id, err)
	}
	return nil
}

// Drive polls the NAPI: at most 16 packets, in this thread. It is one system call, and allocates nothing. That there was nothing to
// receive is no error; neither is a NAPI that does not exist any more, or that somebody else is polling just now.
func (u *Uring) Drive() error {
	switch errno := uringEnter(u.fd, u.wait); errno {
	case 0, unix.ETIME, unix.EINTR:
		return nil
	default:
		return fmt.Errorf("drive NAPI %d: %w", u.id, os.NewSyscallError("io_uring_enter", errno))
	}
}

// Close closes the ring. It does not give the NAPI back: a NAPI left masked stays so until its timer has run out.
func (u *Uring) Close() error {
	fd := u.fd
	u.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
}
