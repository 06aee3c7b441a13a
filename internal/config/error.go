package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Error is one fault of a configuration, printed as one line:
//
//	weir.yaml:7:3: poller.quota: 0: must be at least 1 packet, or auto, or inf
//
// Fields that do not apply are empty, and Line is zero for a value that did not come from a file.
type Error struct {
	// File is the file's name as given to Parse or Load.
	File string
	// Line and Column point at the key, both counted from one.
	Line, Column int
	// Key is the key's path, as Set takes it.
	Key string
	// Value is the refused value, quoted if it would be unclear otherwise.
	Value string
	// Cause says what is wrong, or what the value must be.
	Cause string
	// Remedy says what to do when Cause does not.
	Remedy string
}

// Error is the fault in one line.
func (e *Error) Error() string {
	var parts []string
	switch {
	case e.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column))
	case e.File != "":
		parts = append(parts, e.File)
	}
	for _, s := range []string{e.Key, e.Value, e.Cause, e.Remedy} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// show is text as an error shows it: on one line, visible, not too long.
func show(text string) string {
	const most = 64
	cut := false
	if r := []rune(text); len(r) > most {
		text, cut = string(r[:most]), true
	}
	unclear := text == "" || strings.TrimSpace(text) != text ||
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar })
	if unclear {
		text = strconv.Quote(text)
	}
	if cut {
		text += "…"
	}
	return text
}
