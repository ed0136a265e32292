package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode"
)

// table prints rows under a head, or says that there are none.
func (a *actor) table(head []string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(a.out, "none")
		return err
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t")) // an error stays in w: Flush returns it
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// printable is text of which a table, or a line that asks, has room for the beginning.
func printable(text string) string {
	const most = 300
	return short(plain(text), most)
}

// plain is text on one line without what a terminal would obey: errors of handlers may repeat what
// strangers sent. It has all of the text: what is to be done about an error stands at its end.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// short is the beginning of a text that is longer than so many letters.
func short(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
