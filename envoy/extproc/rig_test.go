package extproc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
)

// toy is a wire format made for these tests: a body is text, an answer is
// lines "id user". The real formats go through the cases.
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
	}
	return memproxy.Route{}, false
}

func (toy) Decode(r memproxy.Route, _ memproxy.Request, body []byte) (*memproxy.Operation, error) {
	op := &memproxy.Operation{Kind: r.Kind}
	switch {
	case strings.Contains(string(body), "malformed"):
		return nil, &memproxy.Malformed{Code: memproxy.PayloadMalformed, Status: 400, Detail: "malformed"}
	case strings.Contains(string(body), "panic"):
		panic("as asked")
	}
	return op, nil
}

func (toy) Encode(_ memproxy.Route, q memproxy.Request, body []byte, op *memproxy.Operation) ([]byte, string, error) {
	if op.Kind == memproxy.Recall && strings.Contains(q.Query, "more") {
		return body, q.Query + "&fields=user", nil
	}
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
	return memproxy.Reply{Status: d.Status, Header: memproxy.Header{"Content-Type": {"application/json"}, "X-Many": {"a", "b"}}, Body: fmt.Appendf(nil, "%q", code)}
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
	wrote  chan memproxy.Event // receives outcomes, if set
}

func (*quiet) Identify(_ context.Context, c memproxy.Credentials) (memproxy.Principal, error) {
	p := memproxy.Principal{ID: "agent:dev", Kind: memproxy.KindAgent, Trust: memproxy.TrustAuthenticated, Users: memproxy.Limit{Values: []string{"ann"}}, ActsAs: memproxy.Limit{All: true}, Apps: memproxy.Limit{All: true}, Runs: memproxy.Limit{All: true}}
	switch {
	case len(c.PeerURIs) > 0:
		p.ID = c.PeerURIs[0]
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

func (q *quiet) Note(ev memproxy.Event) error {
	_, err := q.Record(context.Background(), ev)
	if ev.Type == memproxy.EventOutcome && q.wrote != nil {
		q.wrote <- ev
	}
	return err
}

// rig is a processor with a small Envoy before it and a scripted backend.
type rig struct {
	*httptest.Server
	t      *testing.T
	parts  *quiet
	rules  gate.Rules
	opt    extproc.Options
	serve  extproc.ServerOptions
	envoy  *extproctest.Envoy
	conn   *grpc.ClientConn
	stop   func(context.Context) error
	mu     sync.Mutex
	got    []string
	answer http.HandlerFunc
}

func newRig(t *testing.T, change func(*rig)) *rig {
	t.Helper()
	r := &rig{t: t, parts: &quiet{}, answer: func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "m1 ann\n") }}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		b, _ := io.ReadAll(q.Body)
		r.mu.Lock()
		r.got = append(r.got, fmt.Sprintf("%s %s %s", q.Method, q.RequestURI, b))
		answer := r.answer
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(up.Close)
	r.rules = gate.Rules{
		Version: "v", Profile: gate.Production, Policy: r.parts, Ceilings: memproxy.DefaultCeilings(), Enforce: true,
		Unattributed: access.Visible,
		Lines:        func(memproxy.Principal, memproxy.Kind, string, []string) []memproxy.Line { return nil },
	}
	r.opt = extproc.Options{Backends: []extproc.Backend{{Backend: face.Backend{Name: "toy", Adapter: toy{}}}}}
	r.envoy = &extproctest.Envoy{Upstream: up.URL, Backend: "toy"}
	if change != nil {
		change(r)
	}
	r.opt.Gate = r.newGate()
	p, err := extproc.New(r.opt)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.serve.Processor, r.serve.Authorize = p, true
	r.stop, _ = extproc.Serve(ln, r.serve)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = r.stop(ctx) // some tests stop it themselves
	})
	if r.conn, err = grpc.NewClient(ln.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close() })
	r.envoy.Conn = r.conn
	r.Server = httptest.NewServer(r.envoy)
	t.Cleanup(r.Server.Close)
	return r
}

func (r *rig) newGate() *gate.Gate {
	r.t.Helper()
	var mu sync.Mutex
	n := 0
	g, err := gate.New(gate.Options{
		Identifier: r.parts, Ledger: gate.NoLedger{}, Budget: r.parts, Recorder: r.parts, Signer: r.parts,
		Clock: time.Now, NewID: func() string { mu.Lock(); defer mu.Unlock(); n++; return fmt.Sprintf("d%d", n) },
	}, &r.rules)
	if err != nil {
		r.t.Fatal(err)
	}
	return g
}

// arrived is what reached the backend since it was last asked.
func (r *rig) arrived() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.got
	r.got = nil
	return out
}

func (r *rig) do(method, path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	q, err := http.NewRequest(method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		q.Header.Add(header[i], header[i+1])
	}
	resp, err := (&http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableCompression: true}}).Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp, string(b)
}
