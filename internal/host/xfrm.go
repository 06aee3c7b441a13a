package host

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// xfrm lists IPsec policies that forwarded packets meet: those of direction fwd, and of out. Policies of direction in and those of
// single sockets concern the host alone.
func xfrm([]netlink.Link) ([]Finding, error) {
	policies, err := dump(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(unix.AF_UNSPEC) })
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list xfrm policies: %w", err)
	}
	var texts []string
	for _, p := range policies {
		if p.Dir == netlink.XFRM_DIR_FWD || p.Dir == netlink.XFRM_DIR_OUT {
			texts = append(texts, fmt.Sprintf("src %v dst %v %v", p.Src, p.Dst, p.Dir))
		}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) == 1 {
		return []Finding{{"xfrm policy", texts[0]}}, nil
	}
	return []Finding{{"xfrm policies", few(texts)}}, nil
}
