package contract

import (
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Route is one row of an adapter's table.
type Route struct {
	ID, Method, Path string
	Kind             memproxy.Kind
	// Public routes are anybody's, and leave no record.
	Public bool
}

// Format says where the requests of a backend can name something, and how its
// payloads look. Kinds are the keys of Owner.Objects; "=word" is the word.
type Format struct {
	// Params are the kinds of path parameters, by name; Rest those of paths
	// whose end is open, by route.
	Params, Rest map[string]string
	// Query, Headers and Members are the kinds of what query parameters,
	// headers and members of a body's root name. A kind with [] behind it is
	// a list of such, with ? one of text that need not name anything. A
	// member "a.b" is one of an object in the root; one that is an object itself,
	// with {} for the value, is laid over the payload.
	Query, Headers, Members map[string]string
	// Bodies are payloads by route, else by the method and the path's end, else
	// by the method. {kind} is replaced by the caller's own.
	Bodies []Body
	// Queries are what a route needs in its query anyway.
	Queries map[string]string
}

// Body is the payload of the routes that match.
type Body struct {
	Route *regexp.Regexp // of "METHOD id"
	JSON  string         // "" is none
}

// Case is one request of the matrix.
type Case struct {
	Route  Route
	Place  string // "path:agent_id", "query:user_id", "body:/block_ids", or "" for none
	Class  Class
	Caller *Caller
	// The request.
	Method, Target, Body string
	Header               []string // name, value, …

	place place
	body  string // before it was filled in
	trace string // of its requests, once they are sent
}

// String names the case.
func (c *Case) String() string {
	return fmt.Sprintf("%s %s [%s=%s as %s] %s %s", c.Route.ID, c.Method, c.Place, c.Class, c.Caller.Name, c.Target, c.Body)
}

var param = regexp.MustCompile(`\{([a-z_]+)(\.\.\.)?\}`)

// anyMethod stands for the methods of a row that takes every one.
var anyMethod = []string{"GET", "POST", "PUT", "PATCH", "DELETE"}

func (r *Route) methods() []string {
	if r.Method == "*" {
		return anyMethod
	}
	return []string{r.Method}
}

// place is where one thing is named.
type place struct{ where, name, kind string }

func (p place) String() string {
	if p.where == "" {
		return ""
	}
	return p.where + ":" + p.name
}

// places are all places of a route, the one that names nothing first.
func (f *Format) places(r *Route, body string) ([]place, error) {
	out := []place{{}}
	for _, m := range param.FindAllStringSubmatch(r.Path, -1) {
		kind, err := f.kind(r, m[1], m[2] != "")
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(kind, "=") {
			out = append(out, place{"path", m[1], kind})
		}
	}
	add := func(where string, kinds map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			out = append(out, place{where, name, kinds[name]})
		}
	}
	add("query", f.Query)
	add("header", f.Headers)
	if !strings.HasPrefix(body, "{") {
		return out, nil
	}
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		if over := overlaid.FindStringSubmatch(name); over == nil || strings.Contains(body, over[1]) {
			out = append(out, place{"body", name, f.Members[name]})
		}
	}
	return out, nil
}

// overlaid finds the member that a payload must have for a place in it to mean
// anything: filters, messages, memories.
var overlaid = regexp.MustCompile(`^\{?("?(?:filters|messages|memories|deduced_memories)\b)`)

func (f *Format) kind(r *Route, name string, open bool) (string, error) {
	if open {
		if kind, ok := f.Rest[r.ID]; ok {
			return kind, nil
		}
		return "", fmt.Errorf("contract: nothing says what %s takes at the end of its path", r.ID)
	}
	if kind, ok := f.Params[name]; ok {
		return kind, nil
	}
	return "", fmt.Errorf("contract: nothing says what {%s} of %s names", name, r.ID)
}

func (f *Format) body(r *Route, method string) (string, error) {
	for _, b := range f.Bodies {
		if b.Route.MatchString(method + " " + r.ID) {
			return b.JSON, nil
		}
	}
	return "", fmt.Errorf("contract: nothing says what payload %s %s takes", method, r.ID)
}

