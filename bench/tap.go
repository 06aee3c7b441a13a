package bench

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// tap takes some of the frames that arrive at a link, with the kernel's time of their arrival. They wait in its socket until they are
// read, so it needs no thread while something is measured.
type tap struct{ fd int }

// tapBuffer holds some ten thousand small frames.
const tapBuffer = 32 << 20

// newTap opens a tap for the frames that a filter accepts. The caller closes it.
func newTap(ns *nettest.NS, link string, filter []bpf.Instruction) (*tap, error) {
	l, err := ns.Link(link)
	if err != nil {
		return nil, fmt.Errorf("tap: %w", err)
	}
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return nil, fmt.Errorf("tap on %s: %w", link, err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		program[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	t := &tap{fd: -1}
	err = ns.Do(func() (err error) {
		// Protocol 0 receives nothing until bind.
		t.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("tap on %s: %w", link, err)
	}
	err = errors.Join(
		unix.SetsockoptSockFprog(t.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}),
		unix.SetsockoptInt(t.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1),
		unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, tapBuffer),
		unix.SetsockoptInt(t.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.Bind(t.fd, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: l.Attrs().Index}),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("tap on %s: %w", link, err), t.close())
	}
	return t, nil
}

func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func (t *tap) close() error { return unix.Close(t.fd) }

// read hands over what has arrived since the last read: the frame, valid during the call, and when, in ns since 1970.
func (t *tap) read(each func(frame []byte, at int64)) error {
	var b [2048]byte
	var control [128]byte
	for {
		n, numControl, _, _, err := unix.Recvmsg(t.fd, b[:], control[:], unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return fmt.Errorf("read a tap: %w", err)
		}
		at, err := stampOf(control[:numControl])
		if err != nil {
			return fmt.Errorf("read a tap: %w", err)
		}
		each(b[:n], at)
	}
}

// frameSnap is as much of a frame as is read.
const frameSnap = 128

// sampled accepts one in n of the generator's IPv4 frames, n a power of two, by chance.
func sampled(n uint32) []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadExtension{Num: bpf.ExtRand},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: n - 1, SkipTrue: 3},
		bpf.LoadAbsolute{Off: stampAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: stampMagic, SkipTrue: 1},
		bpf.RetConstant{Val: frameSnap},
		bpf.RetConstant{Val: 0},
	}
}

// datagrams accepts UDP datagrams over IPv4 without options for a port.
func datagrams(port uint16) []bpf.Instruction {
	return accept(field{12, 2, unix.ETH_P_IP}, field{23, 1, unix.IPPROTO_UDP}, field{36, 2, uint32(port)})
}

// field is one that a frame must have.
type field struct {
	offset uint32
	size   int
	value  uint32
}

// accept accepts frames with all of these fields.
func accept(fields ...field) []bpf.Instruction {
	var program []bpf.Instruction
	for i, f := range fields {
		program = append(program, bpf.LoadAbsolute{Off: f.offset, Size: f.size},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: f.value, SkipTrue: uint8(2*(len(fields)-1-i) + 1)})
	}
	return append(program, bpf.RetConstant{Val: frameSnap}, bpf.RetConstant{Val: 0})
}

// The generator's stamp in an IPv4 frame: magic, sequence number, the time on CLOCK_MONOTONIC at which the frame was due.
const (
	stampAt    = 14 + 20 + 8
	stampMagic = 0x77656972
)

// dueAt reads when a frame of the generator was due.
func dueAt(frame []byte) (ns int64, ok bool) {
	if len(frame) < stampAt+16 || binary.BigEndian.Uint32(frame[stampAt:]) != stampMagic {
		return 0, false
	}
	return int64(binary.BigEndian.Uint64(frame[stampAt+8:])), true
}

// readDelays reads the tap and returns how long each of the generator's frames was under way.
func (t *tap) readDelays() (delays []time.Duration, err error) {
	bootedAt, err := monotonicEpoch()
	if err != nil {
		return nil, err
	}
	err = t.read(func(frame []byte, at int64) {
		if due, ok := dueAt(frame); ok {
			delays = append(delays, time.Duration(at-bootedAt-due))
		}
	})
	return delays, err
}

// monotonicEpoch is the time at which CLOCK_MONOTONIC was 0, in ns since 1970.
func monotonicEpoch() (int64, error) {
	var mono, real unix.Timespec
	if err := errors.Join(unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono), unix.ClockGettime(unix.CLOCK_REALTIME, &real)); err != nil {
		return 0, err
	}
	return real.Nano() - mono.Nano(), nil
}
