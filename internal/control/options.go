package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Options is what a server shows and whom it asks. The functions are called from several goroutines at once.
type Options struct {
	// Socket is the path of the control socket, absolute; see [SocketPath].
	Socket string
	// Listen is the host:port of the HTTP listener, or empty for none.
	Listen string
	// Stats returns the counters; whatever it returns is encoded as JSON. Its error is the answer when they cannot be read.
	Stats func() (any, error)
	// Reload reads the configuration again, all or nothing. Calls do not overlap. The context ends when the caller hangs up or the
	// server stops.
	Reload func(context.Context) (ReloadReply, error)
	// Health returns nil while packets make progress, or what is wrong.
	Health func() error
	// Collector adds weir's metrics to those of the Go runtime and the process. It may be nil.
	Collector prometheus.Collector
	// Log takes what goes wrong while serving. It may be nil.
	Log *slog.Logger
}

// ReloadReply says what a reload changed.
type ReloadReply struct {
	// Changed are the keys that took a new value, in the order of the file.
	Changed []Change `json:"changed"`
}

// Change is one key and its value before and after.
type Change struct {
	// Key is the key's path.
	Key string `json:"key"`
	// Old is the value before.
	Old string `json:"old"`
	// New is the value now.
	New string `json:"new"`
}

// SocketPath is where a weir in the network namespace with this inode keeps its control socket unless told otherwise.
func SocketPath(netns uint64) string { return fmt.Sprintf("%s/%d.sock", RunDir, netns) }

// RunDir is where running weirs keep what others must find.
const RunDir = "/run/weir"

// check fills in what may be left out and refuses the rest.
func (o *Options) check() error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Socket == "" || o.Stats == nil || o.Reload == nil || o.Health == nil {
		return errors.New("control: Socket, Stats, Reload and Health are required")
	}
	return nil
}
