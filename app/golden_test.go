package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/contract"
)

// golden records a run of the matrix: answers in order, upstream requests and audit
// records sorted. With MATRIX_RECORD=DIR it is written to DIR, so that two commits can
// be compared by diff. Ids, hashes, signatures and times are masked.
type golden struct {
	mu       sync.Mutex
	requests []string
	answers  strings.Builder
}

var masked = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}|\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)|"memproxy_(sig|meta)":"[^"]*"|-of-nobody-\d+|"used":\d+|\b\d{10,}\b`)

func (g *golden) backend(next http.Handler) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a truncated body is truncated for the backend, too
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.mu.Lock()
		g.requests = append(g.requests, masked.ReplaceAllString(fmt.Sprintf("%s %s %s", r.Method, r.RequestURI, body), "ID"))
		g.mu.Unlock()
		next.ServeHTTP(w, r)
	}))
}

func (g *golden) played(c *contract.Case, plain string) {
	fmt.Fprintf(&g.answers, "%s\n\t%s\n", masked.ReplaceAllString(c.String(), "ID"), masked.ReplaceAllString(plain, "ID"))
}

func (g *golden) write(t *testing.T, audit string) {
	dir := os.Getenv("MATRIX_RECORD")
	if dir == "" {
		return
	}
	var records []string
	for line := range strings.Lines(audit) {
		line = regexp.MustCompile(`"(index|trace|span|prev_hash|event_time|time)":("[^"]*"|\d+),?`).ReplaceAllString(line, "")
		records = append(records, masked.ReplaceAllString(line, "ID"))
	}
	slices.Sort(records)
	slices.Sort(g.requests)
	for name, text := range map[string]string{"answers": g.answers.String(), "requests": strings.Join(g.requests, "\n"), "audit": strings.Join(records, "")} {
		if err := os.WriteFile(filepath.Join(dir, t.Name()+"."+name), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
}
