package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// mutant is a file with one change that a test should notice.
type mutant struct {
	file     string
	line     int
	what     string
	old, new string // the changed lines
	from, to int    // what is changed, and by what
	text     string
	number   int  // in the program that has them all
	function int  // the one that it changes; 0: none that could be copied
	unbuilt  bool // its copy does not build
}

// swaps are the operators and words that are put in the place of others.
func swaps() map[string]string {
	return map[string]string{
		"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-", "-": "+",
		"++": "--", "--": "++", "+=": "-=", "-=": "+=", "true": "false", "false": "true", "break": "continue", "continue": "break",
	}
}

// mutants are all changes of a file: conditions negated, operators and truth swapped, calls,
// assignments, sends and deferred calls left out, errors not returned. Those that do not compile
// show when they are built.
func mutants(file string, source []byte) ([]*mutant, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	c := changes{file: file, source: source, set: set, swaps: swaps()}
	ast.Inspect(tree, func(n ast.Node) bool {
		c.take(n)
		return true
	})
	return c.found, nil
}

// changes gathers the mutants of one file while its tree is walked.
type changes struct {
	file   string
	source []byte
	set    *token.FileSet
	swaps  map[string]string
	found  []*mutant
}

// take makes the mutants of one node of the tree.
func (c *changes) take(n ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		c.replace("negate the condition", n.Cond, func(old string) string { return "!(" + old + ")" })
	case *ast.BinaryExpr:
		c.swap(n.OpPos, n.Op.String())
	case *ast.IncDecStmt:
		c.swap(n.TokPos, n.Tok.String())
	case *ast.BranchStmt:
		if n.Label == nil {
			c.swap(n.Pos(), n.Tok.String())
		}
	case *ast.Ident:
		if n.Name == "true" || n.Name == "false" {
			c.swap(n.Pos(), n.Name)
		}
	case *ast.AssignStmt:
		// Without := the name would be unknown, and nothing build.
		if n.Tok != token.DEFINE {
			c.swap(n.TokPos, n.Tok.String())
			c.replace("leave it out", n, nothing)
		}
	case *ast.ExprStmt, *ast.SendStmt, *ast.DeferStmt:
		c.replace("leave it out", n, nothing)
	case *ast.FuncDecl:
		c.errors(n.Type, n.Body)
	case *ast.FuncLit:
		c.errors(n.Type, n.Body)
	}
}

// errors makes nil of the errors that a function returns; those of functions within it are theirs.
func (c *changes) errors(of *ast.FuncType, body *ast.BlockStmt) {
	if body == nil || of.Results == nil || len(of.Results.List) == 0 {
		return
	}
	last, ok := of.Results.List[len(of.Results.List)-1].Type.(*ast.Ident)
	if !ok || last.Name != "error" {
		return
	}
	ast.Inspect(body, func(n ast.Node) bool {
		if _, within := n.(*ast.FuncLit); within {
			return false
		}
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == of.Results.NumFields() {
			c.replace("return no error", r.Results[len(r.Results)-1], func(string) string { return "nil" })
		}
		return true
	})
}

func nothing(string) string { return "" }

// swap puts the counterpart of a word in its place, where there is one.
func (c *changes) swap(at token.Pos, word string) {
	if other, ok := c.swaps[word]; ok {
		from := c.set.Position(at).Offset
		c.change("swap "+word+" for "+other, from, from+len(word), other)
	}
}

// replace puts another text in the place of a node.
func (c *changes) replace(what string, n ast.Node, with func(old string) string) {
	from, to := c.set.Position(n.Pos()).Offset, c.set.Position(n.End()).Offset
	c.change(what, from, to, with(string(c.source[from:to])))
}

// change makes the mutant.
func (c *changes) change(what string, from, to int, text string) {
	old := string(c.source[from:to])
	if old == text || strings.HasPrefix(old, "failpoint.Hit(") { // the chaos tests alone see those
		return
	}
	changed := append(append(bytes.Clone(c.source[:from]), text...), c.source[to:]...)
	line := 1 + bytes.Count(c.source[:from], []byte("\n"))
	c.found = append(c.found, &mutant{
		file: c.file, line: line, what: what, from: from, to: to, text: text,
		old: lines(c.source, from, to), new: lines(changed, from, from+len(text)),
	})
}

// lines are the whole lines that source has between two places.
func lines(source []byte, from, to int) string {
	begin := bytes.LastIndexByte(source[:from], '\n') + 1
	end := len(source)
	if i := bytes.IndexByte(source[to:], '\n'); i >= 0 {
		end = to + i
	}
	return string(source[begin:end])
}
