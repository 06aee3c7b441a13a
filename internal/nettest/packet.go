package nettest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Frame is one frame a PacketConn received.
type Frame struct {
	Data []byte // the Ethernet frame, VLAN tag included; the caller's own

	// Partial says that the L4 checksum holds only the folded sum of the pseudo header, which the sender left for a device to
	// complete. ChecksumStart is where summing begins, ChecksumOffset the field's place behind it, both in bytes.
	Partial                       bool
	ChecksumStart, ChecksumOffset int

	GSOSize int // bytes per segment of a frame that stands for several; 0 = an ordinary frame
}

// PacketConn sends and receives whole frames on one link (AF_PACKET). Frames that the host itself sends are not received. Send may
// run beside Recv; one goroutine each.
type PacketConn struct {
	file *os.File
	raw  syscall.RawConn
	buf  []byte
	oob  []byte
}

const (
	vnetHdrLen = 10 // sizeof(struct virtio_net_hdr)

	vnetNeedsCsum = 1 // VIRTIO_NET_HDR_F_NEEDS_CSUM

	captureBuffer = 16 << 20 // bytes of socket buffer: some ten thousand small frames while the test is not scheduled
)

// OpenPacket opens a PacketConn on a link of the namespace. The caller closes it.
func (n *NS) OpenPacket(link string) (*PacketConn, error) {
	l, err := n.Link(link)
	if err != nil {
		return nil, fmt.Errorf("open packet socket: %w", err)
	}
	fd := -1
	err = n.Do(func() (err error) {
		fd, err = openPacket(l.Attrs().Index)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open packet socket on %s in %s: %w", link, n.name, err)
	}
	c := &PacketConn{
		file: os.NewFile(uintptr(fd), "packet:"+link),
		buf:  make([]byte, vnetHdrLen+(1<<16)+256),
		oob:  make([]byte, unix.CmsgSpace(auxdataLen)),
	}
	if c.raw, err = c.file.SyscallConn(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func openPacket(ifindex int) (int, error) {
	// Protocol 0 receives nothing until bind, so no frame of another link gets in.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socket: %w: needs CAP_NET_RAW", err)
	}
	for _, o := range [...]struct {
		level, name, value int
		what               string
	}{
		{unix.SOL_PACKET, unix.PACKET_VNET_HDR, 1, "PACKET_VNET_HDR"},
		{unix.SOL_PACKET, unix.PACKET_AUXDATA, 1, "PACKET_AUXDATA"},
		{unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1, "PACKET_IGNORE_OUTGOING"},
		{unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, captureBuffer, "SO_RCVBUFFORCE"},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("set %s: %w", o.what, err)
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(unix.ETH_P_ALL), Ifindex: ifindex}); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("bind: %w", err)
	}
	return fd, nil
}

// Send sends one complete frame as it is.
func (c *PacketConn) Send(frame []byte) error {
	return c.send(make([]byte, vnetHdrLen), frame)
}

// SendPartial sends a frame whose L4 checksum is left for a device to complete, as the kernel's own TCP and UDP do on a veth:
// the field at start+offset must hold the folded sum of the pseudo header.
func (c *PacketConn) SendPartial(frame []byte, start, offset int) error {
	h := make([]byte, vnetHdrLen)
	h[0] = vnetNeedsCsum
	binary.NativeEndian.PutUint16(h[6:], uint16(start))
	binary.NativeEndian.PutUint16(h[8:], uint16(offset))
	return c.send(h, frame)
}

func (c *PacketConn) send(header, frame []byte) error {
	var sendErr error
	err := c.raw.Write(func(fd uintptr) bool {
		sendErr = retryEINTR(func() error {
			_, err := unix.SendmsgBuffers(int(fd), [][]byte{header, frame}, nil, nil, 0)
			return err
		})
		return sendErr != unix.EAGAIN
	})
	if err == nil {
		err = sendErr
	}
	if err != nil {
		return fmt.Errorf("send %d byte frame: %w", len(frame), err)
	}
	return nil
}

