package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"weir/engine"
)

// statsCommand is `weir stats`.
type statsCommand struct {
	target `embed:""`
	JSON   bool `name:"json" help:"Print all counters as JSON."`
}

// Run prints the counters of the running weir.
func (s *statsCommand) Run(ctx context.Context, out output) error {
	client, err := s.dial()
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	raw, err := client.Stats(ctx)
	if err != nil {
		return err
	}
	if s.JSON {
		var indented bytes.Buffer
		if err := json.Indent(&indented, raw, "", "  "); err != nil {
			return fmt.Errorf("statistics from %s: %w", s.Socket, err)
		}
		_, err = fmt.Fprintln(out.Out, indented.String())
		return err
	}
	var st engine.Stats
	if err := json.Unmarshal(raw, &st); err != nil {
		return fmt.Errorf("statistics from %s: %w", s.Socket, err)
	}
	printStats(out.Out, st)
	return nil
}

// printStats prints the balance of packets, the ports and the workers for a person.
func printStats(w io.Writer, st engine.Stats) {
	for _, p := range st.Ports {
		state := "down"
		if p.Up {
			state = "up"
		}
		fmt.Fprintf(w, "port %-12s %s, %s, mode %s (asked %s), MTU %d, queues %d rx %d tx: offered %d, delivered %d\n",
			p.Name, p.Driver, state, p.Mode, p.ModeAsked, p.MTU, p.RxQueues, p.TxQueues, p.Offered, p.Delivered)
	}
	for _, wk := range st.Workers {
		fmt.Fprintf(w, "worker on CPU %d: %d rounds, frames %d free + %d receive + %d transmit + %d held + %d stranded = %d (%s pages)\n",
			wk.CPU, wk.Rounds, wk.Frames.Free, wk.Frames.Receive, wk.Frames.Transmit, wk.Frames.Held, wk.Frames.Stranded,
			wk.Frames.Total, wk.Pages)
	}
	for _, o := range st.Ownership {
		if o.Owned {
			fmt.Fprintf(w, "owned %s queue %d: by %s, %d of %d packets received by the worker's own calls, %d polls of at most twice %d, "+
				"fill depth %d\n", o.Port, o.Queue, o.Means, o.SeenDriven, o.Seen, o.Polls, o.Budget, o.FillDepth)
		}
	}
	if st.Livelock.Now {
		fmt.Fprintf(w, "LIVELOCK: packets come and next to none is finished\n")
	}
	t := st.Totals
	fmt.Fprintf(w, "offered           %12d\n", t.Offered)
	fmt.Fprintf(w, "delivered         %12d\n", t.Delivered)
	fmt.Fprintf(w, "passed to kernel  %12d\n", t.Passed)
	for _, reason := range slices.Sorted(maps.Keys(t.Dropped)) {
		if n := t.Dropped[reason]; n > 0 {
			fmt.Fprintf(w, "dropped           %12d  %s\n", n, reason)
		}
	}
	fmt.Fprintf(w, "in flight         %12d\n", t.InFlight)
	fmt.Fprintf(w, "unaccounted       %12d\n", t.Unaccounted)
	for _, route := range st.Strays {
		fmt.Fprintf(w, "route not followed, its egress is no port: %s\n", route)
	}
	for _, warning := range st.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}
