package deps

import (
	_ "github.com/alecthomas/kong"
	_ "github.com/cilium/ebpf"
	_ "github.com/cilium/ebpf/link"
	_ "github.com/cilium/ebpf/rlimit"
	_ "github.com/gaissmai/bart"
	_ "github.com/goccy/go-yaml"
	_ "github.com/google/nftables"
	_ "github.com/gopacket/gopacket/layers"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/safchain/ethtool"
	_ "github.com/stretchr/testify/require"
	_ "github.com/vishvananda/netlink"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/net/icmp"
	_ "gonum.org/v1/plot/vg/vgsvg"
	_ "gonum.org/v1/plot/vg/vgimg"
	_ "gonum.org/v1/plot"
	_ "gonum.org/v1/plot/plotter"
)
