package main

import (
	"errors"
	"fmt"
	"strings"

	"weir/engine"
	"weir/internal/config"
	"weir/internal/control"
	"weir/poller"
)

// settings are the flags that say what to forward, shared by run and check.
type settings struct {
	Config string   `short:"c" placeholder:"FILE" help:"Configuration file (YAML)."`
	Port   []string `placeholder:"NAME" help:"Forward on this interface; repeat for each. Added to the file's ports."`
	CPUs   []int    `name:"cpus" placeholder:"CPU" help:"CPU of each worker; the same as --set workers=…"`
	Quota  string   `placeholder:"N" help:"Packets per turn; the same as --set poller.quota=…"`
	Set    []string `placeholder:"KEY=VALUE" sep:"none" help:"Set any key of the file, for example poller.cpu_share.limit=50%; repeat for more."`

	mechanisms `embed:""`
}

// load reads the file, if any, lays the flags over it and validates the whole. Every error is the caller's.
func (s settings) load() (*config.Config, error) {
	c, err := s.merge()
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

func (s settings) merge() (*config.Config, error) {
	c := config.Default()
	if s.Config != "" {
		loaded, err := config.Load(s.Config)
		if err != nil {
			return nil, err
		}
		c = loaded
	}
	for _, name := range s.Port {
		c.Ports = append(c.Ports, config.Port{Name: name, Mode: config.ModeAuto})
	}
	errs := []error{s.mechanisms.apply(c)}
	if len(s.CPUs) > 0 {
		errs = append(errs, c.Set("workers="+strings.ReplaceAll(strings.Trim(fmt.Sprint(s.CPUs), "[]"), " ", ",")))
	}
	if s.Quota != "" {
		errs = append(errs, c.Set("poller.quota="+s.Quota))
	}
	for _, assignment := range s.Set {
		errs = append(errs, c.Set(assignment))
	}
	return c, errors.Join(errs...)
}

// engineConfig translates the file's terms into the engine's, which knows no YAML.
func engineConfig(c *config.Config) engine.Config {
	out := engine.Config{
		CPUs:       c.Workers,
		WorkerNice: c.Poller.Nice,
		Poller:     pollerConfig(c.Poller),
		Feedback:   engineFeedback(c.Poller.Feedback),
		EarlyDiscard: map[config.EarlyDiscard]engine.EarlyDiscard{
			config.DiscardXDP: engine.DiscardXDP, config.DiscardRing: engine.DiscardRing, config.DiscardOff: engine.DiscardOff,
		}[c.Poller.EarlyDiscard],
		Ownership: map[config.Ownership]engine.Ownership{
			config.OwnershipAuto: engine.OwnershipAuto, config.OwnershipOff: engine.OwnershipOff, config.OwnershipSocket: engine.OwnershipSocket,
			config.OwnershipUring: engine.OwnershipUring, config.OwnershipKthread: engine.OwnershipKthread,
		}[c.Poller.Ownership],
		UMEM: engine.UMEMConfig{NumFrames: c.UMEM.Frames, FrameSize: c.UMEM.FrameSize},
		Rings: engine.Rings{
			RX: c.Rings.RX, TX: c.Rings.TX, Fill: c.Rings.Fill, Completion: c.Rings.Completion,
			FillDepth: c.Rings.FillDepth, FillMin: c.FillMin(), Backlog: c.Rings.Backlog,
		},
		RunDir:       control.RunDir,
		AcceptBypass: c.AcceptBypass,
	}
	for _, p := range c.Ports {
		var own *engine.Feedback
		if p.Feedback != (config.OwnFeedback{}) {
			own = new(engineFeedback(c.PortFeedback(p)))
		}
		out.Ports = append(out.Ports, engine.PortConfig{
			Name: p.Name, Quota: pollerQuota(p.Quota), Feedback: own, Backlog: p.Backlog, AllowManagement: p.AllowManagement,
			Mode: map[config.PortMode]engine.Mode{
				config.ModeAuto: engine.ModeAuto, config.ModeZeroCopy: engine.ModeZeroCopy,
				config.ModeCopy: engine.ModeCopy, config.ModeGeneric: engine.ModeGeneric,
			}[p.Mode],
		})
	}
	return out
}

func engineFeedback(f config.Feedback) engine.Feedback {
	return engine.Feedback{Off: f.Off, High: f.High.Fraction(), Low: f.Low.Fraction(), Timeout: f.Timeout}
}

func pollerConfig(c config.Poller) poller.Config {
	p := poller.Default()
	p.Mode = map[config.PollerMode]poller.Mode{
		config.ModeHybrid: poller.Hybrid, config.ModeInterrupt: poller.Interrupt, config.ModePoll: poller.Poll,
	}[c.Mode]
	p.Quota = pollerQuota(c.Quota)
	// With turns as long as ours one that leaves packets behind is backlog enough: what is lent for receiving holds two or three.
	p.Own.Backlog = 1
	p.Own.Gather = 16
	p.Share = poller.Share{Limit: float64(c.CPUShare.Limit), Period: c.CPUShare.Period, Strict: c.CPUShare.Strict}
	return p
}

func pollerQuota(q config.Quota) poller.Quota {
	switch q {
	case config.QuotaInherit:
		return poller.Common
	case config.QuotaAuto:
		return poller.Auto
	case config.QuotaInf:
		return poller.Unlimited
	}
	return poller.Quota(q)
}
