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
		writeFields(&b, "    ", p.fields())
	}
	writeFields(&b, "", r.fields())
	return b.Bytes()
}

// writeFields prints keys and the sections they are in. A switch is printed only when it is off, and then alone.
func writeFields(b *bytes.Buffer, indent string, fields []field) {
	var open []string
	for _, f := range fields {
		if isOff(fields, f.path) || isSection(fields, f.path) && f.String() != "off" {
			continue
		}
		parts := strings.Split(f.path, ".")
		sections := parts[:len(parts)-1]
		for depth, name := range sections {
			if depth >= len(open) || !slices.Equal(open[:depth+1], sections[:depth+1]) {
				fmt.Fprintf(b, "%s%s%s:\n", indent, strings.Repeat("  ", depth), name)
			}
		}
		open = sections
		fmt.Fprintf(b, "%s%s%s: %s\n", indent, strings.Repeat("  ", len(sections)), parts[len(parts)-1], quoted(f.String()))
	}
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
