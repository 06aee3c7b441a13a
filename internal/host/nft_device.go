package host

import (
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// deviceSet is what an ingress or egress chain hooks: names, and since Linux 6.16 prefixes of names.
type deviceSet struct{ names, prefixes []string }

func (d deviceSet) match(name string) bool {
	for _, n := range d.names {
		if n == name {
			return true
		}
	}
	for _, p := range d.prefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// Attributes of enum nft_hook_attributes and nft_devices_attributes (linux/netfilter/nf_tables.h) that x/sys lacks.
const (
	nftaHookDevs     = 4
	nftaDeviceName   = 1
	nftaDevicePrefix = 2
)

// hookDevices asks for the devices of a chain, which google/nftables does not report.
func hookDevices(c *nftables.Chain) (deviceSet, error) {
	req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_GETCHAIN, 0)
	req.AddData(&nl.Nfgenmsg{NfgenFamily: uint8(c.Table.Family)})
	req.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_TABLE, nl.ZeroTerminated(c.Table.Name)))
	req.AddData(nl.NewRtAttr(unix.NFTA_CHAIN_NAME, nl.ZeroTerminated(c.Name)))
	msgs, err := req.Execute(unix.NETLINK_NETFILTER, unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWCHAIN)
	if err != nil {
		return deviceSet{}, err
	}
	var d deviceSet
	for _, m := range msgs {
		if len(m) < nl.SizeofNfgenmsg {
			continue
		}
		if err := d.parse(m[nl.SizeofNfgenmsg:]); err != nil {
			return deviceSet{}, err
		}
	}
	return d, nil
}

// parse reads the attributes of one chain.
func (d *deviceSet) parse(attrs []byte) error {
	return nested(attrs, func(kind uint16, hook []byte) error {
		if kind != unix.NFTA_CHAIN_HOOK {
			return nil
		}
		return nested(hook, func(kind uint16, value []byte) error {
			switch kind {
			case unix.NFTA_HOOK_DEV:
				d.names = append(d.names, cString(value))
			case nftaHookDevs:
				return nested(value, func(kind uint16, value []byte) error {
					switch kind {
					case nftaDeviceName:
						d.names = append(d.names, cString(value))
					case nftaDevicePrefix:
						d.prefixes = append(d.prefixes, cString(value))
					}
					return nil
				})
			}
			return nil
		})
	})
}
