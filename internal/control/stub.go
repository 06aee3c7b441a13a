package control

import (
	"context"
	"encoding/json"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
)

// Options is what a weir serves about itself.
type Options struct {
	// Socket is the path of the control socket; see SocketPath.
	Socket string
	// Listen is the address of the HTTP listener, or empty for none.
	Listen string
	// Stats returns what `weir stats --json` prints; it is encoded as JSON.
	Stats func() any
	// Reload reads the configuration again, all or nothing.
	Reload func(context.Context) (ReloadReply, error)
	// Health returns nil while the data path makes progress.
	Health func() error
	// Collector is gathered at /metrics.
	Collector prometheus.Collector
	// Log takes what servers have to say; nil discards it.
	Log *slog.Logger
}

// ReloadReply says what a reload changed.
type ReloadReply struct {
	Changed []Change `json:"changed"`
}

// Change is one key that took a new value.
type Change struct {
	Key string `json:"key"`
	Old string `json:"old"`
	New string `json:"new"`
}

// Server holds the bound listeners.
type Server struct{}

// New binds the control socket and the HTTP listener.
func New(Options) (*Server, error) { return &Server{}, nil }

// Addr is the address of the HTTP listener, empty when there is none.
func (*Server) Addr() string { return "" }

// Serve answers until ctx is done.
func (*Server) Serve(ctx context.Context) error { return nil }

// Close releases the listeners of a server that Serve was never called on.
func (*Server) Close() error { return nil }

// Serve binds and answers until ctx is done: New and Server.Serve in one.
func Serve(ctx context.Context, o Options) error { return nil }

// SocketPath is the control socket of the network namespace with this inode.
func SocketPath(netns uint64) string { return "" }

// Client talks to a running weir.
type Client struct{}

// Dial looks for the weir behind a control socket.
func Dial(socket string) (*Client, error) { return &Client{}, nil }

// Stats returns the counters as JSON.
func (*Client) Stats(ctx context.Context) (json.RawMessage, error) { return nil, nil }

// Reload asks for a reload and returns its answer.
func (*Client) Reload(ctx context.Context) (ReloadReply, error) { return ReloadReply{}, nil }

// Close releases the client.
func (*Client) Close() error { return nil }
