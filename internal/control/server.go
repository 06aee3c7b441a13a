package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// headerTimeout and readTimeout end a connection that does not finish asking, idleTimeout one that asks no more.
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	idleTimeout   = 30 * time.Second
	// writeTimeout bounds an answer from the end of the request's header: longer than any reload takes.
	writeTimeout = time.Minute
	// maxHeader and maxBody bound a request in bytes. No request of ours has a body.
	maxHeader = 16 << 10
	maxBody   = 64 << 10
	// maxConns bounds connections per listener; more wait in the kernel's backlog.
	maxConns = 64
	// graceTimeout is how long requests may go on after Serve's context ended: weir must be gone within two seconds.
	graceTimeout = time.Second
)

// Server holds the bound listeners. New binds them, Serve answers on them; every way out releases them.
type Server struct {
	log     *slog.Logger
	serving []serving
	addr    string
}

// serving is one listener and what answers on it.
type serving struct {
	listener net.Listener
	http     *http.Server
}

// New binds the control socket and the HTTP listener, so that what is wrong with either is known before anything is forwarded. Nothing
// is answered yet; connections wait. End with Close, or with Serve.
func New(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &Server{log: o.Log}
	public, err := publicHandler(&o)
	if err != nil {
		return nil, err
	}
	sock, err := claim(o.Socket)
	if err != nil {
		return nil, err
	}
	s.add(sock, controlHandler(&o))
	if o.Listen == "" {
		return s, nil
	}
	l, err := net.Listen("tcp", o.Listen)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("listen for metrics on %s: %w: set metrics.listen to an address of this network namespace with a free port, or to off",
			o.Listen, errno(err))
	}
	s.addr = l.Addr().String()
	s.add(l, public)
	return s, nil
}

// add prepares to answer on a listener.
func (s *Server) add(l net.Listener, h http.Handler) {
	s.serving = append(s.serving, serving{limit(l, maxConns), &http.Server{
		Handler:           http.MaxBytesHandler(h, maxBody),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}})
}

// Addr is the address of the HTTP listener with the port that was really bound, or empty when there is none.
func (s *Server) Addr() string { return s.addr }

// Serve answers until ctx ends, gives open requests a second to finish, and releases the listeners. It returns nil when ctx ended it,
// and otherwise why a listener failed. Call it once.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, len(s.serving))
	var running sync.WaitGroup
	for _, sv := range s.serving {
		sv.http.BaseContext = func(net.Listener) context.Context { return ctx }
		running.Go(func() {
			if err := sv.http.Serve(sv.listener); !errors.Is(err, http.ErrServerClosed) {
				failed <- fmt.Errorf("serve on %s: %w", sv.listener.Addr(), err)
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	grace, end := context.WithTimeout(context.Background(), graceTimeout)
	defer end()
	for _, sv := range s.serving {
		running.Go(func() {
			if sv.http.Shutdown(grace) != nil {
				sv.http.Close()
			}
		})
	}
	running.Wait()
	return errors.Join(err, s.Close())
}

// Close releases the listeners without having served. After Serve it does nothing.
func (s *Server) Close() error {
	var errs []error
	for _, sv := range s.serving {
		errs = append(errs, sv.listener.Close())
	}
	return errors.Join(errs...)
}

// Serve is New and Server.Serve in one.
func Serve(ctx context.Context, o Options) error {
	s, err := New(o)
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}
