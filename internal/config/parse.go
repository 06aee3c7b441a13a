package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxFile bounds the file: one that spells out every key of two hundred ports is 32 KiB. The parser's time grows with the square of nesting, so a
// larger file of the wrong kind could keep it busy for minutes.
const maxFile = 64 << 10

// Load reads a file and parses it as [Parse] does. A file that cannot be read is an [Error] too.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, unreadable(path, err)
	}
	return Parse(path, data)
}

// unreadable is the error for a file that could not be opened or read.
func unreadable(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &Error{File: path, Cause: err.Error(), Remedy: "name a readable file"}
}

// Parse reads a configuration file's contents over the defaults; name is what errors call the file. It checks each key by itself;
// what concerns several keys, or is still to come from the command line, is left to [Config.Validate].
// The error is an [Error] at the first fault.
func Parse(name string, data []byte) (*Config, error) {
	root, err := document(name, data)
	if err != nil {
		return nil, err
	}
	c := Default()
	c.file, c.places = name, map[string]place{}
	d := decoder{c}
	// Ports first: their names are part of their keys' paths.
	for _, kv := range root {
		if keyText(kv) == "ports" {
			if err := d.ports(kv); err != nil {
				return nil, err
			}
		}
	}
	if err := d.mapping(root, "", "", c.fields()); err != nil {
		return nil, err
	}
	return c, nil
}

// document is the top mapping of the only document.
func document(name string, data []byte) ([]*ast.MappingValueNode, error) {
	if len(data) > maxFile {
		return nil, &Error{File: name, Cause: fmt.Sprintf("larger than %d bytes", maxFile), Remedy: "is this the right file?"}
	}
	// Repeated keys are refused by the decoder, which can name their paths.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxError(name, err)
	}
	const remedy = "start from the output of weir check"
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, &Error{File: name, Line: 1, Column: 1, Cause: "empty", Remedy: remedy}
	}
	if len(file.Docs) > 1 {
		return nil, &Error{File: name, Cause: "more than one document", Remedy: "remove what follows the second ---"}
	}
	root, ok := pairs(file.Docs[0].Body)
	if !ok {
		at := position(file.Docs[0].Body)
		return nil, &Error{File: name, Line: at.line, Column: at.column, Cause: "not a mapping of keys to values", Remedy: remedy}
	}
	return root, nil
}

// syntaxError is what the YAML parser says, in one line.
func syntaxError(name string, err error) error {
	var ye yaml.Error
	if !errors.As(err, &ye) {
		return &Error{File: name, Cause: firstLine(err.Error())}
	}
	at := tokenPlace(ye.GetToken())
	return &Error{File: name, Line: at.line, Column: at.column, Cause: firstLine(ye.GetMessage())}
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// decoder carries the nodes of a file into a Config.
type decoder struct{ *Config }

// ports adds a port for each item of the list and reads its keys.
func (d decoder) ports(kv *ast.MappingValueNode) error {
	list, ok := kv.Value.(*ast.SequenceNode)
	if !ok {
		return d.fault(position(kv.Key), "ports", "", "must be a list such as [{name: eth1}, {name: eth2}]")
	}
	for i, item := range list.Values {
		at, key := position(item), fmt.Sprintf("ports[%d]", i)
		keys, ok := pairs(item)
		if !ok {
			return d.fault(at, key, "", "must be a mapping with a name")
		}
		name := ""
		for _, kv := range keys {
			if keyText(kv) == "name" {
				at = position(kv.Key)
				name, _ = scalar(kv.Value)
			}
		}
		if name == "" {
			return d.fault(at, key+".name", "", "must name an interface")
		}
		if err := d.AddPort(name); err != nil {
			var e *Error
			if errors.As(err, &e) {
				e.File, e.Line, e.Column = d.file, at.line, at.column
			}
			return err
		}
		path := portPath(name)
		d.places[path] = at
		if err := d.mapping(keys, path+".", "", d.port(name).fields()); err != nil {
			return err
		}
	}
	return nil
}

// mapping reads the keys of one section. shown stands before relative paths in errors: "ports.in0." or nothing.
func (d decoder) mapping(keys []*ast.MappingValueNode, shown, section string, fields []field) error {
	seen := map[string]bool{}
	for _, kv := range keys {
		name, at := keyText(kv), position(kv.Key)
		path := name
		if section != "" {
			path = section + "." + name
		}
		if seen[name] {
			return d.fault(at, shown+path, "", "given twice: keep one")
		}
		seen[name] = true
		if section == "" && (shown == "" && name == "ports" || shown != "" && name == "name") {
			continue
		}
		f, leaf := find(fields, path)
		sub := isSection(fields, path)
		if strings.Contains(name, ".") || !leaf && !sub {
			known := children(fields, section)
			if section == "" && shown == "" {
				known = append([]string{"ports"}, known...)
			} else if section == "" {
				known = append([]string{"name"}, known...)
			}
			return d.fault(at, shown+path, "", "unknown key: known here are "+strings.Join(known, ", "))
		}
		below, isMapping := pairs(kv.Value)
		switch {
		case isMapping && sub:
			if leaf {
				// A mapping under a switch turns it on, whatever the defaults are.
				if err := f.parse("on"); err != nil {
					return d.fault(at, shown+path, "", err.Error())
				}
			}
			d.places[shown+path] = at
			if err := d.mapping(below, shown, path, fields); err != nil {
				return err
			}
		case leaf:
			text, err := scalar(kv.Value)
			if err == nil {
				err = f.parse(text)
			}
			if err != nil {
				return d.fault(at, shown+path, text, err.Error())
			}
			d.places[shown+path] = at
		default:
			return d.fault(at, shown+path, "", "must be a mapping of "+strings.Join(children(fields, path), ", "))
		}
	}
	return nil
}

func (d decoder) fault(at place, key, value, cause string) error {
	if value != "" {
		value = show(value)
	}
	return &Error{File: d.file, Line: at.line, Column: at.column, Key: key, Value: value, Cause: cause}
}

// scalar is the text of a single value, or of a list of them in the form [a, b].
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", errors.New("has no value: give one, or remove the key")
	case *ast.SequenceNode:
		items := make([]string, len(n.Values))
		for i, item := range n.Values {
			if _, nested := item.(*ast.SequenceNode); nested {
				return "", errors.New("must not be a list of lists")
			}
			text, err := scalar(item)
			if err != nil {
				return "", err
			}
			items[i] = text
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode:
		return "", errors.New("anchors, aliases and tags are not supported: write the value out")
	case *ast.LiteralNode:
		return "", errors.New("must be on one line")
	case ast.ScalarNode:
		return n.GetToken().Value, nil
	}
	return "", errors.New("must be a single value, not a mapping")
}

// pairs are the keys and values of a mapping.
func pairs(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// keyText is a key without its quotes.
func keyText(kv *ast.MappingValueNode) string { return kv.Key.GetToken().Value }

// position is where a node begins: at its first key if it is a mapping.
func position(n ast.Node) place {
	if keys, ok := pairs(n); ok && len(keys) > 0 {
		n = keys[0].Key
	}
	return tokenPlace(n.GetToken())
}

func tokenPlace(t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{1, 1}
	}
	return place{t.Position.Line, t.Position.Column}
}
