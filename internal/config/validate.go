package config

import (
	"fmt"
	"strconv"
)

// Validate checks the whole: every value by itself, as Parse and Set do, and what only several together can get wrong.
// The error is an [Error] at the first fault, with the key's place in the file when it came from there.
func (c *Config) Validate() error {
	if len(c.Ports) == 0 {
		return &Error{File: c.file, Key: "ports", Cause: "none", Remedy: "name the interfaces under ports, or with --port"}
	}
	r := c.resolved()
	names := map[string]bool{}
	for i := range r.Ports {
		p := &r.Ports[i]
		if err := checkName(p.Name); err != nil {
			return c.invalid(portPath(p.Name), show(p.Name), err.Error(), "")
		}
		if names[p.Name] {
			return c.invalid(portPath(p.Name), p.Name, "is a port already", "name it once")
		}
		names[p.Name] = true
		if err := c.validFields(portPath(p.Name)+".", p.fields()); err != nil {
			return err
		}
	}
	if err := c.validFields("", r.fields()); err != nil {
		return err
	}
	if depth := c.Rings.FillDepth; depth > c.Rings.Fill {
		return c.invalid("rings.fill_depth", strconv.Itoa(depth), fmt.Sprintf("more than rings.fill, %d, holds", c.Rings.Fill),
			"lower it, or make rings.fill larger")
	}
	if least := c.FillMin(); least > c.Rings.FillDepth {
		return c.invalid("rings.fill_min", strconv.Itoa(least), fmt.Sprintf("more than rings.fill_depth, %d", c.Rings.FillDepth),
			"lower it, or make rings.fill_depth larger; equal keeps the depth fixed")
	}
	if o := c.Poller.Ownership; c.Poller.Mode == ModeInterrupt && o != OwnershipAuto && o != OwnershipOff {
		return c.invalid("poller.ownership", string(o), "required, but poller.mode is interrupt, which never owns",
			"set it to auto or off, or poller.mode to hybrid")
	}
	// The poller's first: a port that inherits is not at fault.
	if err := c.validMarks("poller.feedback", c.Poller.Feedback); err != nil {
		return err
	}
	for _, p := range c.Ports {
		if err := c.validMarks(portPath(p.Name)+".feedback", c.PortFeedback(p)); err != nil {
			return err
		}
	}
	return nil
}

// validMarks refuses crossed marks. The key at fault is the low one, and its place that of what the file set of the two.
func (c *Config) validMarks(section string, f Feedback) error {
	if f.Off || f.Low < f.High {
		return nil
	}
	err := &Error{
		Key: section + ".low", Value: percent{p: &f.Low}.String(), Cause: fmt.Sprintf("not below %s.high, %s", section, percent{p: &f.High}),
		Remedy: "input would close and open at once; 75% and 25% are the defaults",
	}
	return c.locate(err, section+".low", section+".high", section)
}

// validFields holds each value against the rules for its text.
func (c *Config) validFields(prefix string, fields []field) error {
	for _, f := range fields {
		if text := f.String(); f.parse(text) != nil {
			return c.invalid(prefix+f.path, show(text), f.parse(text).Error(), "")
		}
	}
	return nil
}

// invalid is an Error at the key's place in the file.
func (c *Config) invalid(key, value, cause, remedy string) error {
	return c.locate(&Error{Key: key, Value: value, Cause: cause, Remedy: remedy}, key)
}

// locate points e at the first of these keys that came from the file, if any did.
func (c *Config) locate(e *Error, keys ...string) error {
	for _, key := range keys {
		if at, ok := c.places[key]; ok {
			e.File, e.Line, e.Column = c.file, at.line, at.column
			break
		}
	}
	return e
}
