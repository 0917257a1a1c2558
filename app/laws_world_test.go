package app_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/memproxy/memproxy/app"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/extproc"
	"github.com/memproxy/memproxy/envoy/extproc/extproctest"
	"github.com/memproxy/memproxy/internal/must"
)

// A world is one sidecar in a synctest bubble in front of an embedded backend, with
// callers of two tenants and four reviewers. A sequence is a list of random steps, such as
// a write, an approval, a restart, an outage or a background job (laws_steps_test.go).
// After every step the laws are checked (laws_test.go, laws_end_test.go): they compare what the
// backend held before and after the step with what the step may do, and what callers are
// shown with what they may see.

// lawCaller has a key of the sidecar.
type lawCaller struct {
	key, id, tenant, trust string
	ceiling                float64 // of its confidences
	human, reviewer        bool
	users                  []string // the only users that it may name; nil: all of its tenant
}

var lawCallers = []lawCaller{
	{"dev", "agent:dev", "acme", "authenticated", 0.7, false, false, nil},
	{"peer", "agent:peer", "acme", "authenticated", 0.7, false, false, nil},
	{"better", "agent:better", "acme", "established", 0.9, false, false, nil},
	{"human", "human:ann", "acme", "human", 1, true, false, nil},
	{"low", "agent:low", "acme", "anonymous", 0.3, false, false, nil},
	{"looker", "agent:looker", "acme", "authenticated", 0.7, false, true, nil},
	{"anns", "agent:anns", "acme", "authenticated", 0.7, false, false, []string{"ann"}},
	{"rival", "agent:rival", "globex", "authenticated", 0.7, false, false, nil},
	{"boss", "human:boss", "globex", "human", 1, true, false, nil},
}

var lawUsers = map[string][]string{"acme": {"ann", "bob"}, "globex": {"gil", "hal"}}

// lawReviewers have tokens of the admin listener; the last one is also a caller.
var lawReviewers = []struct {
	token, id string
	tenants   []string
}{
	{"token-of-eve-long-enough-1", "eve", []string{"acme", "globex"}},
	{"token-of-max-long-enough-2", "max", []string{"acme"}},
	{"token-of-gus-long-enough-3", "gus", []string{"globex"}},
	{"token-of-dev-long-enough-4", "agent:dev", []string{"acme"}},
}

// lawSettings is what differs between the configurations of worlds.
type lawSettings struct {
	approvals         int    // that a held write needs; 0: one
	memories, budgets string // YAML
	lock              int    // rejections for one user that lock a caller's writes; 0: never
}

var lawSettingsOf = []lawSettings{
	{},
	{memories: ", pending: [anonymous]"},
	{approvals: 2},
	{memories: ", pending: [anonymous, authenticated], quiet: 7d"},
	{budgets: "budgets: {default: {writes_per_hour: 6, writes_total: 9}, anonymous: {writes_per_hour: 3, writes_total: 4}, together: 1}\n"},
	{lock: 3},
}

// config is the configuration as the callers are now.
func (w *lawWorld) config() string {
	var b strings.Builder
	fmt.Fprintf(&b, "profile: production\nstate: %s\nadmin: {listen: \"127.0.0.1:0\"}\nlog: {level: warn}\n%s", w.state(), w.settings.budgets)
	fmt.Fprintf(&b, "backends:\n  - {name: mem0, kind: %s, listen: \"127.0.0.1:0\", upstream: %q}\nidentity:\n  keys:\n", w.kind.name, cmp.Or(w.upstream, "http://127.0.0.1:9"))
	for _, p := range w.callers {
		kind, roles, users := "agent", "", ""
		if p.human {
			kind, roles = "human", ", roles: [memproxy-forget]"
		}
		if p.reviewer {
			roles = ", roles: [memproxy-reviewer]"
		}
		if p.users != nil {
			users = ", users: [" + strings.Join(p.users, ",") + "]"
		}
		fmt.Fprintf(&b, "    - {sha256: %q, id: %q, kind: %s, trust: %s, tenant: %s, acts_as: \"*\"%s%s}\n", sha(p.key+"-key"), p.id, kind, p.trust, p.tenant, roles, users)
	}
	fmt.Fprintf(&b, "review:\n  need: %d\n  reviewers:\n", max(1, w.settings.approvals))
	for _, r := range lawReviewers {
		fmt.Fprintf(&b, "    - {id: %q, sha256: %q, roles: [view, review, content], tenants: [%s]}\n", r.id, sha(r.token), strings.Join(r.tenants, ","))
	}
	fmt.Fprintf(&b, "sessions: {max_rejections: 0, max_user_rejections: %d, max_principal_rejections: 0}\nlimits: {rejections: 0}\n", w.settings.lock)
	b.WriteString("memories: {validate: 0, seal: false, sweep: 0, ttl: {default: 30d, \"source:untrusted\": 5d}, archive: 60d" + w.settings.memories + "}\n")
	return b.String()
}

