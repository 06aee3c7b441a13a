package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ReversePathFilter returns the mode of source validation in force for IPv4 on an interface of the calling thread's network namespace:
// 0 none, 1 strict, 2 loose. As in the kernel it is the larger one of the interface's own and that of all.
func ReversePathFilter(name string) (int, error) {
	mode := 0
	for _, which := range []string{"all", name} {
		text, err := os.ReadFile(filepath.Join("/proc/sys/net/ipv4/conf", which, "rp_filter"))
		if err != nil {
			return 0, fmt.Errorf("read rp_filter of %s: %w", which, err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return 0, fmt.Errorf("read rp_filter of %s: %w", which, err)
		}
		mode = max(mode, n)
	}
	return mode, nil
}
