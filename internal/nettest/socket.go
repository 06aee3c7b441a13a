package nettest

import (
	"context"
	"fmt"
	"net"
)

// Listen is net.Listen inside the namespace. Name an IPv6 zone by its interface index: package net caches interface names across
// namespaces.
func (n *NS) Listen(network, address string) (net.Listener, error) {
	var l net.Listener
	err := n.Do(func() (err error) {
		l, err = net.Listen(network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", n.name, err)
	}
	return l, nil
}

// ListenPacket is net.ListenPacket inside the namespace.
func (n *NS) ListenPacket(network, address string) (net.PacketConn, error) {
	var c net.PacketConn
	err := n.Do(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", n.name, err)
	}
	return c, nil
}

// Dial is net.Dialer.DialContext inside the namespace. address must hold an IP address: a name would be looked up by other threads,
// outside.
func (n *NS) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	var c net.Conn
	err := n.Do(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, network, address)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("in %s: %w", n.name, err)
	}
	return c, nil
}
