package extproctest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/memproxy/memproxy"
)

// Listener is a sidecar as a client and a security team see it.
type Listener struct {
	// Addr is the address for requests, host:port.
	Addr string
	// Spans returns /debug/spans of the admin listener, and Audit the records
	// as "memproxy audit query --json" prints them.
	Spans func() ([]byte, error)
	Audit func() ([]byte, error)
	// Backend is the backend behind the listener.
	Backend *Backend
}

// Backend gives the answers of a case and records the requests that arrive.
type Backend struct {
	mu      sync.Mutex
	answers map[string]Answer
	arrived []string
}

// NewBackend returns the backend of a case.
func NewBackend(c *Case) *Backend { return &Backend{answers: c.Answers} }

func (b *Backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		body = append(body, " (cut short)"...)
	}
	var s strings.Builder
	if r.Header.Get("Content-Length") == "0" {
		r.Header.Del("Content-Length") // some hops omit it
	}
	fmt.Fprintf(&s, "%s %s\n%s", r.Method, r.RequestURI, lines(r.Header))
	if len(r.TransferEncoding) > 0 {
		fmt.Fprintf(&s, "transfer-encoding: %v\n", r.TransferEncoding)
	}
	if len(body) > 0 {
		fmt.Fprintf(&s, "\n%s\n", body)
	}
	b.mu.Lock()
	if !strings.HasPrefix(r.URL.RawQuery, startup) && r.UserAgent() != memproxy.UserAgent {
		b.arrived = append(b.arrived, s.String())
	}
	a, ok := b.answers[r.Method+" "+r.URL.Path]
	b.mu.Unlock()
	if !ok {
		a = Answer{200, http.Header{"Content-Type": {"application/json"}}, "{}"}
	}
	for k, v := range a.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // the client may have disconnected
}

// startup is the query prefix of the requests that a sidecar sends to a Letta server when
// it starts.
const startup = "stop_reason=requires_approval&order=desc&limit="

// taken returns the requests since the last call.
func (b *Backend) taken() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := b.arrived
	b.arrived = nil
	return out
}

// perHop lists headers that differ from hop to hop or over time.
var perHop = map[string]bool{
	"Connection": true, "Traceparent": true, "Tracestate": true, "X-Request-Id": true, "X-Forwarded-Proto": true, "X-Forwarded-For": true,
	"X-Envoy-External-Address": true, "X-Envoy-Internal": true, "X-Envoy-Expected-Rq-Timeout-Ms": true, "X-Envoy-Upstream-Service-Time": true, "Date": true, "Server": true, "Www-Authenticate-Date": true,
}

func lines(h http.Header) string {
	var s strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if perHop[name] {
			continue
		}
		for _, v := range h[name] {
			fmt.Fprintf(&s, "%s: %s\n", strings.ToLower(name), v)
		}
	}
	return s.String()
}

// Run sends the case's requests through a listener. It returns everything that they
// caused, in a form that is the same for every listener and every run, and a summary: a
// line for each request with status, verdict and reasons, and the requests that arrived
// at the backend.
func (c *Case) Run(l Listener) (all, summary string, err error) {
	var out, sum strings.Builder
	last := ""
	for _, r := range c.Requests {
		got, err := send(l.Addr, r.after(last))
		if err != nil {
			return out.String(), sum.String(), err
		}
		if strings.Contains(got.text, canary) {
			return out.String(), sum.String(), fmt.Errorf("%s is answered with what nobody may see: %s", r.Line, got.text)
		}
		last = got.id
		fmt.Fprintf(&out, "answer %s", got.text)
		fmt.Fprintf(&sum, "%d %s", got.status, got.verdict)
		arrived := l.Backend.taken()
		for _, a := range arrived {
			fmt.Fprintf(&out, "arrived %s", a)
		}
		if got.id != "" {
			told, reasons, err := told(l, got.id)
			if err != nil {
				return out.String(), sum.String(), err
			}
			out.WriteString(told)
			for _, r := range reasons {
				sum.WriteString(" " + r)
			}
		}
		for _, a := range arrived {
			line, _, _ := strings.Cut(a, "\n")
			sum.WriteString("\n  arrived " + line)
		}
		out.WriteString("\n")
		sum.WriteString("\n")
	}
	return Normalize(out.String()), Normalize(sum.String()), nil
}

// canary must not be in any answer.
const canary = "canary"

var decision = regexp.MustCompile(`^(\w+); id=([0-9a-f-]{36})`)

type sent struct {
	text        string
	status      int
	verdict, id string
}

