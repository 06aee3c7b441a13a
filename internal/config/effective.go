package config

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Effective is the configuration as a file that spells out every key, defaults and inherited values included. Parse accepts it.
func (c *Config) Effective() []byte {
	r := c.resolved()
	var b bytes.Buffer
	if len(r.Ports) == 0 {
		b.WriteString("ports: []\n")
	} else {
		b.WriteString("ports:\n")
	}
	for i := range r.Ports {
		p := &r.Ports[i]
		fmt.Fprintf(&b, "  - name: %s\n", quoted(p.Name))
		for _, f := range p.fields() {
			fmt.Fprintf(&b, "    %s: %s\n", f.path, quoted(f.String()))
		}
	}
	var open []string
	for _, f := range r.fields() {
		if f.path == feedbackPath && !r.Poller.Feedback.Off || strings.HasPrefix(f.path, feedbackPath+".") && r.Poller.Feedback.Off {
			continue
		}
		parts := strings.Split(f.path, ".")
		sections := parts[:len(parts)-1]
		for depth, name := range sections {
			if depth >= len(open) || !slices.Equal(open[:depth+1], sections[:depth+1]) {
				fmt.Fprintf(&b, "%s%s:\n", strings.Repeat("  ", depth), name)
			}
		}
		open = sections
		fmt.Fprintf(&b, "%s%s: %s\n", strings.Repeat("  ", len(sections)), parts[len(parts)-1], quoted(f.String()))
	}
	return b.Bytes()
}

var (
	plainText = regexp.MustCompile(`^[A-Za-z0-9/][A-Za-z0-9._:%/-]*$`)
	plainList = regexp.MustCompile(`^\[[0-9, ]+\]$`)
	// notText are words that some readers of YAML take for something other than text.
	notText = regexp.MustCompile(`(?i)^(null|y|n|yes|no|on|true|false)$`)
)

// quoted is text as YAML, with quotes where it could be read as anything else.
func quoted(text string) string {
	switch {
	case plainList.MatchString(text):
		return text
	case text == "true" || text == "false":
		return text
	case plainText.MatchString(text) && !notText.MatchString(text) && !strings.HasSuffix(text, ":"):
		return text
	}
	return strconv.Quote(text)
}
