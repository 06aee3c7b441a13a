package bench

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"weir/internal/nettest"
)

// TestAccept: every field counts.
func TestAccept(t *testing.T) {
	frame := nettest.Ethernet(macG0, macS0, nettest.NewIP(GenAddr, SinkAddr).UDP(1, beatPort, make([]byte, 18)))
	taken := func(filter []bpf.Instruction, frame []byte) bool {
		vm, err := bpf.NewVM(filter)
		require.NoError(t, err)
		n, err := vm.Run(frame)
		require.NoError(t, err)
		return n > 0
	}
	require.True(t, taken(datagrams(beatPort), frame))
	require.False(t, taken(datagrams(beatPort+1), frame))
	tcp := append([]byte(nil), frame...)
	tcp[23] = unix.IPPROTO_TCP
	require.False(t, taken(datagrams(beatPort), tcp))
	ask := arpFor(macG0, GenAddr, SinkAddr)
	require.True(t, taken(accept(field{12, 2, unix.ETH_P_ARP}, field{20, 2, arpRequest}), ask))
	require.False(t, taken(accept(field{12, 2, unix.ETH_P_ARP}, field{20, 2, arpReply}), ask))
	require.GreaterOrEqual(t, len(ask), 60)
}

// TestDueAt: only the generator's stamp is one.
func TestDueAt(t *testing.T) {
	frame := make([]byte, 60)
	_, ok := dueAt(frame)
	require.False(t, ok)
	binary.BigEndian.PutUint32(frame[stampAt:], stampMagic)
	binary.BigEndian.PutUint64(frame[stampAt+8:], 12345)
	due, ok := dueAt(frame)
	require.True(t, ok)
	require.EqualValues(t, 12345, due)
	_, ok = dueAt(frame[:stampAt+8])
	require.False(t, ok)
}