// saidText is a text that a caller tried to write. Its word occurs in no other text.
type saidText struct {
	word, tenant, user string
	by                 *lawCaller
	kind               textKind
}

type waitingTurn struct {
	by    *lawCaller
	agent string
}

type textKind int

const (
	kindHarmless textKind = iota
	kindSuspicious
	kindPoison
)

var lawWord = regexp.MustCompile(`(?:acmeq|globq)[a-z]{4}`)

// says makes a text of a caller.
func (w *lawWorld) says(p *lawCaller, user string, kind textKind) (word, text string) {
	n := len(w.said)
	word = map[string]string{"acme": "acmeq", "globex": "globq"}[p.tenant] + string([]byte{byte('b' + n/676%20), byte('a' + n/26%26), byte('a' + n%26), 'x'})
	w.said[word] = &saidText{word, p.tenant, user, p, kind}
	return word, map[textKind]string{
		kindHarmless: "Ann keeps bees at ", kindSuspicious: suspicious + " See ", kindPoison: poison + " See ",
	}[kind] + word + "."
}

// storedMemory is a memory as the backend has it.
type storedMemory struct {
	user, text, actor string
	confidence        float64
	attestation       string
	block             bool // of Letta
}

// lawMemory is what the test knows about a memory that it saw in the backend.
type lawMemory struct {
	id, tenant, user string
	block            bool
	author           *lawCaller
	ranks            map[string]float64 // the ceilings of all who wrote or changed it, by key
	word             string
	words            []string // of all texts that it ever had
	written          time.Time
	again            time.Time       // when the text that it has may have been written once more
	source           string          // of its text, as its writer claimed
	lives            []time.Duration // of all texts that it ever had
	unanswered       bool            // its addition had no answer, and it has no stamp by which it is recognised
	gone             bool
	goneUnseen       bool // while its deletion had no answer
}

// lawHold is a write that was held for review.
type lawHold struct {
	id, target, user, word, source string
	by                             *lawCaller
	approvers                      []string
	settled                        bool
}

// fault is what goes wrong with the next write that reaches the backend.
type fault string

const (
	noFault      fault = ""
	refusedFault fault = "the connection is refused"
	brokenFault  fault = "the backend answers 500"
	badFault     fault = "the backend answers 400"
	lostFault    fault = "the answer is lost"
	awayFault    fault = "the answer is lost and the backend away"
	crashBefore  fault = "memproxy is killed before the backend has it"
	crashAfter   fault = "memproxy is killed before it has the answer"
)

// lawWorld is the state of a sequence.
type lawWorld struct {
	t        *testing.T
	dir      string
	settings lawSettings
	callers  []lawCaller
	dice     *rand.Rand // of the step
	passed   time.Duration
	car      *process
	conn     *grpc.ClientConn
	envoy    http.Handler
	kind     *lawKind
	back     http.Handler
	agents   map[string]string // of Letta: ids by name
	upstream string            // the backend's address, for commands
	log      *lockedBuffer

	mu     sync.Mutex
	fault  fault
	faulty bool     // a fault was injected
	away   int      // steps for which the backend answers nothing
	sent   []string // words in the writes that the step sent to the backend
	kept   bool     // the state was copied at a crash
	states int      // copies of the state

	said     map[string]*saidText
	memories map[string]*lawMemory
	ids      []string // of memories, in the order of their creation
	holds    map[string]*lawHold
	holdIDs  []string
	answered map[string]string // verdicts by decision
	rejected map[string]int    // writes by caller
	unknown  map[string]int64  // additions and deletions without an answer, by author
	last     func()            // repeats the last write
	// waiting are the turns without an answer: the calls of one may wait at its agent, and go
	// on with the next turn that the same caller begins there.
	waiting map[string]waitingTurn // by word
	broken  string
	trace   []string
}

