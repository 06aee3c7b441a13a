package nettest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// EchoServer answers every UDP datagram, or every byte of each TCP connection, with itself.
type EchoServer struct {
	listener net.Listener   // TCP
	packets  net.PacketConn // UDP
	wg       sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

// Echo starts an EchoServer in the namespace. network is one of tcp, tcp4, tcp6, udp, udp4, udp6; port 0 chooses one. The caller
// closes it.
func (n *NS) Echo(network, address string) (*EchoServer, error) {
	e := &EchoServer{conns: map[net.Conn]struct{}{}}
	var err error
	switch network {
	case "tcp", "tcp4", "tcp6":
		if e.listener, err = n.Listen(network, address); err == nil {
			e.wg.Go(e.accept)
		}
	case "udp", "udp4", "udp6":
		if e.packets, err = n.ListenPacket(network, address); err == nil {
			e.wg.Go(e.answer)
		}
	default:
		err = net.UnknownNetworkError(network)
	}
	if err != nil {
		return nil, err
	}
	return e, nil
}

// Addr returns the address the server listens on.
func (e *EchoServer) Addr() string {
	if e.listener != nil {
		return e.listener.Addr().String()
	}
	return e.packets.LocalAddr().String()
}

func (e *EchoServer) accept() {
	for {
		c, err := e.listener.Accept()
		if err != nil {
			return
		}
		e.mu.Lock()
		if e.closed {
			c.Close()
		} else {
			e.conns[c] = struct{}{}
			e.wg.Go(func() {
				// Wrapped, or io.Copy would splice, through pipes that the runtime keeps. The client sees what is missing.
				_, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c})
				c.Close()
				e.mu.Lock()
				delete(e.conns, c)
				e.mu.Unlock()
			})
		}
		e.mu.Unlock()
	}
}

func (e *EchoServer) answer() {
	b := make([]byte, 1<<16)
	for {
		num, from, err := e.packets.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = e.packets.WriteTo(b[:num], from) // datagrams may be lost
		}
	}
}

// Close ends the server and its connections, and returns when its goroutines have ended.
func (e *EchoServer) Close() error {
	e.mu.Lock()
	e.closed = true
	for c := range e.conns {
		c.Close()
	}
	e.mu.Unlock()
	var err error
	if e.listener != nil {
		err = e.listener.Close()
	} else {
		err = e.packets.Close()
	}
	e.wg.Wait()
	return err
}

// Transfer is what came of a TransferTCP.
type Transfer struct {
	Bytes   int64             // received
	SHA256  [sha256.Size]byte // of what was received; equal to that of what was sent
	Elapsed time.Duration     // from the first byte sent to the last received
}

// TransferTCP sends bytes pseudo-random bytes over one TCP connection from a client in from to a server at the address server in to,
// and compares the hashes of both ends. ctx bounds it.
func TransferTCP(ctx context.Context, from, to *NS, server netip.Addr, bytes int64) (Transfer, error) {
	var t Transfer
	fail := func(err error) (Transfer, error) {
		return t, fmt.Errorf("transfer %d bytes from %s to %s in %s: %w", bytes, from.name, server, to.name, err)
	}
	l, err := to.Listen("tcp", netip.AddrPortFrom(server, 0).String())
	if err != nil {
		return fail(err)
	}
	defer l.Close()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()

	type received struct {
		num  int64
		hash []byte
		err  error
	}
	result := make(chan received, 1)
	go func() {
		var r received
		r.num, r.hash, r.err = receive(ctx, l)
		result <- r
	}()

	start := time.Now()
	sent, err := send(ctx, from, l.Addr().String(), bytes)
	if err != nil {
		l.Close() // or the receiver would wait for a client that never comes
	}
	r := <-result
	t.Elapsed = time.Since(start)
	t.Bytes = r.num
	copy(t.SHA256[:], r.hash)
	switch {
	case ended(ctx) != nil:
		return fail(ended(ctx))
	case err != nil:
		return fail(err)
	case r.err != nil:
		return fail(r.err)
	case r.num != bytes || string(r.hash) != string(sent):
		return fail(fmt.Errorf("received %d bytes, SHA-256 %x, sent %x", r.num, r.hash, sent))
	}
	return t, nil
}

// ended is ctx.Err, but sees a deadline that has passed before the timer of ctx has run: package net does so too.
func ended(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// send connects to address and sends pseudo-random bytes; it returns their hash.
func send(ctx context.Context, from *NS, address string, bytes int64) ([]byte, error) {
	c, err := from.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	h := sha256.New()
	source := io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), bytes), h)
	if _, err := io.CopyBuffer(struct{ io.Writer }{c}, source, make([]byte, 1<<18)); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	return h.Sum(nil), nil
}

// receive accepts one connection and reads it to its end.
func receive(ctx context.Context, l net.Listener) (int64, []byte, error) {
	c, err := l.Accept()
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	var h hash.Hash = sha256.New()
	num, err := io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{c}, make([]byte, 1<<18))
	if err != nil {
		return num, nil, fmt.Errorf("receive: %w", err)
	}
	return num, h.Sum(nil), nil
}
