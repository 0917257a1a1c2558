package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// got is an answer with its body read.
type got struct {
	status int
	header http.Header
	body   string
	of     []any // what it is an answer to, for messages
}

// serving serves a handler until the test ends.
func serving(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	up := httptest.NewServer(h)
	t.Cleanup(up.Close)
	return up
}

// replies has a server answer with JSON.
func replies(w http.ResponseWriter, status int, body string) bool {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the proxy may have disconnected
	return true
}

// decoded is the value that a JSON text has.
func decoded[T any](t testing.TB, text string) (v T) {
	t.Helper()
	must.Do(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

// about names what the answer is about in the messages of later checks.
func (a got) about(what ...any) got {
	a.of = what
	return a
}

// want ends the test unless the answer has the status.
func (a got) want(t testing.TB, status int, about ...any) got {
	if len(about) > 0 {
		a.of = about
	}
	if a.status != status {
		t.Helper()
		must.Equal(t, a.status, status, append(slices.Clip(a.of), a.body)...)
	}
	return a
}

// has fails the test unless the answer contains all texts.
func (a got) has(t testing.TB, texts ...string) got {
	t.Helper()
	expect.Text(t, a.body, append(slices.Clip(a.of), a.status)...).Has(texts...)
	return a
}

// lacks fails the test if the answer contains one of the texts.
func (a got) lacks(t testing.TB, texts ...string) got {
	t.Helper()
	expect.Text(t, a.body, append(slices.Clip(a.of), a.status)...).Lacks(texts...)
	return a
}

// shows is has or lacks.
func (a got) shows(t testing.TB, whether bool, texts ...string) got {
	t.Helper()
	if whether {
		return a.has(t, texts...)
	}
	return a.lacks(t, texts...)
}

// id is the id of the one object that the answer is or lists.
func (a got) id(t testing.TB) string {
	t.Helper()
	var is struct {
		ID      string
		Results []struct{ ID string }
	}
	body := a.body
	if strings.HasPrefix(body, "[") {
		body = `{"results":` + body + "}"
	}
	err := json.Unmarshal([]byte(body), &is)
	if len(is.Results) == 1 {
		is.ID = is.Results[0].ID
	}
	must.Equal(t, err == nil && a.status < 300 && is.ID != "", true, append(slices.Clip(a.of), "one object: ", a.status, a.body)...)
	return is.ID
}

// unverified fails the test unless the answer names this memory, or none, as unverified.
func (a got) unverified(t testing.TB, id string) got {
	t.Helper()
	expect.Equal(t, a.header.Get(frontend.UnverifiedHeader), id, append(slices.Clip(a.of), "unverified", a.status, a.body)...)
	return a
}

// decided fails the test unless the header that says the decision begins so.
func (a got) decided(t testing.TB, as string) got {
	t.Helper()
	is, _, _ := strings.Cut(a.header.Get("X-Memproxy-Decision"), ";")
	expect.Equal(t, is, as, append(slices.Clip(a.of), "decision", a.status, a.body)...)
	return a
}
