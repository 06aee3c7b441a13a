package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"weir/engine"
	"weir/internal/config"
	"weir/internal/control"
)

// runCommand is `weir run`.
type runCommand struct {
	settings `embed:""`
}

// Run forwards until ctx ends or the engine fails. What would keep it from running is looked for before a port is touched.
func (r *runCommand) Run(ctx context.Context, out output) error {
	// From the first line on: a reload that comes while weir starts must not end it.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	cfg, err := r.load()
	if err != nil {
		return err
	}
	s := &service{settings: r.settings, config: cfg, log: slog.New(slog.NewTextHandler(out.Err, nil))}
	refused := engine.Check(engineConfig(cfg))
	if refused != nil && !errors.Is(refused, unix.EBUSY) {
		return refused
	}
	// A program on a port may be another weir's: then the control socket says whose, and that is the better answer.
	server, err := s.listen()
	if err != nil {
		return err
	}
	if refused != nil {
		return errors.Join(refused, server.Close())
	}
	if s.engine, err = engine.Start(ctx, engineConfig(cfg)); err != nil {
		return errors.Join(err, server.Close())
	}
	if words := r.leftOut(cfg); len(words) > 0 {
		s.log.Warn("mechanisms left out: this is for measuring", "without", strings.Join(words, ","), "mode", cfg.Poller.Mode)
	}
	if err := s.engine.LeaveWorkers(); err != nil {
		s.log.Warn("workers share their CPUs with the rest of weir", "error", err)
	}
	return errors.Join(s.serve(ctx, out.Out, server, hangups), s.engine.Close())
}

// service is a running weir: the engine and what is served about it.
type service struct {
	settings settings
	engine   *engine.Engine // set before anything is served
	socket   string         // the control socket's path
	log      *slog.Logger

	mu     sync.Mutex // serialises reloads
	config *config.Config
}

// listen binds the control socket and the HTTP listener; serve answers on them.
func (s *service) listen() (_ *control.Server, err error) {
	if s.socket, err = socketPath(s.config.Control.Socket); err != nil {
		return nil, err
	}
	stats := func() (engine.Stats, error) { return s.engine.Stats() }
	return control.New(control.Options{
		Socket: s.socket, Listen: s.config.Metrics.Listen,
		Stats:     func() (any, error) { return stats() },
		Reload:    func(context.Context) (control.ReloadReply, error) { return s.reload() },
		Health:    func() error { return s.engine.Healthy() },
		Collector: newCollector(stats),
		Log:       s.log,
	})
}

func (s *service) serve(ctx context.Context, out io.Writer, server *control.Server, hangups <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx) }()
	s.announce(out, server.Addr())

	for {
		select {
		case <-ctx.Done():
			return <-served
		case err := <-s.engine.Failed():
			cancel()
			return errors.Join(err, <-served)
		case err := <-served:
			return err
		case event := <-s.engine.Events():
			s.log.Warn(event)
		case <-hangups:
			if _, err := s.reload(); err != nil {
				s.log.Error("reload refused, nothing changed", "error", err)
			}
		}
	}
}

// announce says what was granted, once, so that nobody has to guess.
func (s *service) announce(out io.Writer, metrics string) {
	st, err := s.engine.Stats()
	if err != nil {
		s.log.Error("read statistics", "error", err)
		return
	}
	for _, p := range st.Ports {
		s.log.Info("port", "name", p.Name, "driver", p.Driver, "mode", p.Mode, "asked", p.ModeAsked,
			"rx_queues", p.RxQueues, "tx_queues", p.TxQueues, "tx_budget", p.TxBudget)
	}
	for _, w := range st.Workers {
		s.log.Info("worker", "cpu", w.CPU, "frames", w.Frames.Total, "pages", w.Pages)
	}
	if len(st.Ownership) > 0 {
		granted := "none"
		if asked := st.Ownership[0].Asked; asked != engine.OwnershipOff.String() {
			granted = "shows in weir stats once it is learned, under load"
		}
		s.log.Info("receive work", "ownership_asked", st.Ownership[0].Asked, "granted", granted)
	}
	for _, warning := range st.Warnings {
		s.log.Warn(warning)
	}
	for _, route := range st.Strays {
		s.log.Warn("route not followed: its egress is no port", "route", route)
	}
	fmt.Fprintf(out, "forwarding; control socket %s, metrics %s\n", s.socket, orNone(metrics))
}

func orNone(s string) string {
	if s == "" {
		return "off"
	}
	return s
}

// orAbsent is a value as a person reads it; that of a port that came or went is empty on one side.
func orAbsent(value string) string {
	if value == "" {
		return "absent"
	}
	return value
}

// reload reads the configuration again and applies it whole, or changes nothing and says why.
func (s *service) reload() (control.ReloadReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh, err := s.settings.load()
	if err != nil {
		return control.ReloadReply{}, err
	}
	reply := control.ReloadReply{}
	for _, change := range config.Diff(s.config, fresh) {
		if !change.Live {
			return control.ReloadReply{}, fmt.Errorf("%s: %s -> %s: takes effect only at a restart: nothing was changed; "+
				"restart weir, or set the key back", change.Key, orAbsent(change.Old), orAbsent(change.New))
		}
		reply.Changed = append(reply.Changed, control.Change{Key: change.Key, Old: change.Old, New: change.New})
	}
	if err := s.engine.Reconfigure(engineConfig(fresh)); err != nil {
		return control.ReloadReply{}, err
	}
	s.config = fresh
	for _, c := range reply.Changed {
		s.log.Info("reload", "key", c.Key, "old", c.Old, "new", c.New)
	}
	return reply, nil
}
