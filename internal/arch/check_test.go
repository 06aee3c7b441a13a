package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// checker gathers faults of one module.
type checker struct {
	fset   *token.FileSet
	faults []string
	// packages are by directory.
	packages map[string]*pkg
}

// pkg is one package: its first file, and whether it has a package comment where it belongs.
type pkg struct {
	first      string
	documented bool
}

// check reads every Go file below root and returns the faults, sorted, and how many files there were. What does not parse is an error.
func check(root string) (faults []string, files int, err error) {
	c := &checker{fset: token.NewFileSet(), packages: map[string]*pkg{}}
	strays := map[string]bool{}
	err = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (name == "testdata" || name[0] == '.' || name[0] == '_') {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		files++
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		r := roomOf(path.Dir(rel))
		if r == nil {
			if dir := path.Dir(rel); !strays[dir] {
				strays[dir] = true
				c.faults = append(c.faults, dir+": in no room: add it to the table of rooms with what it may import")
			}
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return c.file(r, rel, text)
	})
	for dir, p := range c.packages {
		if !p.documented {
			c.faults = append(c.faults, fmt.Sprintf("%s:1: package %s has no doc.go", p.first, path.Base(dir)))
		}
	}
	slices.Sort(c.faults)
	return c.faults, files, err
}

// roomOf is the innermost room a directory is in.
func roomOf(dir string) *room {
	var found *room
	for i, r := range rooms {
		if below(dir, r.dir) && (found == nil || len(r.dir) > len(found.dir)) {
			found = &rooms[i]
		}
	}
	return found
}

// below tells whether a slash-separated path is prefix, or begins with it.
func below(p, prefix string) bool { return p == prefix || strings.HasPrefix(p, prefix+"/") }

// anyBelow tells whether a path is below any of these.
func anyBelow(p string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return below(p, prefix) })
}

// file checks one file.
func (c *checker) file(r *room, name string, text []byte) error {
	f, err := parser.ParseFile(c.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if r.anchor {
		return nil
	}
	test := strings.HasSuffix(name, "_test.go")
	for _, spec := range f.Imports {
		c.importSpec(r, name, test, spec)
	}
	if slices.Contains(clockless, r.dir) && !test {
		c.clockless(r, f)
	}
	if ast.IsGenerated(f) {
		return nil
	}
	most := maxLines
	if test {
		most = maxTestLines
	}
	if lines := bytes.Count(text, []byte("\n")); lines > most {
		c.faults = append(c.faults, fmt.Sprintf("%s: %d lines, more than %d: one concept in a file", name, lines, most))
	}
	if test {
		return nil
	}
	c.packageDoc(name, f)
	if f.Name.Name != "main" {
		c.exported(r, f)
	}
	return nil
}

// at adds a fault at a place.
func (c *checker) at(pos token.Pos, format string, args ...any) {
	p := c.fset.Position(pos)
	c.faults = append(c.faults, fmt.Sprintf("%s:%d: ", p.Filename, p.Line)+fmt.Sprintf(format, args...))
}

// importSpec checks one import.
func (c *checker) importSpec(r *room, name string, test bool, spec *ast.ImportSpec) {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return // the parser has seen to it
	}
	pos := spec.Pos()
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".go"), "_test")
	switch {
	case imported == "C":
		c.at(pos, "imports C: weir is built without cgo")
	case imported == "unsafe" && !strings.HasSuffix(base, "_unsafe"):
		c.at(pos, "imports unsafe: only files named *_unsafe.go may")
	}
	if inner, ok := strings.CutPrefix(imported, "weir/"); ok {
		allowed := roomOf(inner) == r || anyBelow(inner, r.may) || test && anyBelow(inner, testsMay)
		if !allowed {
			c.at(pos, "room %s imports %s: not among what it may import", r.dir, imported)
		}
		return
	}
	if test {
		return
	}
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case anyBelow(imported, r.never):
		c.at(pos, "room %s imports %s: never here", r.dir, imported)
	case anyBelow(imported, onlyTests):
		c.at(pos, "room %s imports %s: only in tests", r.dir, imported)
	case r.stdOnly && strings.Contains(first, "."):
		c.at(pos, "room %s imports %s: only the standard library here", r.dir, imported)
	}
}

// clockless looks for clocks and goroutines.
func (c *checker) clockless(r *room, f *ast.File) {
	timeName := ""
	for _, spec := range f.Imports {
		if spec.Path.Value == `"time"` {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.at(n.Pos(), "room %s has a go statement: it starts nothing", r.dir)
		case *ast.SelectorExpr:
			if id, ok := n.X.(*ast.Ident); ok && id.Name == timeName && clock[n.Sel.Name] {
				c.at(n.Pos(), "room %s calls time.%s: it is told the time", r.dir, n.Sel.Name)
			}
		}
		return true
	})
}

// packageDoc notes a package, and whether this file documents it. A command's comment may stand in any file.
func (c *checker) packageDoc(name string, f *ast.File) {
	p := c.packages[path.Dir(name)]
	if p == nil {
		p = &pkg{first: name}
		c.packages[path.Dir(name)] = p
	}
	p.documented = p.documented || f.Doc != nil && (path.Base(name) == "doc.go" || f.Name.Name == "main")
}
