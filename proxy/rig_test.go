package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/proxy"
)

// toy is a wire format made for these tests: a body is text, an answer is
// lines "id user". The real formats are tested with their adapters.
type toy struct{}

func (toy) Name() string { return "toy" }

func (toy) Route(q memproxy.Request) (memproxy.Route, bool) {
	switch q.EscapedPath {
	case "/memory":
		if q.Method == "POST" {
			return memproxy.Route{ID: "toy.add", Kind: memproxy.Learn}, true
		}
		return memproxy.Route{ID: "toy.list", Kind: memproxy.Recall}, true
	case "/run":
		return memproxy.Route{ID: "toy.run", Kind: memproxy.Run}, true
	case "/ping":
		return memproxy.Route{ID: "toy.ping", Kind: memproxy.Other, Pass: true}, true
	case "/health":
		return memproxy.Route{ID: "toy.health", Kind: memproxy.Other, Pass: true, Public: true}, true
	case "/keys", "/stream", "/moved", "/custom/known":
		return memproxy.Route{ID: "toy.other", Kind: memproxy.Other, Pass: true}, true
	}
	return memproxy.Route{}, false
}

func (toy) Decode(r memproxy.Route, _ memproxy.Request, body []byte) (*memproxy.Operation, error) {
	op := &memproxy.Operation{Kind: r.Kind}
	if r.Kind == memproxy.Learn {
		op.Cost = 1
		op.Items = []memproxy.Item{{Kind: memproxy.ItemContent, Text: string(body)}}
	}
	if strings.Contains(string(body), "malformed") {
		return nil, &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400, Detail: "malformed"}
	}
	return op, nil
}

func (toy) Encode(_ memproxy.Route, q memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	if op.Stamp != nil {
		return append([]byte(op.Stamp.Actor+" says: "), body...), q.Query, nil
	}
	return body, q.Query, nil
}

func (toy) Refuse(_ memproxy.Request, d memproxy.Decision) memproxy.Reply {
	var code memproxy.ReasonCode
	if len(d.Reasons) > 0 {
		code = d.Reasons[0].Code
	}
	return memproxy.Reply{Status: d.Status, Header: memproxy.Header{"Content-Type": {"application/json"}}, Body: fmt.Appendf(nil, "%q", code)}
}

func (toy) Read(_ memproxy.Route, _ memproxy.Request, r memproxy.Reply) (*memproxy.Reading, error) {
	if strings.Contains(string(r.Body), "unreadable") {
		return nil, errors.New("unreadable")
	}
	rd := &memproxy.Reading{}
	for line := range strings.Lines(string(r.Body)) {
		id, user, _ := strings.Cut(strings.TrimSpace(line), " ")
		rd.Memories = append(rd.Memories, memproxy.Memory{ID: id, Pointer: fmt.Sprint("/", len(rd.Memories)), Scope: memproxy.Scope{User: user}})
	}
	return rd, nil
}

func (toy) Rewrite(_ memproxy.Route, _ memproxy.Request, r memproxy.Reply, rd *memproxy.Reading) ([]byte, error) {
	var out []byte
	dropped := false
	for _, m := range rd.Memories {
		if m.Drop {
			dropped = true
			continue
		}
		out = fmt.Appendf(out, "%s %s\n", m.ID, m.Scope.User)
	}
	if !dropped {
		return r.Body, nil
	}
	return out, nil
}

// quiet is every collaborator of the gate in its simplest form.
type quiet struct {
	mu     sync.Mutex
	events []memproxy.Event
	wrote  chan memproxy.Event // receives outcomes
}

func (*quiet) Identify(_ context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	p := memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Users: memproxy.Limit{Values: []string{"ann"}}, ActsAs: memproxy.Limit{All: true}, Apps: memproxy.Limit{All: true}, Runs: memproxy.Limit{All: true}}
	switch {
	case len(c.PeerURIs) > 0:
		p.ID = c.PeerURIs[0]
	case c.Header.Get("X-Key") == "mallory":
		p.ID, p.Tenant = "agent:mallory", "evil"
	case c.Header.Get("X-Key") == "bad":
		return memproxy.Principal{}, &memproxy.Rejected{Code: memproxy.IdentityInvalid}
	}
	return p, nil
}

