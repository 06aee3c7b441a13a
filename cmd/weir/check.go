package main

import (
	"fmt"

	"weir/engine"
)

// checkCommand is `weir check`.
type checkCommand struct {
	settings `embed:""`
}

// Run validates the configuration against this host without changing anything, and prints every key in force.
func (c *checkCommand) Run(out output) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if err := engine.Check(engineConfig(cfg)); err != nil {
		return usageError{err}
	}
	_, err = fmt.Fprintf(out.Out, "%s", cfg.Effective())
	return err
}
