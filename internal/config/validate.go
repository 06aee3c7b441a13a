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
	if least := c.Rings.FillMin; least > c.Rings.FillDepth {
		return c.invalid("rings.fill_min", strconv.Itoa(least), fmt.Sprintf("more than rings.fill_depth, %d", c.Rings.FillDepth),
			"lower it, or make rings.fill_depth larger; equal keeps the depth fixed")
	}
	if f := c.Poller.Feedback; !f.Off && f.Low >= f.High {
		return c.invalid(feedbackPath+".low", percent{p: &f.Low}.String(),
			fmt.Sprintf("not below %s.high, %s", feedbackPath, percent{p: &f.High}), "input would close and open at once; 75% and 25% are the defaults")
	}
	return nil
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

// invalid is an Error at the key's place in the file, or at that of its section.
func (c *Config) invalid(key, value, cause, remedy string) error {
	e := &Error{Key: key, Value: value, Cause: cause, Remedy: remedy}
	if at, ok := c.places[key]; ok {
		e.File, e.Line, e.Column = c.file, at.line, at.column
	}
	return e
}
