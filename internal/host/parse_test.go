package host

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// FuzzXtables feeds arbitrary tables: an answer, or an error, and an end.
func FuzzXtables(f *testing.F) {
	info := make([]byte, sizeofInfo)
	binary.NativeEndian.PutUint32(info[32:], 1<<unix.NF_INET_FORWARD)
	f.Add(info, make([]byte, 1000), true)
	f.Add([]byte{}, []byte{}, false)
	f.Fuzz(func(t *testing.T, info, entries []byte, six bool) {
		x := xtablesFamilies[0]
		if six {
			x = xtablesFamilies[1]
		}
		chains, err := x.parse(info, entries)
		if err != nil {
			require.ErrorIs(t, err, errTable)
			return
		}
		require.LessOrEqual(t, len(chains), len(xtablesHooks))
	})
}

// FuzzHookDevices feeds arbitrary attributes of a chain.
func FuzzHookDevices(f *testing.F) {
	hook := nl.NewRtAttr(unix.NFTA_CHAIN_HOOK|unix.NLA_F_NESTED, nil)
	hook.AddRtAttr(unix.NFTA_HOOK_DEV, nl.ZeroTerminated("in0"))
	devices := hook.AddRtAttr(nftaHookDevs|unix.NLA_F_NESTED, nil)
	devices.AddRtAttr(nftaDeviceName, nl.ZeroTerminated("out0"))
	devices.AddRtAttr(nftaDevicePrefix, nl.ZeroTerminated("eth"))
	f.Add(hook.Serialize())
	f.Add([]byte{4, 0, 4, 128})
	f.Fuzz(func(t *testing.T, attrs []byte) {
		var d deviceSet
		if d.parse(attrs) == nil {
			d.match("in0")
		}
	})
}

func TestHookDevices(t *testing.T) {
	d := deviceSet{names: []string{"in0"}, prefixes: []string{"eth"}}
	require.True(t, d.match("in0"))
	require.True(t, d.match("eth1"))
	require.False(t, d.match("in01"))
	require.False(t, deviceSet{}.match("in0"))
}
