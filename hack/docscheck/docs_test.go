// Copyright The FormSpec Operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package docscheck checks what the documentation says against the code.
package docscheck

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func parse(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// text is the value of a string literal. Empty: it is none.
func text(expr ast.Expr) string {
	literal, ok := expr.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}

// Conditions are API, so the reference has all of them.
func TestEveryConditionIsDocumented(t *testing.T) {
	reference := read(t, "docs/conditions.md")
	found := 0
	for _, decl := range parse(t, "pkg/apis/formspec/v1alpha1/conditions.go").Decls {
		constants, ok := decl.(*ast.GenDecl)
		if !ok || constants.Tok != token.CONST {
			continue
		}
		for _, spec := range constants.Specs {
			for i, name := range spec.(*ast.ValueSpec).Names {
				value := text(spec.(*ast.ValueSpec).Values[i])
				if found++; !strings.Contains(reference, "\n| `"+value+"`") {
					t.Errorf("docs/conditions.md has no row for %s (%s)", value, name)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d constants were found", found)
	}
}

// A reason that is defined elsewhere would escape the reference.
func TestConditionsAreDefinedInOnePlace(t *testing.T) {
	found := 0
	err := filepath.WalkDir(filepath.Join(root, "pkg"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		found++
		for _, decl := range parse(t, strings.TrimPrefix(path, root)).Decls {
			constants, ok := decl.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST || filepath.Base(path) == "conditions.go" {
				continue
			}
			for _, spec := range constants.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					if strings.HasPrefix(name.Name, "Reason") || strings.HasPrefix(name.Name, "Condition") {
						t.Errorf("%s defines %s, which belongs into conditions.go", path, name.Name)
					}
				}
			}
		}
		return nil
	})
	if err != nil || found < 100 {
		t.Errorf("only %d files were looked at (%v)", found, err)
	}
}

// The flags are those that cmd/ registers on a flag set.
func TestEveryFlagIsDocumented(t *testing.T) {
	found := 0
	for path, page := range map[string]string{
		"cmd/formspec-operator/options.go": "README.md", "cmd/formspec-operator/logging.go": "README.md",
		"cmd/formspec-operator/activator_options.go": "docs/scale-to-zero.md",
	} {
		documented := read(t, page)
		ast.Inspect(parse(t, path), func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !strings.Contains(method.Sel.Name, "Var") {
				return true
			}
			flag := "--" + text(call.Args[1])
			if method.Sel.Name == "VarP" {
				flag = "-" + text(call.Args[2])
			}
			if found++; !strings.Contains(documented, "`"+flag+"`") {
				t.Errorf("%s does not have %s", page, flag)
			}
			return true
		})
	}
	if found < 30 {
		t.Errorf("only %d flags were found", found)
	}
}

// A dependency without a reason should not be there.
func TestEveryDependencyIsExplained(t *testing.T) {
	reasons := read(t, "docs/dependencies.md")
	found := 0
	for line := range strings.Lines(read(t, "go.mod")) {
		fields := strings.Fields(line)
		if len(fields) != 2 || !strings.HasPrefix(line, "\t") {
			continue // a directive, or an indirect dependency
		}
		if found++; !strings.Contains(reasons, "`"+fields[0]+"`") {
			t.Errorf("docs/dependencies.md does not have %s", fields[0])
		}
	}
	if found < 10 {
		t.Errorf("only %d dependencies were found", found)
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// A link into the repository leads to a file and, where it names one, to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "manifests/*/*.md", "test/*/*.md"} {
		matches, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, matches...)
	}
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(read(t, strings.TrimPrefix(page, root)), -1) {
			path, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(path, ":") {
				continue // another site
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			info, err := os.Stat(target)
			switch {
			case err != nil:
				t.Errorf("%s: nothing is at %s", page, match[1])
			case anchor != "" && !info.IsDir() && !hasHeading(t, target, anchor):
				t.Errorf("%s: no heading for %s", page, match[1])
			}
		}
	}
	if len(pages) < 10 {
		t.Errorf("only %d pages were found", len(pages))
	}
}

var notInAnchors = regexp.MustCompile(`[^a-z0-9 _-]`)

// hasHeading knows how anchors are made from headings: lower case, without punctuation, with dashes for blanks.
func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	for line := range strings.Lines(read(t, strings.TrimPrefix(page, root))) {
		title := strings.TrimLeft(line, "#")
		if title == line {
			continue
		}
		slug := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(title)), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// The table of field cases names tests that exist.
func TestEveryTestOfAFieldCaseExists(t *testing.T) {
	exist := map[string]bool{}
	for _, folder := range []string{"pkg", "test"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			ast.Inspect(parse(t, strings.TrimPrefix(path, root)), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					exist[n.Name.Name] = true
				case *ast.BasicLit: // the name of a part
					if name, err := strconv.Unquote(n.Value); err == nil {
						exist["/"+name] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	names := regexp.MustCompile("`(Test[A-Za-z0-9]+)(/[A-Za-z]+)?`").FindAllStringSubmatch(read(t, "docs/field-cases.md"), -1)
	for _, name := range names {
		if !exist[name[1]] || (name[2] != "" && !exist[name[2]]) {
			t.Errorf("docs/field-cases.md names %s, and there is no such test", name[0])
		}
	}
	if len(names) < 40 {
		t.Errorf("only %d names were found", len(names))
	}
}
