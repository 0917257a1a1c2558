package contract

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// hidden reports whether a case names what its caller must not know to exist.
// A name that a write is the first to use becomes the writer's, so that a write
// tells whether somebody has it: that is documented.
func (p *Matrix) hidden(c *Case) bool {
	if strings.Contains(c.place.kind, "?") {
		return false // what is unknown passes as text
	}
	if p.World.Names[strings.TrimSuffix(c.place.kind, "[]")] && (c.Route.Kind == memproxy.Learn || c.Route.Kind == memproxy.Correct) {
		return false
	}
	switch c.Class {
	case Victims:
		return !c.Caller.MaySee(p.World.Owners[0])
	case Neighbour:
		return !c.Caller.MaySee(p.World.Owners[1])
	}
	return false
}

func (p *Matrix) judge(c *Case, got *Answer, arrived []Arrival) {
	if leaks := p.World.Leaks(c.Caller, got.Body+fmt.Sprint(got.Header)); leaks != nil {
		p.fail("%s: %d, and shows what is of %v", c, got.Status, leaks)
	}
	text := strings.Contains(c.place.kind, "?") // which may be anybody's name, and names nobody
	for _, a := range arrived {
		if !a.Changes() || text {
			continue
		}
		for _, o := range p.World.Owners {
			if !c.Caller.MaySee(o) && p.reaches(c, o, a) && !restored(a.Method+" "+a.URI+" "+a.Body, p.World) {
				p.fail("%s: %d, and what is of %s is reached by %s %s %s", c, got.Status, o.Name, a.Method, a.URI, a.Body)
			}
		}
	}
	if verdict, _ := got.Decision(); verdict == "deny" && slices.ContainsFunc(arrived, func(a Arrival) bool { return a.Changes() }) {
		p.fail("%s: %d, and changes all the same: %v", c, got.Status, arrived)
	}
	if p.TakeChanges == nil {
		return
	}
	for _, change := range p.TakeChanges() {
		name, what, _ := strings.Cut(change, " ")
		if restored(what, p.World) || text {
			continue
		}
		i := slices.IndexFunc(p.World.Owners, func(o *Owner) bool { return o.Name == name })
		if !c.Caller.MaySee(p.World.Owners[i]) {
			p.fail("%s: %d, and what is of %s is reached by %s", c, got.Status, name, what)
		}
	}
}

// A text is a name that a caller wrote where any text may stand.
type text struct {
	writer *Owner
	name   string
}

// wrote remembers the names that a case writes as text. They stay in the caller's own
// memories: memproxy sends the metadata that a memory has along with a change of it.
func (p *Matrix) wrote(c *Case) {
	if !strings.Contains(c.place.kind, "?") || c.Method == http.MethodGet || c.Method == http.MethodHead {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.World.Owners {
		for _, name := range o.Names() {
			if !c.Caller.MaySee(o) && stands(c.request(), name) {
				p.texts[text{c.Caller.Owner, name}] = true
			}
		}
	}
}

// reaches reports whether a change that arrived for a case names an object of the owner. A
// name that only its body has is text if the caller wrote it as text in another case.
func (p *Matrix) reaches(c *Case, o *Owner, a Arrival) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(o.Names(), func(name string) bool {
		known := p.texts[text{c.Caller.Owner, name}] && !stands(c.request(), name)
		return stands(a.URI, name) || stands(a.Body, name) && !known
	})
}

// request is what a case sends, as text.
func (c *Case) request() string { return fmt.Sprint(c.Target, " ", c.Body, " ", c.Header) }

// restored reports whether a change is memproxy's own: it puts a text back that
// the backend said it had replaced.
func restored(change string, w *World) bool {
	return strings.HasPrefix(change, "PUT ") && slices.ContainsFunc(w.Owners, func(o *Owner) bool {
		return strings.HasSuffix(change, `{"text":"`+o.Canary+`"}`)
	})
}

// score is a measure of likeness that an engine's arithmetic gives again only so
// far.
var score = regexp.MustCompile(`("score":\d\.\d{3})\d*`)

var freshName = regexp.MustCompile(`(-of-nobody|seed-nobody)-\d{5}`)

// plain is an answer without what differs from one request to the next, and
// without the names that the requests differ in.
func (p *Matrix) plain(a *Answer) string {
	body := a.Body
	if _, id := a.Decision(); id != "" {
		body = strings.ReplaceAll(body, id, "ID")
	}
	for _, o := range p.World.Owners {
		for kind, name := range o.Objects {
			body = strings.ReplaceAll(body, name, "{"+kind+"}")
		}
	}
	body = freshName.ReplaceAllString(body, "$1")
	body = sameScores(score.ReplaceAllString(body, "$1"))
	for kind, name := range p.World.Unknown {
		body = strings.ReplaceAll(body, name, "{"+kind+"}")
	}
	_, id := a.Decision()
	decision := strings.ReplaceAll(a.Header.Get("X-Memproxy-Decision"), "id="+id, "id")
	return fmt.Sprintf("%d %s %s\n\t%s", a.Status, decision, body, headers(a.Header))
}

// headers are what an answer's headers tell, but for when it was given, under
// which id, and how long a body is that has names of different lengths.
func headers(h http.Header) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		switch name {
		case "Date", "X-Memproxy-Decision", "X-Request-Id", "Content-Length":
		default:
			out = append(out, fmt.Sprintf("%s: %q", name, h[name]))
		}
	}
	return strings.Join(out, "; ")
}
