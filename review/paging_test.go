package review

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/internal/cli"
)

// inPages answers three pages of one thing each, "mark-1" to "mark-3". The second
// begins at 8, the third at 7: cursors of versions count down.
type inPages struct {
	cursor  string // parameter of the row
	answer  string // of a page: its number, and where the next one begins
	circles bool   // the third leads back to itself
}

func (s inPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("kind") == "object" { // the members next to a text
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":"unknown","detail":"there is none"}`)
		return
	}
	at, _ := strconv.Atoi(q.Get(s.cursor))
	page, next := map[int]int{0: 1, 8: 2, 7: 3}[at], map[int]int{0: 8, 8: 7}[at]
	if s.circles && page == 3 {
		next = 7
	}
	answer := s.answer
	if next == 0 {
		answer, _, _ = strings.Cut(answer, `,"`)
		_, _ = fmt.Fprintf(w, answer+"}", page)
		return
	}
	_, _ = fmt.Fprintf(w, answer, page, next)
}

// Every row that is answered in pages can be read to its end from the command
// line: by default it is, and with a limit page by page.
//
// Proves SYN-8.
func TestEveryPagedRowIsReadToItsEnd(t *testing.T) {
	answers := map[string]string{
		"listHolds":     `{"holds":[{"id":"mark-%d"}],"next":"%d"}`,
		"listSessions":  `{"sessions":[{"id":"mark-%d"}],"next":"%d"}`,
		"memoryHistory": `{"versions":[{"actor":"mark-%d"}],"before":%d}`,
	}
	for _, rt := range routes() {
		if limit := slices.ContainsFunc(rt.query, func(p param) bool { return p.name == limitParam }); limit != (rt.pages != nil) {
			t.Errorf("%s: it has a limit, %v, and pages, %v", rt.op, limit, rt.pages != nil)
		}
		if rt.pages == nil {
			continue
		}
		line := lineOf(rt)
		if line == nil || answers[rt.op] == "" {
			t.Errorf("%s: no command asks for it, or the test does not know its pages", rt.op)
			continue
		}
		pages := inPages{cursor: rt.pages.cursor, answer: answers[rt.op]}
		if got, _, code := marks(t, pages, line...); got != "mark-1 mark-2 mark-3" || code != cli.OK {
			t.Errorf("%s: exit %d with %q", rt.op, code, got)
		}
		var got []string
		for more := []string{}; more != nil; {
			found, out, code := marks(t, pages, append(append(line, "--limit", "1"), more...)...)
			if got, more = append(got, found), nil; code != cli.OK || len(got) > 3 {
				t.Fatalf("%s: exit %d with %q", rt.op, code, got)
			}
			if _, next, is := strings.Cut(out, "more: "); is {
				more = strings.Fields(next)
			}
		}
		if strings.Join(got, ", ") != "mark-1, mark-2, mark-3" {
			t.Errorf("%s: page by page %q", rt.op, got)
		}
		pages.circles = true
		if _, out, code := marks(t, pages, line...); code != cli.Failed || !strings.Contains(out, "leads back") {
			t.Errorf("%s: of pages without an end: exit %d, %q", rt.op, code, out)
		}
	}
}

// lineOf is a command line that asks for a row, nil for none.
func lineOf(rt route) (words []string) {
	for _, n := range nouns() {
		for _, v := range n.verbs {
			if v.ops == rt.op {
				words = []string{n.name, v.name}
			}
		}
	}
	if words == nil {
		return nil
	}
	for _, name := range rt.wildcards() {
		if _, option := options()[name]; option {
			words = append(words, "--"+name)
		}
		words = append(words, "x")
	}
	return words
}

// marks are those in what a command prints of pages.
func marks(t *testing.T, pages inPages, words ...string) (found, out string, code int) {
	t.Helper()
	server := httptest.NewServer(pages)
	defer server.Close()
	var both bytes.Buffer
	c := CLI{Clock: time.Now, Getenv: func(name string) string { return map[string]string{TokenEnv: "token"}[name] }}
	code = cli.Main(t.Context(), func(stdout, stderr io.Writer) *cobra.Command {
		c.Stdout, c.Stderr = stdout, stderr
		return cli.Group("memproxy", "", "", c.Commands()...)
	}, append(words[:len(words):len(words)], "--admin", server.URL), nil, &both, &both)
	var all []string
	for _, word := range strings.Fields(both.String()) {
		if strings.HasPrefix(word, "mark-") {
			all = append(all, word)
		}
	}
	return strings.Join(all, " "), both.String(), code
}
