package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// plain is a browser that knows links and forms, and no scripts.
type plain struct {
	*world
	path string // of the page
	page *html.Node
	text string
}

// visit opens a page.
func (w *world) visit(path string) *plain {
	p := &plain{world: w}
	p.open("GET", path, nil)
	return p
}

// open opens a page and goes where it leads.
func (p *plain) open(method, path string, form url.Values) {
	p.t.Helper()
	if status := p.ask(method, path, form); status != http.StatusOK {
		p.t.Fatalf("%s %s: %d %s", method, path, status, p.text)
	}
}

// ask does so also where that is a page of an error.
func (p *plain) ask(method, path string, form url.Values) int {
	p.t.Helper()
	a := p.try(method, path, form, "Origin", p.base)
	for a.status == http.StatusSeeOther {
		path = a.header.Get("Location")
		a = p.try("GET", path, nil)
	}
	page, err := html.Parse(strings.NewReader(a.text))
	if err != nil {
		p.t.Fatal(err)
	}
	p.path, p.page, p.text = path, page, textOf(page)
	return a.status
}

// follow presses the first link whose text begins so.
func (p *plain) follow(text string) {
	p.t.Helper()
	p.open("GET", p.linkTo(text), nil)
}

// linkTo is where that link leads.
func (p *plain) linkTo(text string) string {
	p.t.Helper()
	for n := range p.page.Descendants() {
		if n.Data == "a" && strings.HasPrefix(textOf(n), text) {
			return attr(n, "href")
		}
	}
	p.t.Fatalf("no link %q on %s: %s", text, p.path, p.text)
	return ""
}

// press fills in the form of the first button whose text begins so, and presses it.
func (p *plain) press(text string, fill map[string]string) {
	p.t.Helper()
	for n := range p.page.Descendants() {
		if n.Data != "button" || !strings.HasPrefix(textOf(n), text) {
			continue
		}
		form := n
		for form != nil && form.Data != "form" {
			form = form.Parent
		}
		if form == nil {
			continue
		}
		values := filled(form, fill)
		if name := attr(n, "name"); name != "" {
			values.Set(name, attr(n, "value"))
		}
		to := attr(form, "action")
		if to == "" {
			to, _, _ = strings.Cut(p.path, "?")
		}
		if strings.EqualFold(attr(form, "method"), "post") {
			p.open("POST", to, values)
		} else {
			p.open("GET", to+"?"+values.Encode(), nil)
		}
		return
	}
	p.t.Fatalf("no button %q on %s: %s", text, p.path, p.text)
}

// filled are the values of a form as a browser would send them.
func filled(form *html.Node, fill map[string]string) url.Values {
	values := url.Values{}
	for n := range form.Descendants() {
		name := attr(n, "name")
		switch {
		case name == "" || n.Data != "input" && n.Data != "select" && n.Data != "textarea":
		case n.Data == "textarea":
			text, is := fill[name]
			if !is {
				text = rawText(n)
			}
			values.Set(name, text)
		case attr(n, "type") == "checkbox" && checked(n):
			if text, is := fill[name]; !is || text != "" {
				values.Set(name, attr(n, "value"))
			}
		case fill[name] != "" && attr(n, "type") == "checkbox":
			if attr(n, "value") == fill[name] {
				values.Add(name, fill[name])
			}
		case fill[name] != "":
			values.Set(name, fill[name])
		case n.Data == "select":
			for o := range n.Descendants() {
				if _, is := find(o, "selected"); is {
					values.Set(name, textOf(o))
				}
			}
			values[name] = append(values[name], "")[:1]
		case attr(n, "type") != "checkbox":
			values.Set(name, attr(n, "value"))
		}
	}
	for _, texts := range values {
		for i, text := range texts {
			texts[i] = strings.ReplaceAll(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n", "\r\n")
		}
	}
	return values
}

// rawText is the text of an element as it is.
func rawText(n *html.Node) string {
	var all strings.Builder
	for d := range n.Descendants() {
		all.WriteString(d.Data)
	}
	return all.String()
}

func checked(n *html.Node) bool { _, is := find(n, "checked"); return is }

func find(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func attr(n *html.Node, name string) string { text, _ := find(n, name); return text }

// textOf is the text of an element, in one line.
func textOf(n *html.Node) string {
	var all []string
	for d := range n.Descendants() {
		if d.Type == html.TextNode && d.Parent.Data != "script" {
			all = append(all, d.Data)
		}
	}
	return strings.Join(strings.Fields(strings.Join(all, " ")), " ")
}

// edits is the form of an edit on the page, filled in.
func (p *plain) edits(fill map[string]string) (form url.Values) {
	p.t.Helper()
	for n := range p.page.Descendants() {
		if n.Data == "form" && attr(n, "action") == "/console/edit" {
			form = filled(n, fill)
		}
	}
	if form == nil {
		p.t.Fatalf("no form of an edit on %s: %s", p.path, p.text)
	}
	return form
}

// picks is the form of what may be ticked on a page, with nothing ticked.
func (p *plain) picks() (form url.Values) {
	for n := range p.page.Descendants() {
		if n.Data == "form" && attr(n, "id") == "picked" {
			form = filled(n, nil)
		}
	}
	return form
}

// asks is the form of the page that asks before a replay or a delete, as it is filled at first.
func (p *plain) asks() (form url.Values) {
	for n := range p.page.Descendants() {
		if n.Data == "form" && attr(n, "action") == "/console/operations" {
			form = filled(n, nil)
		}
	}
	return form
}

// has says that the page shows a text.
func (p *plain) has(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text, text) {
			t.Errorf("%s does not show %q: %s", p.path, text, p.text)
		}
	}
}
