package main

import (
	"errors"
	"slices"

	"weir/internal/config"
)

// mechanisms are the flags that leave out what keeps weir from livelock, so that its effect can be measured.
type mechanisms struct {
	Mechanisms string   `enum:"on,off" default:"on" placeholder:"on|off" help:"off: leave out all that --without can name, and poll without end (poller.mode=poll), as a plain AF_XDP loop does."`
	Without    []string `enum:"feedback,share,quota,discard,ownership" placeholder:"WORD" help:"Leave out feedback (of every port), share (no CPU limit), quota (inf, of every port), discard (the door stays open) or ownership. --set and --quota win over this and --mechanisms."`
}

// mechanism is one of them: the word for --without, and what leaves it out.
type mechanism struct{ word, assignment string }

var allMechanisms = []mechanism{
	{"feedback", "poller.feedback=off"},
	{"share", "poller.cpu_share.limit=100%"},
	{"quota", "poller.quota=inf"},
	{"discard", "poller.early_discard=off"},
	{"ownership", "poller.ownership=off"},
}

// apply leaves out what the flags name, whatever the file says.
func (m mechanisms) apply(c *config.Config) error {
	off := m.Mechanisms == "off"
	var errs []error
	if off {
		errs = append(errs, c.Set("poller.mode=poll"))
	}
	for _, mech := range allMechanisms {
		if !off && !slices.Contains(m.Without, mech.word) {
			continue
		}
		errs = append(errs, c.Set(mech.assignment))
		for i := range c.Ports {
			switch p := &c.Ports[i]; mech.word {
			case "quota":
				p.Quota = config.QuotaInherit
			case "feedback":
				// The marks stay, for a --set that wins.
				if off := p.Feedback.Off; off != nil && !*off {
					p.Feedback.Off = nil
				}
			}
		}
	}
	return errors.Join(errs...)
}

// leftOut are the words of what the flags name and is out in c, the configuration in force: --set and --quota may have won.
func (m mechanisms) leftOut(c *config.Config) []string {
	var words []string
	for _, mech := range allMechanisms {
		if m.Mechanisms != "off" && !slices.Contains(m.Without, mech.word) {
			continue
		}
		out := c.Clone()
		if err := out.Set(mech.assignment); err == nil && len(config.Diff(c, out)) == 0 {
			words = append(words, mech.word)
		}
	}
	return words
}
