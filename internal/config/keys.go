package config

import (
	"strings"
	"time"
)

// Whether a running weir can take a new value.
const (
	live    = true
	restart = false
)

// field is one key of one Config or Port, bound to where its value is kept.
type field struct {
	// path is relative: to the file, or to the port.
	path string
	live bool
	value
}

// fields are the keys of the file but for ports, in the order they are printed.
func (c *Config) fields() []field {
	p, f, s := &c.Poller, &c.Poller.Feedback, &c.Poller.CPUShare
	return []field{
		{"workers", restart, cpus{&c.Workers}},
		{"poller.mode", restart, choice[PollerMode]{&p.Mode, []PollerMode{ModeHybrid, ModeInterrupt, ModePoll}}},
		{"poller.ownership", restart, choice[Ownership]{&p.Ownership,
			[]Ownership{OwnershipAuto, OwnershipOff, OwnershipSocket, OwnershipUring, OwnershipKthread}}},
		{"poller.quota", live, quota{&p.Quota}},
		{"poller.nice", restart, nice{&p.Nice}},
		{"poller.feedback", live, feedbackSwitch(&f.Off)},
		{"poller.feedback.high", live, highMark(&f.High)},
		{"poller.feedback.low", live, lowMark(&f.Low)},
		{"poller.feedback.timeout", live, feedbackTimeout(&f.Timeout)},
		{"poller.cpu_share.limit", restart, percent{&s.Limit, aboveZero}},
		{"poller.cpu_share.period", restart, duration{&s.Period, time.Millisecond, time.Second}},
		{"poller.cpu_share.strict", restart, boolean{&s.Strict}},
		{"poller.early_discard", restart, choice[EarlyDiscard]{&p.EarlyDiscard, []EarlyDiscard{DiscardXDP, DiscardRing, DiscardOff}}},
		{"umem.frames", restart, frames{&c.UMEM.Frames}},
		{"umem.frame_size", restart, frameSize{&c.UMEM.FrameSize}},
		{"rings.rx", restart, ringSize{&c.Rings.RX}},
		{"rings.tx", restart, ringSize{&c.Rings.TX}},
		{"rings.fill", restart, ringSize{&c.Rings.Fill}},
		{"rings.completion", restart, ringSize{&c.Rings.Completion}},
		{"rings.fill_depth", restart, fillDepth{&c.Rings.FillDepth}},
		{"rings.fill_min", restart, fillDepth{&c.Rings.FillMin}},
		{"rings.backlog", restart, ringSize{&c.Rings.Backlog}},
		{"accept_bypass", restart, boolean{&c.AcceptBypass}},
		{"metrics.listen", restart, listenAddress{&c.Metrics.Listen}},
		{"control.socket", restart, socketPath{&c.Control.Socket}},
	}
}

// The values of feedback, the poller's and a port's. Its switch is the one kind of key that is both a value (off) and a mapping.
func feedbackSwitch(p *bool) value           { return toggle{p} }
func highMark(p *Percent) value              { return percent{p, aboveZero} }
func lowMark(p *Percent) value               { return percent{p, fromZero} }
func feedbackTimeout(p *time.Duration) value { return duration{p, 10 * time.Microsecond, time.Second} }

// fields are the keys of one port but for its name, in the order they are printed.
func (p *Port) fields() []field {
	f := &p.Feedback
	return []field{
		{"mode", restart, choice[PortMode]{&p.Mode, []PortMode{ModeAuto, ModeZeroCopy, ModeCopy, ModeGeneric}}},
		{"quota", live, quota{&p.Quota}},
		{"feedback", live, own[bool]{&f.Off, feedbackSwitch}},
		{"feedback.high", live, own[Percent]{&f.High, highMark}},
		{"feedback.low", live, own[Percent]{&f.Low, lowMark}},
		{"feedback.timeout", live, own[time.Duration]{&f.Timeout, feedbackTimeout}},
		{"backlog", restart, ringSize{&p.Backlog}},
		{"allow_management", restart, boolean{&p.AllowManagement}},
	}
}

// portPath is the key path of a port itself.
func portPath(name string) string { return "ports." + name }

// find is the field with this relative path.
func find(fields []field, path string) (field, bool) {
	for _, f := range fields {
		if f.path == path {
			return f, true
		}
	}
	return field{}, false
}

// switchOf is the switch above a key: poller.feedback of poller.feedback.high. False if there is none.
func switchOf(fields []field, path string) (field, bool) { return find(fields, parentPath(path)) }

// isOff says that the switch above a key is off.
func isOff(fields []field, path string) bool {
	above, ok := switchOf(fields, path)
	return ok && above.String() == "off"
}

// parentPath is the section a key is in; empty at the top.
func parentPath(path string) string {
	return path[:max(strings.LastIndexByte(path, '.'), 0)]
}

// isSection says that path is a mapping with keys below it.
func isSection(fields []field, path string) bool {
	for _, f := range fields {
		if strings.HasPrefix(f.path, path+".") {
			return true
		}
	}
	return false
}

// children are the keys directly below a section, or at the top when section is empty.
func children(fields []field, section string) []string {
	var names []string
	for _, f := range fields {
		rest := f.path
		if section != "" {
			var below bool
			if rest, below = strings.CutPrefix(f.path, section+"."); !below {
				continue
			}
		}
		name, _, _ := strings.Cut(rest, ".")
		if len(names) == 0 || names[len(names)-1] != name {
			names = append(names, name)
		}
	}
	return names
}
