package contract_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer is a normalised answer, wanted or got.
type answer struct {
	status int
	flags  []string
	header http.Header
	body   any // nil when there is none
}

func parseAnswer(text string) (answer, error) {
	a := answer{header: make(http.Header)}
	first, rest, _ := strings.Cut(text, "\n")
	words := strings.Fields(first)
	if len(words) == 0 {
		return a, nil // an answer yet to be written
	}
	var err error
	if a.status, err = strconv.Atoi(words[0]); err != nil {
		return a, err
	}
	a.flags = words[1:]
	for {
		line, next, found := strings.Cut(rest, "\n")
		name, value, isHeader := strings.Cut(line, ": ")
		if !found || !isHeader || strings.ContainsAny(name, "\"{[ ") {
			break
		}
		a.header.Add(name, value)
		rest = next
	}
	if strings.TrimSpace(rest) != "" {
		a.body, err = decode([]byte(rest))
	}
	return a, err
}

func decode(text []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if v == nil {
		v = json.RawMessage("null") // told from no body at all
	}
	return v, nil
}

// pending tells whether an event is still being worked on.
func (a answer) pending() bool {
	object, _ := a.body.(map[string]any)
	return object["status"] == "PENDING" || object["status"] == "RUNNING"
}

// differs says how an answer differs from the wanted one, or "".
func (s step) differs(got answer) string {
	for name := range s.want.header {
		if got.header.Get(name) != s.want.header.Get(name) {
			return fmt.Sprintf("header %s is %q, want %q", name, got.header.Get(name), s.want.header.Get(name))
		}
	}
	if got.status == s.want.status && same(s.want.body, got.body) {
		return ""
	}
	return fmt.Sprintf("got\n%d\n%s\nwant\n%d\n%s", got.status, indented(got.body), s.want.status, indented(s.want.body))
}

func same(want, got any) bool {
	switch want := want.(type) {
	case string:
		return want == "<any>" || want == got
	case map[string]any:
		got, ok := got.(map[string]any)
		return ok && maps.EqualFunc(want, got, same)
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(want, got, same)
	case json.RawMessage:
		_, ok := got.(json.RawMessage)
		return ok
	}
	return want == got
}

func indented(v any) string {
	if v == nil {
		return ""
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(buf.String())
}

var (
	uuid     = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
	isoTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`)
	idName   = regexp.MustCompile(`<id\d+>`)
	variable = map[string]string{
		"score": "<score>", "semantic_score": "<score>", "raw_score": "<score>", "final_score": "<score>",
		"latency": "<latency>", "request_id": "<request>",
	}
)

// names gives names to what varies from run to run.
type names struct {
	run   string
	ids   map[string]string // id → name
	given map[string]string // name → id
	begun time.Time
}

func newNames(run string) *names {
	return &names{run: run, ids: make(map[string]string), given: make(map[string]string), begun: time.Now()}
}

// fill puts what the names stand for into a question.
func (n *names) fill(text string) string {
	text = strings.ReplaceAll(text, "$run", n.run)
	return idName.ReplaceAllStringFunc(text, func(name string) string {
		if id, known := n.given[name]; known {
			return id
		}
		return name
	})
}

// normal puts names into an answer.
func (n *names) normal(status int, header http.Header, text []byte, flags []string) (answer, error) {
	a := answer{status: status, flags: flags, header: header}
	if len(text) == 0 {
		return a, nil
	}
	v, err := decode(text)
	if err != nil {
		return a, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if slices.Contains(flags, "ours") {
		v = n.ours(v)
	}
	if slices.Contains(flags, "unordered") {
		order(v)
	}
	a.body = n.name("", v)
	return a, nil
}

func (n *names) name(key string, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		// The order of names is the order of first sight, so it must be fixed.
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out[k] = n.name(k, v[k])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = n.name(key, item)
		}
		return out
	case string:
		if key == "next" || key == "previous" {
			v = withoutHost(v)
		}
		if name, varies := variable[key]; varies {
			return name
		}
		return n.text(v)
	case json.Number:
		if name, varies := variable[key]; varies {
			return name
		}
	}
	return v
}

func (n *names) text(s string) string {
	s = uuid.ReplaceAllStringFunc(s, func(id string) string {
		name, known := n.ids[id]
		if !known {
			name = fmt.Sprintf("<id%d>", len(n.ids)+1)
			n.ids[id], n.given[name] = name, id
		}
		return name
	})
	s = isoTime.ReplaceAllStringFunc(s, func(at string) string {
		// Only what was just written varies; a backdated time is part of the case.
		t, err := time.Parse(time.RFC3339, at)
		if err != nil || n.begun.Sub(t).Abs() > 24*time.Hour {
			return at
		}
		return "<time>"
	})
	return strings.ReplaceAll(s, n.run, "$run")
}

// withoutHost names the part of a link that differs with where the backend is.
func withoutHost(link string) string {
	u, err := url.Parse(link)
	if err != nil || u.Host == "" {
		return link
	}
	u.Scheme, u.Host = "", ""
	u.RawQuery = u.Query().Encode() // sorted
	return "<backend>" + u.String()
}

// list finds the rows of an answer, whatever its form.
func list(v any) ([]any, func([]any) any) {
	switch v := v.(type) {
	case []any:
		return v, func(rows []any) any { return rows }
	case map[string]any:
		rows, _ := v["results"].([]any)
		return rows, func(rows []any) any {
			v["results"] = rows
			return v
		}
	}
	return nil, func([]any) any { return v }
}

// ours drops rows that do not carry the run's suffix: others use the backend.
func (n *names) ours(v any) any {
	rows, put := list(v)
	return put(slices.DeleteFunc(rows, func(row any) bool { return !strings.Contains(indented(row), n.run) }))
}

// order sorts rows by their texts.
func order(v any) {
	rows, _ := list(v)
	key := func(row any) string {
		object, _ := row.(map[string]any)
		for _, name := range [...]string{"memory", "name", "id"} {
			if text, ok := object[name].(string); ok {
				return text
			}
		}
		return ""
	}
	slices.SortStableFunc(rows, func(x, y any) int { return strings.Compare(key(x), key(y)) })
}
