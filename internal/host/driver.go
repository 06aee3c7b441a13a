package host

import (
	"fmt"

	"github.com/safchain/ethtool"
)

// Driver returns the name of the driver of an interface of the current network namespace (`ethtool -i`), such as veth or virtio_net.
func Driver(name string) (string, error) {
	e, err := ethtool.NewEthtool()
	if err != nil {
		return "", fmt.Errorf("ask for the driver of %s: %w", name, err)
	}
	defer e.Close()
	driver, err := e.DriverName(name)
	if err != nil {
		return "", fmt.Errorf("ask for the driver of %s: %w", name, err)
	}
	return driver, nil
}
