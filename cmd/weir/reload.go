package main

import (
	"context"
	"fmt"
	"time"

	"weir/internal/control"
	"weir/internal/host"
)

// target says which weir a command talks to.
type target struct {
	Socket string `placeholder:"PATH" help:"Control socket of the weir to talk to; the one of this network namespace if not given."`
}

func (t target) dial() (*control.Client, error) {
	path, err := socketPath(t.Socket)
	if err != nil {
		return nil, err
	}
	return control.Dial(path)
}

// socketPath is the control socket asked for, or that of this network namespace.
func socketPath(asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	inode, err := host.NetnsInode()
	if err != nil {
		return "", err
	}
	return control.SocketPath(inode), nil
}

// reloadCommand is `weir reload`.
type reloadCommand struct {
	target `embed:""`
}

// Run asks the running weir to reload, and prints what changed.
func (r *reloadCommand) Run(ctx context.Context, out output) error {
	client, err := r.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	reply, err := client.Reload(ctx)
	if err != nil {
		return err
	}
	for _, c := range reply.Changed {
		fmt.Fprintf(out.Out, "%s: %s -> %s\n", c.Key, c.Old, c.New)
	}
	if len(reply.Changed) == 0 {
		fmt.Fprintln(out.Out, "nothing changed")
	}
	return nil
}
