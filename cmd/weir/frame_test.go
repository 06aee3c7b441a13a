package main

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"weir/engine"
	"weir/internal/nettest"
)

const (
	etherLen = 14
	ipv4Len  = 20
	udpLen   = 8
)

// startT0 starts weir between r0 and r1 of T0.
func startT0(t *testing.T, top *nettest.Topology, args ...string) *router {
	t.Helper()
	return startRouter(t, top.Rtr, append([]string{"--port", "r0", "--port", "r1"}, args...)...)
}

// fixNeighbours makes the MACs of the hosts known to the router for good, so that no packet is spent on finding them.
func fixNeighbours(t *testing.T, top *nettest.Topology) {
	t.Helper()
	for _, n := range []struct {
		link string
		addr netip.Addr
		mac  net.HardwareAddr
	}{
		{"r0", nettest.AddrS0, nettest.MACs0}, {"r0", nettest.Addr6S0, nettest.MACs0},
		{"r1", nettest.AddrD0, nettest.MACd0}, {"r1", nettest.Addr6D0, nettest.MACd0},
	} {
		require.NoError(t, top.Rtr.Neigh(n.link, n.addr.String(), n.mac))
	}
}

// isTestPacket tells a test packet (P or its IPv6 twin, whatever its length) among what arrives.
func isTestPacket(f nettest.Frame) bool { return familyOf(f.Data) != 0 }

// familyOf is AF_INET for P, AF_INET6 for its twin, 0 for anything else.
func familyOf(frame []byte) int {
	ports := []byte{0, 1, 0, testPort}
	at := func(headerLen int) bool {
		return len(frame) >= etherLen+headerLen+4 && bytes.Equal(frame[etherLen+headerLen:][:4], ports)
	}
	switch {
	case len(frame) < etherLen:
	case binary.BigEndian.Uint16(frame[12:]) == unix.ETH_P_IP && at(ipv4Len):
		return unix.AF_INET
	case binary.BigEndian.Uint16(frame[12:]) == unix.ETH_P_IPV6 && at(40):
		return unix.AF_INET6
	}
	return 0
}

// edit returns a copy of an IPv4 frame with one change and a header checksum that is right again.
func edit(frame []byte, change func(ip []byte)) []byte {
	frame = bytes.Clone(frame)
	ip := frame[etherLen:]
	change(ip)
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], nettest.Checksum(0, ip[:ipv4Len]))
	return frame
}

// pad appends bytes that no zero-filled buffer would hold, up to the length of a frame on the wire.
func pad(frame []byte) []byte {
	return append(bytes.Clone(frame), bytes.Repeat([]byte{0xee}, max(0, 80-len(frame)))...)
}

// awaitDrop waits until num more packets than before are counted under a reason at a port.
func awaitDrop(t *testing.T, w *router, before engine.Stats, port, reason string, num uint64) {
	t.Helper()
	was := portOf(t, before, port).Dropped[reason]
	require.Eventually(t, func() bool { return portOf(t, w.stats(t), port).Dropped[reason]-was >= num },
		restTimeout, 5*time.Millisecond, "%s at %s: %d expected", reason, port, num)
}
