// Package embedded is a small Mem0 server for the demo and the tests: an http.Handler with
// the dialects of the hosted platform (/v1, /v2, /v3, /api) and of the self-hosted server
// (/memories, /search, …) over one list of memories.
//
// It trusts its callers like the real servers, because the gate must protect against that:
// it believes ids in payloads, stores any metadata and any confidence, does not check the
// owner of a memory given by id, lets an accepted key read and write for every user, and
// lets filters smuggle identities as Mem0's engine does.
//
// It runs no model (an extraction keeps each message of the user unchanged), fetches no
// URLs and stores nothing on disk. Its errors have the right status, but not the exact
// text. The tests in e2e cover exact errors and the needs of clients with the real engine.
package embedded

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultMaxMemories keeps a search, which reads every memory, within a few
	// milliseconds.
	DefaultMaxMemories = 10_000

	maxBody   = 4 << 20
	maxEvents = 4096
)

// Options configure a Backend. Every accepted caller is an administrator, as in Mem0 with
// AUTH_DISABLED.
type Options struct {
	// Keys are the accepted API keys. Without any, no credential is needed and any is
	// accepted.
	Keys []string
	// Deferred leaves events PENDING until Step is called. Otherwise the work of an event
	// is done before its request is answered, although the answer says PENDING.
	Deferred bool
	// MaxMemories bounds the store; at the limit the oldest memory is removed. 0 means
	// DefaultMaxMemories.
	MaxMemories int
}

// Backend is a Mem0-style backend. It is safe for concurrent use.
type Backend struct {
	opt Options

	mu     sync.Mutex // protects the store; held while answers are encoded
	store  *store
	routes []route
}

// New checks the options and returns an empty backend.
func New(opt Options) (*Backend, error) {
	if slices.Contains(opt.Keys, "") {
		return nil, errors.New("embedded: an empty string in Keys would accept everybody")
	}
	s := &store{max: cmp.Or(opt.MaxMemories, DefaultMaxMemories), deferred: opt.Deferred, deleted: map[string]*memory{}, config: initialConfig()}
	return &Backend{opt: opt, store: s, routes: routes(s)}, nil
}

// Step does the work of the oldest pending event and reports whether there was one. There
// is none without Options.Deferred.
func (b *Backend) Step() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	queue := b.store.queue
	if len(queue) == 0 {
		return false
	}
	b.store.queue = queue[1:]
	queue[0]()
	return true
}

type object = map[string]any

// call is one request and its handler's state.
type call struct {
	r     *http.Request
	args  []string // segments that the route's wildcards matched
	query url.Values
	raw   []byte
	body  object // empty without a payload
	now   string
}

// last returns the last value of a query parameter, the one that the frameworks of both
// dialects use.
func (c *call) last(name string) string {
	if v := c.query[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// created is the body of an answer 201.
type created struct{ body any }

// number returns a number of the body, or otherwise if there is none.
func (c *call) number(name string, otherwise float64) float64 {
	n, _ := c.body[name].(json.Number)
	if f, err := n.Float64(); err == nil && f >= 0 {
		return f
	}
	return otherwise
}

// failure is an answer other than 200.
type failure struct {
	status int
	member string // member that has the text; "" for the dialect's usual one
	text   any
}

func (f *failure) Error() string { return fmt.Sprint(f.text) }

func fail(status int, format string, args ...any) error {
	return &failure{status, "", fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return fail(http.StatusBadRequest, format, args...)
}

// detailed returns an error in the form of the frameworks of both dialects.
func detailed(status int, text string) error { return &failure{status, "detail", text} }

// done answers with a message, the most common body.
func done(message string) (any, error) { return object{"message": message}, nil }

// ServeHTTP answers in the dialect of the path.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		err = detailed(http.StatusRequestEntityTooLarge, "Request body is too large.")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c := &call{r: r, raw: raw, now: stamp(time.Now())}
	var body any
	if err == nil {
		body, err = b.answer(c)
	}
	status := http.StatusOK
	var failed *failure
	if made, is := body.(created); is {
		status, body = http.StatusCreated, made.body
	}
	if errors.As(err, &failed) {
		status, body = failed.status, object{cmp.Or(failed.member, map[bool]string{true: "error", false: "detail"}[isHosted(r.URL.Path)]): failed.text}
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(body); err != nil { // only JSON is stored
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})) // the client may have disconnected
}

func (b *Backend) answer(c *call) (any, error) {
	rt, err := find(b.routes, c)
	if err != nil {
		return nil, err
	}
	// Mem0 does not bind keys to users: an accepted key reads and writes everybody's memories.
	if len(b.opt.Keys) > 0 && !slices.Contains(b.opt.Keys, credential(c.r)) {
		return nil, detailed(http.StatusUnauthorized, "Not authenticated")
	}
	c.query, _ = url.ParseQuery(c.r.URL.RawQuery) // ignores the unreadable part
	c.body = object{}
	if len(c.raw) > 0 {
		if c.body, err = parse(c.raw); err != nil {
			return nil, err
		}
	}
	return rt.serve(c)
}

// parse parses a JSON object. Names match exactly, and the last duplicate wins, as in
// Python.
func parse(raw []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v object
	if err := dec.Decode(&v); err != nil || v == nil {
		return nil, fail(http.StatusUnprocessableEntity, "Input should be a valid dictionary")
	}
	return v, nil
}

// credential returns the key from the dialect's own header.
func credential(r *http.Request) string {
	if isHosted(r.URL.Path) {
		return strings.TrimPrefix(r.Header.Get("Authorization"), "Token ")
	}
	return r.Header.Get("X-API-Key")
}

// stamp formats microseconds only if there are any, as Python does.
func stamp(t time.Time) string {
	t = t.UTC()
	if t.Nanosecond() < int(time.Microsecond) {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}
