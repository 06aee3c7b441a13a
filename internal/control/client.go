package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// ErrNotRunning is the cause when nobody listens on a control socket.
var ErrNotRunning = errors.New("no weir is running in this network namespace")

const (
	// dialTimeout is long for a local connection; it ends a wait for a weir that is stopped.
	dialTimeout = 2 * time.Second
	// maxAnswer bounds an answer in bytes: some 10,000 ports.
	maxAnswer = 64 << 20
)

// Client asks a running weir. Its methods may be called from several goroutines at once.
type Client struct {
	http *http.Client
}

// Dial finds the weir behind a control socket. The error is [ErrNotRunning] when there is none.
func Dial(socket string) (*Client, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout}
		c, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return nil, dialError(socket, err)
		}
		return c, nil
	}
	c, err := dial(context.Background(), "", "")
	if err != nil {
		return nil, err
	}
	c.Close()
	return &Client{&http.Client{
		Transport: &http.Transport{DialContext: dial, DisableCompression: true},
		Timeout:   writeTimeout,
	}}, nil
}

// dialError says what a failed connection means.
func dialError(socket string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("connect to %s: %w (%w): start one, or name its control socket", socket, ErrNotRunning, errno(err))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("connect to %s: %w: run as the user that weir runs as", socket, errno(err))
	}
	return fmt.Errorf("connect to %s: %w", socket, errno(err))
}

// Stats returns the counters as JSON.
func (c *Client) Stats(ctx context.Context) (json.RawMessage, error) {
	body, err := c.ask(ctx, http.MethodGet, "stats")
	return body, err
}

// Reload makes weir read its configuration again and says what changed. An error means that nothing did.
func (c *Client) Reload(ctx context.Context) (ReloadReply, error) {
	var answer ReloadReply
	body, err := c.ask(ctx, http.MethodPost, "reload")
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return answer, fmt.Errorf("reload: answer is not understood: %w: use the weir command of the version that runs", err)
	}
	return answer, nil
}

// ask sends one request and returns the body of a good answer.
func (c *Client) ask(ctx context.Context, method, what string) ([]byte, error) {
	// The host is not looked up: every connection goes to the socket.
	req, err := http.NewRequestWithContext(ctx, method, "http://weir/"+what, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		// The wrapping only adds a URL that does not exist.
		return nil, fmt.Errorf("%s: %w", what, errors.Unwrap(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: read answer: %w", what, err)
	case len(body) > maxAnswer:
		return nil, fmt.Errorf("%s: answer larger than %d bytes", what, maxAnswer)
	case resp.StatusCode == http.StatusOK:
		return body, nil
	}
	var f failure
	if json.Unmarshal(body, &f) == nil && f.Error != "" {
		return nil, fmt.Errorf("%s: %s", what, f.Error)
	}
	return nil, fmt.Errorf("%s: %s (%s): use the weir command of the version that runs", what, resp.Status, strings.TrimSpace(string(body)))
}

// Close ends idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}