// Recv returns the next frame. When none comes within timeout, the error is os.ErrDeadlineExceeded.
func (c *PacketConn) Recv(timeout time.Duration) (Frame, error) {
	if err := c.file.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return Frame{}, err
	}
	var num, numOOB int
	var recvErr error
	err := c.raw.Read(func(fd uintptr) bool {
		recvErr = retryEINTR(func() (err error) {
			num, numOOB, _, _, err = unix.Recvmsg(int(fd), c.buf, c.oob, 0)
			return err
		})
		return recvErr != unix.EAGAIN
	})
	if err == nil {
		err = recvErr
	}
	if err != nil {
		return Frame{}, fmt.Errorf("receive frame: %w", err)
	}
	return parseFrame(c.buf[:num], c.oob[:numOOB])
}

// Expect returns the first frame for which match is true and drops those before it. When none comes within timeout, the error is
// os.ErrDeadlineExceeded.
func (c *PacketConn) Expect(timeout time.Duration, match func(Frame) bool) (Frame, error) {
	end := time.Now().Add(timeout)
	for {
		f, err := c.Recv(time.Until(end))
		if err != nil || match(f) {
			return f, err
		}
	}
}

// Collect receives for the whole of d and returns the frames for which match is true, in order.
func (c *PacketConn) Collect(d time.Duration, match func(Frame) bool) ([]Frame, error) {
	var frames []Frame
	for end := time.Now().Add(d); ; {
		f, err := c.Expect(time.Until(end), match)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return frames, nil
		case err != nil:
			return frames, err
		}
		frames = append(frames, f)
	}
}

// Dropped returns how many frames the socket's buffer had no room for since the last call. A test that counts frames checks it.
func (c *PacketConn) Dropped() (int, error) {
	var dropped int
	var optErr error
	err := c.raw.Control(func(fd uintptr) {
		s, err := unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS)
		if optErr = err; err == nil {
			dropped = int(s.Drops)
		}
	})
	if err == nil {
		err = optErr
	}
	return dropped, err
}

// Close closes the socket; a Recv that waits returns.
func (c *PacketConn) Close() error { return c.file.Close() }

const auxdataLen = 20 // sizeof(struct tpacket_auxdata)

// parseFrame takes the virtio_net_hdr off a received frame and puts the VLAN tag, which the kernel hands over beside it, back in.
func parseFrame(b, oob []byte) (Frame, error) {
	if len(b) < vnetHdrLen {
		return Frame{}, fmt.Errorf("receive frame: %d bytes, less than a virtio_net_hdr", len(b))
	}
	data := b[vnetHdrLen:]
	f := Frame{
		Partial: b[0]&vnetNeedsCsum != 0,
		GSOSize: int(binary.NativeEndian.Uint16(b[4:])),
	}
	tag, err := vlanTag(oob)
	if err != nil {
		return Frame{}, err
	}
	if len(tag) > 0 && len(data) >= 12 {
		f.Data = append(append(append(make([]byte, 0, len(data)+4), data[:12]...), tag...), data[12:]...)
	} else {
		tag = nil
		f.Data = append([]byte(nil), data...)
	}
	if f.Partial {
		f.ChecksumStart = int(binary.NativeEndian.Uint16(b[6:])) + len(tag)
		f.ChecksumOffset = int(binary.NativeEndian.Uint16(b[8:]))
	}
	return f, nil
}

// vlanTag returns the four bytes of the tag in a tpacket_auxdata control message, or nil.
func vlanTag(oob []byte) ([]byte, error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("receive frame: control message: %w", err)
	}
	for _, m := range messages {
		if m.Header.Level != unix.SOL_PACKET || m.Header.Type != unix.PACKET_AUXDATA || len(m.Data) < auxdataLen {
			continue
		}
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_VALID == 0 {
			return nil, nil
		}
		tpid := uint16(unix.ETH_P_8021Q)
		if binary.NativeEndian.Uint32(m.Data)&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
			tpid = binary.NativeEndian.Uint16(m.Data[18:])
		}
		tag := binary.BigEndian.AppendUint16(nil, tpid)
		return binary.BigEndian.AppendUint16(tag, binary.NativeEndian.Uint16(m.Data[16:])), nil
	}
	return nil, nil
}

// htons turns a 16-bit value into network byte order, as AF_PACKET wants its protocol.
func htons(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
