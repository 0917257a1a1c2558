package contract

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Backend answers as a server without any notion of who asks: whoever names an object is
// shown it, whole, with its owner's canary in every text, and a collection is shown with
// everybody's. It remembers whose objects each change named. It is safe for concurrent
// use.
//
// It is not a fake of a server: it answers more than one would, so that what memproxy
// lets through is seen.
type Backend struct {
	owners []*Owner
	reply  func(b *Backend, r *http.Request, body string) (status int, answer any)

	mu      sync.Mutex
	touched []string
	made    int
}

// TakeChanges returns, since it was last asked, "owner METHOD target body" for each
// change that named an owner's object, or ran with it.
func (b *Backend) TakeChanges() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.touched
	b.touched = nil
	return out
}

// touch notes a change and whose objects it names.
func (b *Backend) touch(r *http.Request, named, body string) {
	owners := b.named(named)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, o := range owners {
		b.touched = append(b.touched, o.Name+" "+r.Method+" "+r.URL.String()+" "+body)
	}
}

// named are the owners of whom text names an object: as a word of its own, for
// the digits of a short id stand in many a long one.
func (b *Backend) named(text string) []*Owner {
	var out []*Owner
	for _, o := range b.owners {
		if o.namedIn(text) {
			out = append(out, o)
		}
	}
	return out
}

// namedIn reports whether text names an object of the owner.
func (o *Owner) namedIn(text string) bool {
	return slices.ContainsFunc(o.Names(), func(name string) bool { return stands(text, name) })
}

// stands reports whether a name stands in a text with no letter or digit next to
// it.
func stands(text, name string) bool {
	word := func(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	for at := 0; ; at++ {
		i := strings.Index(text[at:], name)
		if i < 0 || name == "" {
			return false
		}
		at += i
		end := at + len(name)
		if (at == 0 || !word(text[at-1])) && (end == len(text) || !word(text[end])) {
			return true
		}
	}
}

func (b *Backend) next() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made++
	return b.made
}

// beside is what a request says besides its path: parameters, headers and body.
func beside(r *http.Request, body string) string {
	query, _ := url.QueryUnescape(r.URL.RawQuery)
	said := query + " " + body
	for name, values := range r.Header {
		if name != "Authorization" && name != "Traceparent" {
			said += " " + strings.Join(values, " ")
		}
	}
	return said
}

// addLeakyHeaders puts what a backend might say of everybody into an answer's headers:
// links to other pages, cookies, counts, headers of tomorrow.
func (b *Backend) addLeakyHeaders(h http.Header) {
	for _, o := range b.owners {
		h.Add("Link", `</v1/`+o.Canary+`>; rel="next"`)
		h.Add("Set-Cookie", "session="+o.Canary)
		h.Add("X-Owner-Of-Tomorrow", o.Canary)
		h.Add("Content-Location", "/v1/"+o.Canary)
		h.Add("X-Total-Count", fmt.Sprint(total))
		h.Add("Server-Timing", o.Canary+";dur=1")
	}
	h.Set("Etag", `"`+b.owners[0].Canary+`"`)
}

// ServeHTTP implements http.Handler.
func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.addLeakyHeaders(w.Header())
	status, answer := b.reply(b, r, string(body))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the caller may be gone
}
