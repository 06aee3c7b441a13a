package vmtest

import "golang.org/x/sys/unix"

// The two ends speak gob over the agent's serial port: requests one way, reports the other. A process is named by a number that the
// host chose. Every start is followed by any number of outputs and ends with one exit, also when nothing could be started.

// request is what the host asks of the guest: a start when Argv is set, otherwise a signal.
type request struct {
	Process uint64
	Argv    []string // start: the program, looked up in PATH, and its arguments
	Env     []string // start: added to the agent's
	Stdin   []byte   // start: all of its standard input
	Signal  unix.Signal
}

// report is what the guest says: output when Data is set, otherwise that the process has ended; process 0 is the agent itself.
type report struct {
	Process uint64
	Stderr  bool   // output: of which of the two
	Data    []byte // output
	Code    int    // exit: the exit code, or 128 and the number of the signal
	Err     string // exit: why there never was a process
	Release string // of process 0: the running kernel's
}
