package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"weir/internal/host"
)

// Check says why Start would refuse this configuration on this host, as far as can be known without touching a port: modes, queues and
// memory are the driver's and the kernel's to grant, and only a start asks them.
func Check(c Config) error {
	e := &Engine{config: c}
	if err := e.preflight(); err != nil {
		return err
	}
	if err := e.findPorts(); err != nil {
		return err
	}
	if err := e.watchTable(context.Background()); err != nil {
		return err
	}
	return e.table.Close()
}

// preflight looks at the host before anything is touched.
func (e *Engine) preflight() error {
	if len(e.config.Ports) == 0 {
		return errors.New("ports: none given: name the interfaces to forward between")
	}
	if err := host.Capabilities(); err != nil {
		return err
	}
	if err := e.config.Poller.Validate(); err != nil {
		return err
	}
	usable, err := usableCPUs()
	if err != nil {
		return err
	}
	for _, cpu := range e.config.CPUs {
		if !slices.Contains(usable, cpu) {
			return unusable(cpu, usable)
		}
	}
	return e.refuseBypass()
}

// refuseBypass looks for kernel rules that forwarded packets would no longer meet.
func (e *Engine) refuseBypass() error {
	found, err := host.Bypassed(e.portNames())
	if errors.Is(err, unix.EACCES) { // the list of legacy tables is root's file
		return fmt.Errorf("%w: run as root, or grant CAP_DAC_READ_SEARCH too", err)
	}
	if err != nil || len(found) == 0 {
		return err
	}
	what := "forwarded packets would not meet these kernel rules: " + joinStringers(found)
	if e.config.AcceptBypass {
		e.warnings = append(e.warnings, what)
		return nil
	}
	return fmt.Errorf("%s: remove them, or set accept_bypass: true", what)
}