func (*quiet) Charge(context.Context, memproxy.Charge) (memproxy.Allowance, error) {
	return memproxy.Allowance{Granted: true, Refused: -1}, nil
}
func (*quiet) Release(context.Context, memproxy.Charge) error { return nil }
func (*quiet) Sign(s memproxy.Stamp) memproxy.Stamp           { return s }
func (*quiet) Verify(memproxy.Stamp) bool                     { return false }
func (*quiet) Rule(context.Context, memproxy.Question) (memproxy.Ruling, error) {
	return memproxy.Ruling{}, nil
}

func (q *quiet) Record(_ context.Context, ev memproxy.Event) (memproxy.Receipt, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, ev)
	return memproxy.Receipt{}, nil
}

// recorded is what was recorded so far.
func (q *quiet) recorded() []memproxy.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]memproxy.Event(nil), q.events...)
}

func (q *quiet) Note(ev memproxy.Event) error {
	_, err := q.Record(context.Background(), ev)
	if ev.Type == memproxy.EventOutcome && q.wrote != nil {
		q.wrote <- ev
	}
	return err
}

// arrived is what reached the upstream.
type arrived struct {
	target string
	header http.Header
	body   string
}

// rig is a proxy in front of a scripted upstream.
type rig struct {
	*httptest.Server
	parts    *quiet
	upstream *httptest.Server
	mu       sync.Mutex
	got      []arrived
	answer   http.HandlerFunc
	opt      proxy.Options
	rules    gate.Rules
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	r := &rig{parts: &quiet{}, answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m1 ann\n") }}
	r.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got = append(r.got, arrived{q.RequestURI, q.Header.Clone(), string(b)})
		answer := r.answer
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.upstream.Close)
	u, err := url.Parse(r.upstream.URL)
	if err != nil {
		t.Fatal(err)
	}
	r.opt = proxy.Options{Backend: face.Backend{Name: "toy", Adapter: toy{}, Upstream: u}}
	r.rules = gate.Rules{
		Version: "v", Profile: gate.Production, Policy: r.parts, Enforce: true, Unattributed: access.Visible, Lines: noLines,
	}
	if change != nil {
		change(r)
	}
	g, err := newGate(r.parts, &r.rules)
	if err != nil {
		t.Fatal(err)
	}
	r.opt.Gate = g
	p, err := proxy.New(r.opt)
	if err != nil {
		t.Fatal(err)
	}
	r.Server = httptest.NewServer(p)
	t.Cleanup(r.Server.Close)
	return r
}

// newGate is a gate of the simplest parts.
func newGate(parts *quiet, rules *gate.Rules) (*gate.Gate, error) {
	var n atomic.Int64
	rules.Ceilings = memproxy.DefaultCeilings()
	return gate.New(gate.Options{
		Identifier: parts, Ledger: gate.NoLedger{}, Budget: parts, Recorder: parts, Signer: parts,
		Clock: time.Now, NewID: func() string { return fmt.Sprint("d", n.Add(1)) },
	}, rules)
}

func noLines(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line { return nil }

// last is the request that reached the upstream last.
func (r *rig) last(t *testing.T) arrived {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.got) == 0 {
		t.Fatal("nothing reached the upstream")
	}
	return r.got[len(r.got)-1]
}

func (r *rig) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.got)
}

func (r *rig) do(t *testing.T, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	resp, said, err := r.take(t, method, path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, said
}

// take is do for an answer that may be torn, which the error says.
func (r *rig) take(t *testing.T, method, path, body string, header ...string) (*http.Response, string, error) {
	t.Helper()
	q, err := http.NewRequest(method, r.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header[header[i]] = append(q.Header[header[i]], header[i+1])
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}