func send(addr string, r Request) (got sent, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return sent{}, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return sent{}, err
	}
	if _, err := conn.Write(r.bytes()); err != nil {
		return sent{}, err
	}
	method, _, _ := strings.Cut(r.Line, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return sent{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sent{}, err
	}
	got = sent{text: fmt.Sprintf("%d\n%s", resp.StatusCode, lines(resp.Header)), status: resp.StatusCode, verdict: "pass"}
	if len(body) > 0 {
		got.text += fmt.Sprintf("\n%s\n", body)
	}
	if m := decision.FindStringSubmatch(resp.Header.Get("X-Memproxy-Decision")); m != nil {
		got.verdict, got.id = m[1], m[2]
	}
	return got, nil
}

// told returns the decision as shown in the span and the audit log. It waits for the
// outcome, which is recorded after the answer.
func told(l Listener, id string) (text string, reasons []string, err error) {
	var last error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		span, err := spanOf(l, id)
		if err != nil {
			last = err
			continue
		}
		records, reasons, complete, err := recordsOf(l, id)
		if err != nil || !complete {
			last = errors.Join(err, errOutcome)
			continue
		}
		return span + records, reasons, nil
	}
	return "", nil, last
}

var (
	errSpan    = errors.New("the decision has no server span yet")
	errOutcome = errors.New("the decision has no outcome yet")
)

func spanOf(l Listener, id string) (string, error) {
	raw, err := l.Spans()
	if err != nil {
		return "", err
	}
	var spans []struct {
		Name       string         `json:"name"`
		Attributes map[string]any `json:"attributes"`
		Steps      []struct {
			Name string `json:"name"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(raw, &spans); err != nil {
		return "", err
	}
	for _, s := range spans {
		if s.Attributes["memproxy.decision.id"] != id {
			continue
		}
		var b strings.Builder
		fmt.Fprintf(&b, "span %s\n", s.Name)
		for _, k := range slices.Sorted(maps.Keys(s.Attributes)) {
			fmt.Fprintf(&b, "%s: %v\n", k, s.Attributes[k])
		}
		var steps []string
		for _, st := range s.Steps {
			steps = append(steps, st.Name)
		}
		slices.Sort(steps) // steps within the same microsecond have no order
		fmt.Fprintf(&b, "steps: %s\n", strings.Join(steps, ", "))
		return b.String(), nil
	}
	return "", errSpan
}

// recordsOf returns the records of a decision. complete reports whether the outcome is
// among them, or none will follow.
func recordsOf(l Listener, id string) (text string, reasons []string, complete bool, err error) {
	raw, err := l.Audit()
	if err != nil {
		return "", nil, false, err
	}
	var b strings.Builder
	for line := range bytes.Lines(raw) {
		if !bytes.Contains(line, []byte(id)) {
			continue
		}
		var rec map[string]any
		if err := json.Unmarshal(line, &rec); err != nil {
			return "", nil, false, err
		}
		for _, k := range [...]string{"event_time", "time", "index", "trace", "prev_hash"} {
			delete(rec, k)
		}
		kind, _ := rec["type"].(string)
		if strings.HasPrefix(kind, "budget_") || kind == "version" || kind == "compaction" {
			continue // recorded separately, after the decision
		}
		v, _ := rec["verdict"].(string)
		complete = complete || v == "deny" || v == "hold" || kind == "outcome"
		list, _ := rec["reasons"].([]any)
		for _, r := range list {
			m, _ := r.(map[string]any)
			reasons = append(reasons, fmt.Sprint(m["code"]))
		}
		js, err := json.Marshal(rec)
		if err != nil {
			return "", nil, false, err
		}
		fmt.Fprintf(&b, "audit %s\n", js)
	}
	return b.String(), reasons, complete, nil
}

// changing lists patterns of values that differ from run to run.
var changing = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`), "DECISION"},
	{regexp.MustCompile(`("(?:memproxy_ts|memproxy_received_at|received_at|created_at|updated_at|written)":")[^"]*"`), `${1}TIME"`},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)`), "TIME"}, // sentences may contain times, too
	{regexp.MustCompile(`("memproxy_meta":")[^"]+"`), `${1}METADATA"`},
	{regexp.MustCompile(`("memproxy_sig":")[^"]*"`), `${1}SIGNATURE"`},
	{regexp.MustCompile(`("reason":"budget.rapid_writes"[^}]*"used":)\d+`), "${1}N"}, // counts within the minute
	{regexp.MustCompile(`("reset":")[^"]*"`), `${1}TIME"`},
	{regexp.MustCompile(`(?m)^((?:retry-after|x-ratelimit-reset): )\d+$`), "${1}N"},
}

// Normalize replaces what differs between two runs of a case: ids, times and signatures.
func Normalize(s string) string {
	for _, c := range changing {
		s = c.re.ReplaceAllString(s, c.with)
	}
	return s
}

// Diff returns the differences between what two listeners do.
func Diff(want, got string) string {
	return string(diff.Diff("want", []byte(want), "got", []byte(got)))
}
