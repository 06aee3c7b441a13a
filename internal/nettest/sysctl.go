package nettest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Sysctl sets a sysctl of the namespace, named with dots (net.ipv4.ip_forward) or, where an interface name holds one, with slashes.
func (n *NS) Sysctl(key, value string) error {
	return n.Do(func() error { return setSysctl(key, value) })
}

// GetSysctl returns a sysctl of the namespace without the final newline.
func (n *NS) GetSysctl(key string) (string, error) {
	var value string
	err := n.Do(func() error {
		b, err := os.ReadFile(sysctlPath(key))
		value = strings.TrimSuffix(string(b), "\n")
		return err
	})
	return value, err
}

// setSysctl writes a sysctl of the calling thread's namespace: /proc/sys/net resolves by the thread that opens the file.
func setSysctl(key, value string) error {
	f, err := os.OpenFile(sysctlPath(key), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set sysctl %s: %w", key, err)
	}
	defer f.Close()
	if _, err := f.WriteString(value); err != nil {
		return fmt.Errorf("set sysctl %s=%s: %w", key, value, err)
	}
	return nil
}

func sysctlPath(key string) string {
	if !strings.Contains(key, "/") {
		key = strings.ReplaceAll(key, ".", "/")
	}
	return filepath.Join("/proc/sys", key)
}

// quiet sets what a new namespace needs so that only the packets of the test are on its cables.
func quiet() error {
	// A new namespace inherits from the first one or not, as net.core.devconf_inherit_init_net says: so nothing is left to it.
	for _, s := range [...][2]string{
		{"net.ipv4.ip_forward", "0"},
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
	} {
		if err := setSysctl(s[0], s[1]); err != nil {
			return err
		}
	}
	for _, conf := range [...]string{"all", "default"} {
		for _, s := range [...][2]string{
			{"disable_ipv6", "0"},
			{"forwarding", "0"},
			{"accept_dad", "0"},
			{"accept_ra", "0"},
			{"router_solicitations", "0"},
		} {
			if err := setSysctl("net.ipv6.conf."+conf+"."+s[0], s[1]); err != nil {
				return err
			}
		}
	}
	return nil
}
