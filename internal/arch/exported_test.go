package arch

import "go/ast"

// exported looks for exported names without a doc comment: those that go doc shows.
func (c *checker) exported(r *room, f *ast.File) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				receiver := receiverName(d)
				if !ast.IsExported(receiver) {
					continue
				}
				name = receiver + "." + name
			}
			if d.Name.IsExported() && d.Doc == nil {
				c.at(d.Pos(), "exported %s has no doc comment", name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				c.exportedSpec(r, d, spec)
			}
		}
	}
}

// receiverName is the type a method belongs to.
func receiverName(d *ast.FuncDecl) string {
	expr := d.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// exportedSpec checks one type, or one line of constants or variables. A comment on a group speaks for all of it.
func (c *checker) exportedSpec(r *room, d *ast.GenDecl, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		if d.Doc == nil && s.Doc == nil && s.Comment == nil {
			c.at(s.Pos(), "exported %s has no doc comment", s.Name)
		}
		if !r.members {
			return
		}
		switch t := s.Type.(type) {
		case *ast.StructType:
			c.members(s.Name.Name, t.Fields)
		case *ast.InterfaceType:
			c.members(s.Name.Name, t.Methods)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
				c.at(name.Pos(), "exported %s has no doc comment", name)
			}
		}
	}
}

// members checks the fields of a struct or the methods of an interface. What is embedded is documented where it is declared.
func (c *checker) members(owner string, list *ast.FieldList) {
	for _, field := range list.List {
		for _, name := range field.Names {
			if name.IsExported() && field.Doc == nil && field.Comment == nil {
				c.at(name.Pos(), "exported %s.%s has no doc comment", owner, name)
			}
		}
	}
}
