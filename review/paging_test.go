package review_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/expect"
)

// inPages answers three pages of one element each, "mark-1" to "mark-3". The second
// begins at 8, the third at 7: cursors of versions count down.
type inPages struct {
	cursor  string // the route's parameter
	answer  string // format of a page: its number, and the next cursor
	circles bool   // the third page's cursor leads to itself
}

func (s inPages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("kind") == "object" { // the object's other members
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

// Every paged route is read to its end by the command line by default, and page by page
// with a limit.
//
// Proves SYN-8.
func TestEveryPagedRouteIsReadToItsEnd(t *testing.T) {
	rows := map[string]struct{ line, cursor, answer string }{
		"listHolds":     {"holds list", "cursor", `{"holds":[{"id":"mark-%d"}],"next":"%d"}`},
		"listSessions":  {"sessions list", "cursor", `{"sessions":[{"id":"mark-%d"}],"next":"%d"}`},
		"memoryHistory": {"memory history --backend x x", "before", `{"versions":[{"actor":"mark-%d"}],"before":%d}`},
	}
	limited := 0
	for _, op := range operations(t) {
		for _, p := range op.Parameters {
			if p.Name == "limit" {
				limited++
				expect.Equal(t, rows[op.OperationID].line != "", true, op.OperationID, "has pages, and a row here")
			}
		}
	}
	expect.Equal(t, limited, len(rows))
	for op, row := range rows {
		pages := inPages{cursor: row.cursor, answer: row.answer}
		if got, _, code := marks(t, pages, row.line); got != "mark-1 mark-2 mark-3" || code != cli.OK {
			t.Errorf("%s: exit %d with %q", op, code, got)
		}
		var got []string
		for line, more := row.line+" --limit 1", true; more; {
			found, out, code := marks(t, pages, line)
			if got = append(got, found); code != cli.OK || len(got) > 3 {
				t.Fatalf("%s: exit %d with %q", op, code, got)
			}
			_, next, is := strings.Cut(out, "more: ")
			line, more = row.line+" --limit 1 "+next, is
		}
		expect.Equal(t, strings.Join(got, ", "), "mark-1, mark-2, mark-3", op, "page by page", got)
		pages.circles = true
		if _, out, code := marks(t, pages, row.line); code != cli.Failed || !strings.Contains(out, "returned the cursor") {
			t.Errorf("%s: of pages without an end: exit %d, %q", op, code, out)
		}
	}
}

// marks returns the marks in a command's output for the pages.
func marks(t *testing.T, pages inPages, line string) (found, out string, code int) {
	t.Helper()
	server := httptest.NewServer(pages)
	defer server.Close()
	code, out, errs := ran(t, time.Now, "token", server.URL, line)
	var all []string
	for word := range strings.FieldsSeq(out) {
		if strings.HasPrefix(word, "mark-") {
			all = append(all, word)
		}
	}
	return strings.Join(all, " "), out + errs, code
}
