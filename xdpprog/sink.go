package xdpprog

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// SinkKind says where a [Sink] takes its frames.
type SinkKind int

const (
	// SinkTCX takes them at the interface's tcx ingress hook: right for frames that arrive as socket buffers (from the kernel's router
	// or from AF_XDP in copy mode). Needs Linux 6.6.
	SinkTCX SinkKind = iota
	// SinkXDP takes them in a native XDP program: right for frames that arrive as XDP frames (redirected); others cost a copy each.
	SinkXDP
)

// Sink counts the generator's frames that arrive at an interface and drops them. All other frames pass.
type Sink struct {
	objs *sinkObjects
	link link.Link
}

// SinkCount is what a sink has taken. Bytes are of frames without FCS.
type SinkCount struct{ Packets, Bytes uint64 }

// AttachSink attaches a sink to an interface of the calling thread's network namespace by a bpf_link. It needs CAP_BPF and CAP_NET_ADMIN.
// A SinkXDP leaves another XDP program alone and returns an [*OtherProgramError].
func AttachSink(ifindex int, kind SinkKind) (_ *Sink, err error) {
	name := fmt.Sprintf("interface %d", ifindex)
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("sink on %s: raise the locked-memory limit: %w: run as root", name, err)
	}
	s := &Sink{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	var objs sinkObjects
	if err := loadSinkObjects(&objs, nil); err != nil {
		return nil, fmt.Errorf("load the sink: %w", explain(err))
	}
	s.objs = &objs
	if err := s.attach(name, ifindex, kind); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Sink) attach(name string, ifindex int, kind SinkKind) (err error) {
	switch kind {
	case SinkTCX:
		s.link, err = link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: s.objs.WeirSinkTcx, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return fmt.Errorf("attach the sink to %s: %w", name, explain(err))
		}
		return nil
	case SinkXDP:
		if err := CheckFree(name, ifindex); err != nil {
			return err
		}
		s.link, err = attachLink(s.objs.WeirSinkXdp, name, ifindex, AttachNative)
		return err
	}
	return fmt.Errorf("attach the sink to %s: kind %d: %w: must be SinkTCX or SinkXDP", name, kind, unix.EINVAL)
}

// Count returns what the sink has taken since it was attached, over all CPUs.
func (s *Sink) Count() (SinkCount, error) {
	var perCPU []SinkCount
	if err := s.objs.Totals.Lookup(uint32(0), &perCPU); err != nil {
		return SinkCount{}, fmt.Errorf("count of the sink: %w", err)
	}
	var sum SinkCount
	for _, c := range perCPU {
		sum.Packets += c.Packets
		sum.Bytes += c.Bytes
	}
	return sum, nil
}

// Close detaches the sink. Count must not be called any more. Closing twice is harmless.
func (s *Sink) Close() error {
	var errs []error
	if s.link != nil {
		errs = append(errs, s.link.Close())
		s.link = nil
	}
	if s.objs != nil {
		errs = append(errs, s.objs.Close())
		s.objs = nil
	}
	return errors.Join(errs...)
}
