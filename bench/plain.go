package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"

	"golang.org/x/sys/unix"

	"weir/queues"
	"weir/xdpprog"
)

const (
	plainBatch  = 64
	plainFrames = 8192
	plainRing   = 2048
)

// Plain is the baseline: the forwarder everybody writes first. One spinning thread takes a batch from in0, swaps in out0's MAC
// addresses, queues it on out0, kicks, takes completions back and refills; what does not fit is dropped. It knows no routes, no quotas
// and no feedback. It forwards until ctx ends, in the current network namespace, on the given CPU, and says on ready when it begins.
func Plain(ctx context.Context, cpu int, dstMAC net.HardwareAddr, ready io.Writer) (err error) {
	umem, err := queues.NewUMEM(queues.UMEMConfig{NumFrames: plainFrames, FrameSize: 2048})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, umem.Close()) }()
	in, err := openPlain(umem, "in0", plainRing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	out, err := openPlain(umem, "out0", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.close()) }()

	runtime.LockOSThread() // never unlocked: the thread dies with its affinity
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin the plain loop to CPU %d: %w", cpu, err)
	}
	fmt.Fprintln(ready, plainReady)
	return plainLoop(ctx, umem, in.socket, out.socket, dstMAC, out.mac)
}

func plainLoop(ctx context.Context, umem *queues.UMEM, in, out *queues.Socket, dst, src net.HardwareAddr) error {
	var macs [12]byte
	copy(macs[:6], dst)
	copy(macs[6:], src)
	var batch [plainBatch]queues.Desc
	for ctx.Err() == nil {
		n := in.Receive(batch[:])
		for i := range n {
			frame := umem.Data(batch[i])
			copy(frame, macs[:])
			if len(frame) >= 34 && binary.BigEndian.Uint16(frame[12:]) == 0x0800 {
				frame[22]-- // TTL; the checksum is adjusted as cheaply as it can be
				binary.BigEndian.PutUint16(frame[24:], binary.BigEndian.Uint16(frame[24:])+0x0100)
			}
		}
		sent := out.Send(batch[:n])
		for _, d := range batch[sent:n] {
			umem.Free(d.Addr)
		}
		if out.Kick() == queues.KickFailed {
			return fmt.Errorf("plain loop: transmit on out0: %w", out.LastErrno())
		}
		out.Reap()
		in.Refill()
	}
	return nil
}

// plainPort is one interface of the plain loop.
type plainPort struct {
	program *xdpprog.Port
	socket  *queues.Socket
	mac     net.HardwareAddr
}

func openPlain(umem *queues.UMEM, name string, fill int) (_ *plainPort, err error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return nil, err
	}
	p := &plainPort{mac: link.HardwareAddr}
	p.program, err = xdpprog.Attach(xdpprog.PortConfig{
		Interface: name, Ifindex: link.Index, Mode: xdpprog.AttachNative, MAC: [6]byte(link.HardwareAddr), MaxQueues: 1,
	})
	if err != nil {
		return nil, err
	}
	p.program.Door(0).SetUnlimited(true)
	p.socket, err = umem.Open(queues.SocketConfig{
		Interface: name, Ifindex: link.Index, Mode: queues.Copy,
		NumRX: plainRing, NumTX: plainRing, NumFill: plainRing, NumCompletion: plainRing, FillDepth: fill,
	})
	if err == nil && fill > 0 {
		err = p.program.SetSocket(0, p.socket.FD())
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *plainPort) close() error {
	err := p.program.Close()
	if p.socket != nil {
		err = errors.Join(err, p.socket.Close())
	}
	return err
}
