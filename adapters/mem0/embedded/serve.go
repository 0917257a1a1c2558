package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// call is one request on its way through a handler.
type call struct {
	r      *http.Request
	args   []string // what the route's wildcards matched
	query  url.Values
	raw    []byte
	body   map[string]any // nil unless the route takes an object
	now    string
	id     string // X-Request-ID, self-hosted only
	hosted bool
	admin  bool
}

// last returns the last value of a query parameter: the frameworks behind both
// dialects let the last one win.
func (c *call) last(name string) string {
	if v := c.query[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// reply is an answer. Its body must not change after the handler returned: it
// is encoded without the lock.
type reply struct {
	status int
	body   any
	header [][2]string
}

func ok(body any) *reply { return &reply{status: http.StatusOK, body: body} }

// object is a JSON object.
type object = map[string]any

// done answers with a sentence, the commonest body.
func done(message string) *reply { return ok(object{"message": message}) }

// said answers an error in the hosted platform's style, {"error": …}.
func said(status int, text string) *reply {
	return &reply{status: status, body: object{"error": text}}
}

// detailed answers an error in the style of the self-hosted server, {"detail": …}.
func detailed(status int, detail any) *reply {
	return &reply{status: status, body: object{"detail": detail}}
}

// ServeHTTP answers in the dialect that the path belongs to.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	b.askedMu.Lock()
	b.asked.add(asked{r.Method, r.URL.EscapedPath()}, 1)
	b.askedMu.Unlock()
	c := &call{r: r, raw: raw, now: b.now(), hosted: isHosted(r.URL.Path)}
	h := w.Header()
	if !c.hosted {
		// Eight hex digits on every answer; an incoming one is not honoured.
		c.id = fmt.Sprintf("%08x", b.answers.Add(1))
		h.Set("X-Request-ID", c.id)
	}
	out := b.answer(c, err)
	for _, kv := range out.header {
		h.Set(kv[0], kv[1])
	}
	if out.body == nil {
		w.WriteHeader(out.status)
		return
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out.body); err != nil {
		// Only what came as JSON is stored, so this is a mistake of ours.
		http.Error(w, `{"error":"Internal server error"}`, http.StatusInternalServerError)
		return
	}
	text := bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(out.status)
	w.Write(text) // a client that has gone away needs no answer
}

func (b *Backend) answer(c *call, readErr error) *reply {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(readErr, &tooLong):
		return detailed(http.StatusRequestEntityTooLarge, "Request body is too large.")
	case readErr != nil:
		return detailed(http.StatusBadRequest, "The request body could not be read.")
	}
	rt, refused := find(c, b.routes[c.hosted])
	if refused != nil {
		return refused
	}
	if refused := b.authorise(c, rt); refused != nil {
		return refused
	}
	if c.r.URL.RawQuery != "" {
		c.query, _ = url.ParseQuery(c.r.URL.RawQuery) // what can be read of it counts
	}
	if refused := rt.decode(c); refused != nil {
		return refused
	}
	if rt.needs.exclusive() {
		b.mu.Lock()
		defer b.mu.Unlock()
	} else {
		b.mu.RLock()
		defer b.mu.RUnlock()
	}
	return rt.serve(c)
}

// base is what absolute links start with: the address that the request arrived
// at, so that they lead a client around any proxy, as the platform's do.
func (c *call) base() string {
	if addr, ok := c.r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return "http://" + addr.String()
	}
	return "http://" + c.r.Host
}

// authorise says who may call. A key is bound to no user in Mem0: whoever has
// one reads and writes everybody's memories.
func (b *Backend) authorise(c *call, rt *route) *reply {
	if rt.needs == nothing {
		return nil
	}
	if len(b.opt.Keys) == 0 && b.opt.AdminKey == "" {
		c.admin = true
		return nil
	}
	admin, known := b.keys[sha256.Sum256([]byte(credential(c)))]
	// Looking up a digest tells an attacker nothing about the keys by its time.
	c.admin = known && admin
	switch {
	case !known && len(b.opt.Keys) > 0:
		if c.hosted {
			return detailed(http.StatusUnauthorized, "Invalid API key.")
		}
		out := detailed(http.StatusUnauthorized, "Not authenticated")
		out.header = [][2]string{{"WWW-Authenticate", "Bearer"}}
		return out
	case rt.needs.admin() && !c.admin:
		return detailed(http.StatusForbidden, "Admin privileges required")
	}
	return nil
}

// credential is where each dialect looks for a key, and nowhere else: a hosted
// "Token" is nothing to the self-hosted server, and the other way round.
func credential(c *call) string {
	scheme, token, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if c.hosted {
		if scheme == "Token" {
			return token
		}
		return ""
	}
	if key := c.r.Header.Get("X-API-Key"); key != "" {
		return key
	}
	if scheme == "Bearer" {
		return token
	}
	return ""
}