// RoundTrip is the backend as the sidecar reaches it, with its faults.
func (w *lawWorld) RoundTrip(q *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var body []byte
	if q.Body != nil {
		body, _ = io.ReadAll(q.Body)
	}
	q.Body = io.NopCloser(bytes.NewReader(body))
	fault, path := noFault, q.URL.Path
	if q.Method == "PUT" || q.Method == "DELETE" || w.kind.writes(q.Method, path) {
		fault, w.fault = w.fault, noFault
		w.sent = append(w.sent, lawWord.FindAllString(string(body)+q.URL.String(), -1)...)
	}
	if w.away > 0 || fault == refusedFault {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	rec := httptest.NewRecorder()
	switch fault {
	case brokenFault:
		return response(q, http.StatusInternalServerError), nil
	case badFault:
		return response(q, http.StatusBadRequest), nil
	case crashBefore:
		w.keepState()
	default:
		w.back.ServeHTTP(rec, q)
	}
	switch fault {
	case noFault:
		return rec.Result(), nil
	case crashAfter:
		w.keepState()
	case awayFault:
		w.away = 2
	}
	return nil, errors.New("connection reset")
}

// keepState copies the files that a killed process leaves. The process itself goes on
// until it is stopped, with the old ones.
func (w *lawWorld) keepState() {
	from := w.state()
	w.states++
	w.kept = true
	w.must(os.CopyFS(w.state(), os.DirFS(from)))
	w.must(filepath.WalkDir(w.state(), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()])
	}))
}

func (w *lawWorld) now() time.Time { return time.Now().Add(w.passed) }

func (w *lawWorld) state() string { return filepath.Join(w.dir, fmt.Sprint("state", w.states)) }

func (w *lawWorld) caller(key string) *lawCaller {
	return &w.callers[slices.IndexFunc(w.callers, func(p lawCaller) bool { return p.key == key })]
}

func (w *lawWorld) parsed() *config.Config {
	return unwatched(must.Get(config.Parse("memproxy.yaml", []byte(w.config()), os.Getenv))(w.t))
}

// run starts the sidecar with both front ends.
func (w *lawWorld) run() {
	cfg := w.parsed()
	w.car = must.Get(assemble(context.Background(), cfg, app.Options{Log: w.log, Getenv: allowing(cfg), Version: "test", Transport: w, Clock: w.now, TimeoutFactor: 10}, app.Process{Uptime: believed(w.now)}))(w.t)
	ln := bufconn.Listen(1 << 20)
	stop, failed := extproc.Serve(extproc.Limit(ln), extproc.ServerOptions{Processor: must.Get(w.car.Processor(false))(w.t)})
	w.car.Group.Serve(stageListeners, "extproc", stop, failed)
	w.conn = must.Get(grpc.NewClient("passthrough:envoy", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return ln.DialContext(ctx) })))(w.t)
	w.envoy = &extproctest.Envoy{Conn: w.conn, Upstream: "http://127.0.0.1:9", Backend: "mem0", Transport: w}
	synctest.Wait()
}

func (w *lawWorld) stop() {
	if w.car == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w.must(w.conn.Close())
	w.must(w.car.Close(ctx))
	w.car = nil
}

// ask sends a request to one of the two front ends, and checks what holds for all answers.
func (w *lawWorld) ask(p *lawCaller, method, path, body string) got {
	handler := w.car.Handler("mem0")
	// The simulated Envoy tells no lost answer from a refused connection, and does not gate runs.
	if w.dice.IntN(4) == 0 && w.fault == noFault && w.away == 0 && !strings.HasSuffix(path, "/messages") {
		handler = w.envoy
	}
	a := w.send(handler, method, path, body, "X-API-Key", p.key+"-key")
	w.checkAnswer(p, method, path, a)
	return a
}

// review sends a reviewer's request.
func (w *lawWorld) review(reviewer int, path, body string) got {
	return w.send(w.car.Handler("admin"), "POST", "http://127.0.0.1"+path, body, "Authorization", "Bearer "+lawReviewers[reviewer].token)
}

func (w *lawWorld) send(to http.Handler, method, url, body, header, value string) got {
	q := httptest.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if body != "" {
		q.Header.Set("Content-Type", "application/json")
	}
	q.Header.Set(header, value)
	rec := httptest.NewRecorder()
	to.ServeHTTP(rec, q)
	synctest.Wait()
	return got{status: rec.Code, header: rec.Header(), body: rec.Body.String()}
}

func (w *lawWorld) note(format string, args ...any) {
	w.trace = append(w.trace, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// breaks ends the sequence. The first law that is broken counts.
func (w *lawWorld) breaks(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.note("BROKEN: %s", w.broken)
	}
}
