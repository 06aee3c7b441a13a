package napi

import (
	"errors"
	"fmt"
	"time"
)

// Errors of this package; test with errors.Is. After any of them the object that returned it is still usable.
var (
	// ErrUnsupported means that this kernel, or what this process may reach of it, has no such interface.
	ErrUnsupported = errors.New("not supported here")
	// ErrGone means that there is no NAPI of that id, device of that name, or thread of that number any more. A device that was down, or
	// changed its queues, has new ids.
	ErrGone = errors.New("gone")
	// ErrJournal means that a journal is not what this package wrote for this user: nothing in it was followed.
	ErrJournal = errors.New("journal refused")
	// ErrInUse means that another process holds the journal of this network namespace.
	ErrInUse = errors.New("in use")
	// ErrClosed means that the object was closed.
	ErrClosed = errors.New("closed")
)

// Queue numbers that are none.
const (
	// NoQueue is the Queue of a NAPI that serves no receive queue, or nobody knows which.
	NoQueue = -1
	// DeviceWide stands for all queues of a device together, where the kernel has no settings of a single NAPI.
	DeviceWide = -2
)

// NAPI is what the kernel says of one NAPI instance (netdev_nl_napi_fill_one, net/core/netdev-genl.c, Linux 6.8 and later).
type NAPI struct {
	// ID is the kernel's number, as SO_INCOMING_NAPI_ID tells it. Lost when the device goes down, unless its driver keeps it.
	ID int
	// Queue is the receive queue that it serves, or NoQueue.
	Queue int
	// Mapped means that the driver said so. Otherwise Queue is the place of ID among the device's ids, which holds for drivers that add
	// one NAPI for each receive queue, in order: veth does.
	Mapped bool
	// IRQ is the interrupt, 0 for none.
	IRQ int
	// PID is the kernel thread, 0 for none, or for one that this process's PID namespace does not show.
	PID int
	Settings
}

// String names the NAPI and all that is known of it.
func (n NAPI) String() string {
	queue := "no queue"
	switch {
	case n.Queue >= 0 && n.Mapped:
		queue = fmt.Sprintf("queue %d", n.Queue)
	case n.Queue >= 0:
		queue = fmt.Sprintf("queue %d by order", n.Queue)
	}
	return fmt.Sprintf("NAPI %d, %s, irq %d, thread %d: %v", n.ID, queue, n.IRQ, n.PID, n.Settings)
}

// Settings are the knobs of one NAPI.
type Settings struct {
	// DeferHardIRQs is how many empty polls in a row the interrupt stays masked for (napi_defer_hard_irqs).
	DeferHardIRQs uint32
	// GROFlush is after how long without a poll the kernel polls by itself (gro_flush_timeout); 0: never.
	GROFlush time.Duration
	// IRQSuspend is how long an epoll that found events masks the interrupt (irq_suspend_timeout, Linux 6.13).
	IRQSuspend time.Duration
	// Threaded means that a kernel thread polls instead of the softirq.
	Threaded bool
}

// String is the settings in the kernel's names.
func (s Settings) String() string {
	threaded := 0
	if s.Threaded {
		threaded = 1
	}
	return fmt.Sprintf("defer-hard-irqs %d, gro-flush-timeout %v, irq-suspend-timeout %v, threaded %d",
		s.DeferHardIRQs, s.GROFlush, s.IRQSuspend, threaded)
}
