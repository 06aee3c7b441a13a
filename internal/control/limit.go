package control

import (
	"net"
	"sync"
)

// limited is a listener with at most cap(slots) connections open at once.
type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once
}

// limit bounds the connections a listener has open; more wait in the kernel's backlog.
func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

// Accept waits for a free slot, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, slots: l.slots}, nil
}

// Close ends Accept, also one that waits for a slot. Only the first call does anything.
func (l *limited) Close() error {
	var err error
	l.once.Do(func() {
		close(l.closed)
		err = l.Listener.Close()
	})
	return err
}

// counted is a connection that gives its slot back when it is closed.
type counted struct {
	net.Conn
	slots chan struct{}
	once  sync.Once
}

// Close closes the connection; only the first call frees the slot.
func (c *counted) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { <-c.slots })
	return err
}
