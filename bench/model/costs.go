package model

import "fmt"

// Costs are what a packet and a round cost on one core, in nanoseconds.
type Costs struct {
	Measured []Item `json:"measured"`
	Assumed  []Item `json:"assumed"`

	Receive  float64 `json:"receive_ns"`  // driver, program, redirect to the receive ring
	Door     float64 `json:"door_ns"`     // the same up to a drop in the program
	Forward  float64 `json:"forward_ns"`  // worker: ring, decision, ring
	Transmit float64 `json:"transmit_ns"` // driver and completion
	Kick     float64 `json:"kick_ns"`     // one system call: to drive receive, to start transmit
}

// Item is one ingredient.
type Item struct {
	Name string  `json:"name"`
	NS   float64 `json:"ns"`
	How  string  `json:"how"`
}

// Mode is how frames pass between device and socket.
type Mode string

const (
	ZeroCopy Mode = "zerocopy" // the device reads and writes the frames itself
	Copy     Mode = "copy"     // the kernel copies and allocates a buffer for each packet
)

// Measure measures what can be measured here without a device and without
// privilege, in about a second, and composes the costs of a packet from it.
func Measure(mode Mode, frame int) (Costs, error) {
	decide, err := measureDecision()
	if err != nil {
		return Costs{}, err
	}
	measured := []Item{
		{"system call", measureCall(), "getppid in a loop"},
		{"cold line", measureColdLine(), "a chain of dependent reads, each of a line of its own, over 64 MB"},
		{"decision", decide, "verify header, look up in 100,000 routes, rewrite; frames in cache"},
		{"copy", measureCopy(frame), fmt.Sprintf("copy %d B", frame)},
	}
	assumed := []Item{
		{"descriptor", 12, "write and read one ring entry, shared index once per batch"},
		{"program", 25, "the receive program, without the first read of the frame"},
		{"buffer", 250, "copy mode: allocate, fill and free a kernel buffer"},
	}
	return compose(mode, measured, assumed), nil
}

// compose adds up the ingredients, which are Measure's in its order.
func compose(mode Mode, measured, assumed []Item) Costs {
	call, cold, decide, copied := measured[0].NS, measured[1].NS, measured[2].NS, measured[3].NS
	descriptor, program, buffer := assumed[0].NS, assumed[1].NS, assumed[2].NS
	c := Costs{
		Measured: measured, Assumed: assumed,
		Receive:  descriptor + cold + program + descriptor,
		Door:     descriptor + cold + program,
		Forward:  descriptor + decide + descriptor,
		Transmit: descriptor + descriptor,
		Kick:     call,
	}
	if mode == Copy {
		c.Receive += buffer + copied
		c.Door += buffer
		c.Transmit += buffer + copied
	}
	return c
}
