//go:build e2e

package e2e

import (
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   string
	of     []any // what it is an answer to, for messages
}

// about names what the answer is about in the messages of later checks.
func (a answer) about(what ...any) answer {
	a.of = what
	return a
}

// want ends the test unless an answer has a status.
func (a answer) want(t testing.TB, status int, about ...any) answer {
	t.Helper()
	if len(about) > 0 {
		a.of = about
	}
	if a.status != status {
		must.Equal(t, a.status, status, append(slices.Clip(a.of), tail(a.body, 3000))...)
	}
	return a
}

// has fails the test unless the answer contains all texts.
func (a answer) has(t testing.TB, texts ...string) answer {
	t.Helper()
	expect.Text(t, a.body, append(slices.Clip(a.of), a.status)...).Has(texts...)
	return a
}

// lacks fails the test if the answer contains one of the texts.
func (a answer) lacks(t testing.TB, texts ...string) answer {
	t.Helper()
	expect.Text(t, a.body, append(slices.Clip(a.of), a.status)...).Lacks(texts...)
	return a
}

func call(t *testing.T, method, url, key, body string, header ...string) answer {
	t.Helper()
	return must.Get(tryCall(method, url, key, body, header...))(t)
}

func tryCall(method, url, key, body string, header ...string) (answer, error) {
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: string(b)}, err
}

// member is the first string with one of the names in an object, in its messages or
// results, or in the first element of a list that has one.
func member(v any, names ...string) string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if s := member(e, names...); s != "" {
				return s
			}
		}
	case map[string]any:
		for _, name := range names {
			if s, ok := v[name].(string); ok {
				return s
			}
		}
		return cmp.Or(member(v["messages"], names...), member(v["results"], names...))
	}
	return ""
}

// firstOf is a member of a body, "" if it has none.
func firstOf(body, name string) string {
	var v any
	_ = json.Unmarshal([]byte(body), &v) // what is no JSON has no members
	return member(v, name)
}

// id is the id of what a request made.
func id(t *testing.T, a answer) string {
	t.Helper()
	made := firstOf(a.body, "id")
	must.That(t, a.status/100 == 2 && made != "", "nothing was made: %v %d %s", a.of, a.status, tail(a.body, 1000))
	return made
}
