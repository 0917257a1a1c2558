package contract

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Answer is what came back for a case.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Decision is the verdict and the id of the decision, as the answer's header
// has them, or "".
func (a *Answer) Decision() (verdict, id string) {
	verdict, rest, _ := strings.Cut(a.Header.Get("X-Memproxy-Decision"), ";")
	_, id, _ = strings.Cut(rest, "id=")
	id, _, _ = strings.Cut(id, ";")
	return verdict, id
}

// Play is one run of a matrix.
type Play struct {
	Format *Format
	World  *World
	Routes []Route
	// Base is the proxy's address; Also, if set, a second way to the same
	// backend that must answer alike.
	Base, Also string
	// Touched tells what changes reached the backend since it was last asked.
	Touched func() []string
	// Share plays one case in so many, and all that name another tenant's object
	// in the path. Which cases those are, Seed says: of seeds 0 to Share-1 each
	// case is played for one. 0 and 1 play all.
	Share, Seed uint32
	// After, if set, is told of each answer.
	After func(*Case, *Answer)
	// Fail reports what is wrong with a case.
	Fail func(format string, args ...any)

	// Decisions are the ids of the decisions that the answers named.
	Decisions []string
	Cases     int

	client http.Client
}

// Run plays the cases. Its error is of the matrix itself.
func (p *Play) Run() error {
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for c, err := range p.Format.Cases(p.World, p.Routes) {
		if err != nil {
			return err
		}
		if !p.plays(c) {
			continue
		}
		p.Cases++
		if err := p.one(c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

func (p *Play) plays(c *Case) bool {
	if p.Share <= 1 {
		return true
	}
	if c.Class == Other && c.Caller == p.World.Callers[0] && strings.HasPrefix(c.Place, "path:") {
		return true
	}
	h := fnv.New32a()
	// Ids differ from server to server; what the case is of does not.
	_, _ = fmt.Fprint(h, c.Route.ID, " ", c.Method, " ", c.Place, " ", c.Class, " ", c.Caller.Name) // never fails
	return h.Sum32()%p.Share == p.Seed%p.Share
}

func (p *Play) one(c *Case) error {
	got, err := p.send(p.Base, c)
	if err != nil {
		return err
	}
	p.judge(c, got, p.Touched())
	if p.After != nil {
		p.After(c, got)
	}
	if verdict, id := got.Decision(); id != "" {
		p.Decisions = append(p.Decisions, id)
	} else if verdict == "" && !c.Route.Public {
		p.Fail("%s: %d, and no decision is named", c, got.Status)
	}
	if p.hidden(c) {
		twin, err := p.Format.request(p.World, &c.Route, c.Method, c.body, c.place, Unknown, c.Caller)
		if err != nil {
			return err
		}
		missing, err := p.send(p.Base, twin)
		if err != nil {
			return err
		}
		p.Touched()
		if was, is := p.plain(missing), p.plain(got); was != is {
			p.Fail("%s: told apart from what does not exist:\n\t%s\n\t%s", c, is, was)
		}
	}
	if p.Also == "" {
		return nil
	}
	also, err := p.send(p.Also, c)
	if err != nil {
		return err
	}
	p.judge(c, also, p.Touched())
	was, _ := got.Decision()
	// Runs of agents take the HTTP way; the processor says so.
	if is, _ := also.Decision(); (is != was || also.Status != got.Status) && !strings.Contains(also.Body, "run.ungated") {
		p.Fail("%s: %d %s here, %d %s there: %s", c, got.Status, was, also.Status, is, also.Body)
	}
	return nil
}

// hidden reports whether a case names what its caller must not know to exist.
// A name that a write is the first to use becomes the writer's, so that a write
// tells whether somebody has it: that is documented.
func (p *Play) hidden(c *Case) bool {
	if strings.Contains(c.place.kind, "?") {
		return false // what is unknown passes as text
	}
	if p.World.Names[strings.TrimSuffix(c.place.kind, "[]")] && (c.Route.Kind == memproxy.Learn || c.Route.Kind == memproxy.Correct) {
		return false
	}
	switch c.Class {
	case Other:
		return !c.Caller.May(p.World.Owners[0])
	case Neighbour:
		return !c.Caller.May(p.World.Owners[1])
	}
	return false
}

func (p *Play) judge(c *Case, got *Answer, touched []string) {
	if leaks := p.World.Leaks(c.Caller, got.Body+fmt.Sprint(got.Header)); leaks != nil {
		p.Fail("%s: %d, and shows what is of %v", c, got.Status, leaks)
	}
	for _, change := range touched {
		name, what, _ := strings.Cut(change, " ")
		if restored(what, p.World) {
			continue
		}
		i := slices.IndexFunc(p.World.Owners, func(o *Owner) bool { return o.Name == name })
		if !c.Caller.May(p.World.Owners[i]) {
			p.Fail("%s: %d, and what is of %s is reached by %s", c, got.Status, name, what)
		}
	}
}

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
func (p *Play) plain(a *Answer) string {
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
	verdict, _ := a.Decision()
	return fmt.Sprintf("%d %s %s\n\t%s", a.Status, verdict, body, headers(a.Header))
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

func (p *Play) send(base string, c *Case) (*Answer, error) {
	return send(&p.client, base, c.Method, c.Target, c.Body, c.Header)
}

// Send sends one request, with headers as pairs of names and values.
func Send(base, method, target, body string, header ...string) (*Answer, error) {
	return send(http.DefaultClient, base, method, target, body, header)
}

func send(client *http.Client, base, method, target, body string, header []string) (*Answer, error) {
	q, err := http.NewRequest(method, base+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	resp, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return &Answer{resp.StatusCode, resp.Header, string(b)}, nil
}