// Cases yields the cases of the matrix that plays selects, in the order of the table, the
// classes of one place and caller together. Plays sees a case before it has a request, and
// keeps no pointer to it. A route that the format does not cover ends it with an error.
func (f *Format) Cases(w *World, routes []Route, plays func(*Case) bool) iter.Seq2[*Case, error] {
	return f.cases(w, routes, func(string, *Caller) bool { return true }, plays)
}

// AllCases selects every case.
func AllCases(*Case) bool { return true }

// cases are the cases with methods and callers that are wanted, of which those that
// are played get a request.
func (f *Format) cases(w *World, routes []Route, wanted func(method string, c *Caller) bool, plays func(*Case) bool) iter.Seq2[*Case, error] {
	return func(yield func(*Case, error) bool) {
		for i := range routes {
			for _, method := range routes[i].methods() {
				if !f.route(w, &routes[i], method, wanted, plays, yield) {
					return
				}
			}
		}
	}
}

// Size is the number of cases that Run plays.
func (p *Matrix) Size() (n int) {
	count := func(c *Case) bool {
		if p.plays(c) {
			n++
		}
		return false
	}
	for range p.Format.cases(p.World, p.Routes, func(string, *Caller) bool { return true }, count) {
	}
	return n
}

func (f *Format) route(w *World, r *Route, method string, wanted func(string, *Caller) bool, plays func(*Case) bool, yield func(*Case, error) bool) bool {
	body, err := f.body(r, method)
	if err != nil {
		return yield(nil, err)
	}
	all, err := f.places(r, body)
	if err != nil {
		return yield(nil, err)
	}
	out := Case{Route: *r, Method: method, body: body} // one for all: few are played, and request copies those
	for _, p := range all {
		out.Place, out.place = p.String(), p
		for _, c := range w.Callers {
			if !wanted(method, c) {
				continue
			}
			for _, class := range Classes {
				if p.where == "" && class != Own {
					continue // nothing is named
				}
				out.Class, out.Caller = class, c
				if plays(&out) && !yield(f.request(w, &out)) {
					return false
				}
			}
		}
	}
	return true
}

// request gives a copy of a case the request that it is of.
func (f *Format) request(w *World, of *Case) (*Case, error) {
	c := *of
	c.Header = nil
	r, p, class := &c.Route, c.place, c.Class
	var failed error
	at := func(kind string, class Class) string {
		if word, ok := strings.CutPrefix(kind, "="); ok {
			return word
		}
		v, err := w.value(strings.TrimSuffix(strings.TrimSuffix(kind, "[]"), "?"), class, c.Caller)
		if err != nil && failed == nil {
			failed = err
		}
		return v
	}
	path := param.ReplaceAllStringFunc(r.Path, func(m string) string {
		parts := param.FindStringSubmatch(m)
		kind, err := f.kind(r, parts[1], parts[2] != "")
		if err != nil {
			failed = err
		}
		if p.where == "path" && p.name == parts[1] {
			return url.PathEscape(at(kind, class))
		}
		return url.PathEscape(at(kind, Own))
	})
	q, err := url.ParseQuery(f.fill(f.Queries[r.ID], at))
	if err != nil {
		return nil, err
	}
	if p.where == "query" {
		q.Set(p.name, at(p.kind, class))
	}
	c.Target = path
	if len(q) > 0 {
		c.Target += "?" + q.Encode()
	}
	if p.where == "header" {
		c.Header = append(c.Header, p.name, at(p.kind, class))
	}
	if name, value, ok := strings.Cut(c.Caller.Header, ": "); ok {
		c.Header = append(c.Header, name, value)
	}
	c.Body = f.fill(c.body, at)
	if p.where == "body" {
		if c.Body, err = with(c.Body, p.name, at(p.kind, class), strings.HasSuffix(p.kind, "[]")); err != nil {
			return nil, err
		}
	}
	return &c, failed
}

var slot = regexp.MustCompile(`\{([a-z_]+)\}`)

// fill puts the caller's own into a payload.
func (f *Format) fill(text string, at func(string, Class) string) string {
	return slot.ReplaceAllStringFunc(text, func(m string) string { return at(m[1:len(m)-1], Own) })
}
