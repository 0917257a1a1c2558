package review

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
)

const (
	// DefaultTimeout limits the time that one request may take in the store.
	DefaultTimeout = 10 * time.Second
	maxBody        = 64 << 10 // maximum size of a request's body in bytes
)

// Options configure the API.
type Options struct {
	RunnerOptions
	Sessions  SessionStore
	Reviewers []Reviewer
	Integrity Integrity
	Jobs      Jobs
	// Backends are the backends that a list's filter accepts. If it is nil, every name is
	// accepted.
	Backends []BackendName
	// Names returns the names that callers can have now.
	Names func() memproxy.CallerNames
	// Need is the number of distinct reviewers that must agree on a hold or a promotion;
	// values below 1 count as 1.
	Need  int
	NewID func() string
}

// API serves the review of held writes, memories and sessions.
type API struct {
	// Runner sends what is approved.
	Runner  *Runner
	opt     Options
	mux     *http.ServeMux
	confirm []byte // key of the HMAC of confirmations for original content
}

// routes returns a handler that serves the API to the reviewers that who identifies.
func (a *API) routes(who func(*http.Request) (Reviewer, bool)) *http.ServeMux {
	mux := http.NewServeMux()
	for _, rt := range routes() {
		mux.Handle(rt.method+" "+rt.path, a.serve(rt, who))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		// The mux itself would answer a wrong method on a known path in plain text, and
		// would let unauthenticated clients distinguish known paths from unknown ones.
		if _, known := who(r); !known {
			a.refuse(w, r, problemUnauthorized())
		} else if methods := methodsOf(mux, r); methods != "" {
			w.Header().Set("Allow", methods)
			a.refuse(w, r, problem(http.StatusMethodNotAllowed, "method", "this route supports "+methods))
		} else {
			a.refuse(w, r, problem(http.StatusNotFound, "unknown", "no such route"))
		}
	})
	return mux
}

// methodsOf lists the methods that routes have for a request's path; "" for a path
// without a route.
func methodsOf(mux *http.ServeMux, r *http.Request) string {
	var methods []string
	for _, method := range [...]string{http.MethodGet, http.MethodHead, http.MethodPost} {
		asked := *r
		asked.Method = method
		if _, pattern := mux.Handler(&asked); pattern != "/" {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// New returns the API. The admin listener serves it under /v1/.
func New(opt Options) *API {
	opt.Need = max(1, opt.Need)
	a := &API{Runner: NewRunner(opt.RunnerOptions), opt: opt, confirm: make([]byte, 32)}
	a.opt.RunnerOptions = a.Runner.opt
	_, _ = rand.Read(a.confirm) // never fails
	a.mux = a.routes(a.bearer)
	return a
}

// ServeHTTP makes the API an http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.mux.ServeHTTP(w, r) }

// call is one request of an authenticated reviewer.
type call struct {
	api *API
	req *http.Request
	who Reviewer
	// gone ends when the client disconnects. The request's own context also ends after
	// the timeout for the store.
	gone context.Context
	// act is the action's name in the audit log, reason the reviewer's reason, and
	// attempt the record of the attempt, once it is written.
	act, reason string
	attempt     *memproxy.Event
	// found is the finding, and versions the version, whose original text is shown.
	found    []memproxy.Finding
	versions []memproxy.VersionChange
	progress memproxy.Progress // receives the progress of a long request, for the client; or nil
}

// ProgressHeader requests interim answers with status 102 during a long request. Each
// interim answer has the same header, with the amount done and, if the total is known, a
// slash and the total.
const ProgressHeader = "X-Memproxy-Progress"

// progressWriter reports progress to a client that requests it, if the reviewer may see all
// tenants.
func progressWriter(w http.ResponseWriter, r *http.Request, who Reviewer) memproxy.Progress {
	if r.Header.Get(ProgressHeader) == "" || !who.Tenants.All {
		return nil
	}
	return func(done, total int64) {
		text := strconv.FormatInt(done, 10)
		if total > 0 {
			text += "/" + strconv.FormatInt(total, 10)
		}
		w.Header().Set(ProgressHeader, text)
		w.WriteHeader(http.StatusProcessing)
		w.Header().Del(ProgressHeader)
	}
}

func (a *API) serve(rt route, known func(*http.Request) (Reviewer, bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok := known(r)
		if !ok {
			a.refuse(w, r, problemUnauthorized())
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), a.opt.Timeout)
		defer cancel()
		c := &call{api: a, req: r.WithContext(ctx), who: who, gone: r.Context(), act: rt.act}
		if rt.long {
			c.progress = progressWriter(w, r, who)
		}
		var answer any
		err := error(problem(http.StatusForbidden, "role", "this requires the role "+string(rt.role())))
		if c.has(rt.role()) {
			if err = rt.readable(r.URL.RawQuery); err == nil {
				answer, err = rt.handle(c)
			}
		} else if rt.in != nil {
			_ = c.body(new(any)) // for the record; any body is refused
		}
		c.recordOutcome(answer, err)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		write(w, http.StatusOK, answer)
	})
}

// readable refuses an ambiguous query: a filter that is repeated, malformed or misspelled
// must not be ignored.
func (rt route) readable(query string) error {
	values, err := url.ParseQuery(query)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.ContainsFunc(rt.query, func(p param) bool { return p.name == name }) {
			return badRequest(fmt.Sprintf("unknown parameter %+.40q; %s", name, rt.parameters()))
		}
		if len(values[name]) > 1 {
			return badRequest(fmt.Sprintf("the parameter %q is repeated", name))
		}
	}
	if size := values.Get(limitParam); rt.pages != nil && values.Has(limitParam) {
		if n, err := strconv.Atoi(size); err != nil || n < 1 || n > maxPage {
			return badRequest(fmt.Sprintf("%s is a number from 1 to %d", limitParam, maxPage))
		}
	}
	if err != nil {
		return badRequest("the query is malformed")
	}
	return nil
}

func (rt route) parameters() string {
	if len(rt.query) == 0 {
		return "this route has no parameters"
	}
	names := make([]string, len(rt.query))
	for i, p := range rt.query {
		names[i] = p.name
	}
	return "there are " + strings.Join(names, ", ")
}

func write(w http.ResponseWriter, status int, v any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, v, cli.EmptyLists) // the client may have disconnected
	_, _ = io.WriteString(w, "\n")
}

func (c *call) allowed(tenant string) bool { return c.who.Tenants.Allows(tenant) }

func (c *call) has(role Role) bool { return slices.Contains(c.who.Roles, role) }

func (c *call) ctx() context.Context { return c.req.Context() }

func (c *call) review(reason string) memproxy.Review {
	return memproxy.Review{Reviewer: c.who.ID, Note: reason, Need: c.api.opt.Need, Eligible: c.api.eligible}
}

// errAudit means that the audit log could not be written.
var errAudit = errors.New("the audit log cannot be written")

// Problem is a refusal of the API, and the body of every unsuccessful answer. It quotes no
// user data.
type Problem struct {
	Status int    `json:"-"`
	Code   string `json:"error"`
	Detail string `json:"detail"`
	// Confirm is the confirmation with which the request must be repeated.
	Confirm string `json:"confirm,omitempty"`
}

// Error returns the detail, in one line.
func (p Problem) Error() string { return cli.Line(p.Detail) }

// Misuse makes a request that is wrong one of a wrong command line.
func (p Problem) Misuse() bool { return p.Status == http.StatusBadRequest }

func problem(status int, code, detail string) Problem {
	return Problem{Status: status, Code: code, Detail: detail}
}

func problemUnauthorized() Problem {
	return problem(http.StatusUnauthorized, "unauthorized", fmt.Sprintf("a token of a reviewer (review.reviewers in the configuration) is required; a token has at least %d characters", minToken))
}

func badRequest(detail string) Problem { return problem(http.StatusBadRequest, "bad_request", detail) }

func notFound() Problem { return problem(http.StatusNotFound, "unknown", unknown[""]) }

// unknown has the messages for missing objects, by the first part of the path after the
// version.
var unknown = map[string]string{
	"": "object not found", "holds": "held write not found; list them with memproxy holds list",
	"memories": "memproxy has no record of this memory, or not of this version or placeholder", "sessions": "session not found; list them with memproxy sessions list --all",
	"sweep": "backend not found",
	"seal":  "backend not found, or not a tenant that you review", "chains": "chain not found among the tenants that you review",
}

// refusals maps a store's refusals to the API's.
var refusals = [...]struct {
	no error
	Problem
}{
	{memproxy.ErrUnknown, notFound()},
	{memproxy.ErrState, problem(http.StatusConflict, "state", "the current state does not allow this")},
	{memproxy.ErrForged, problem(http.StatusConflict, "forged", "the ledger's record of this write, or of its approval, was changed outside of memproxy; it was not sent")},
	{memproxy.ErrOwnReview, problem(http.StatusForbidden, "own_review", "authors may not review their own writes")},
	{memproxy.ErrGone, problem(http.StatusGone, "gone", "the content was destroyed, or given up for newer versions")},
	{memproxy.ErrRefused, badRequest("invalid argument")},
}

// problemOf returns the refusal for an error: a store's refusal by its kind, and 503 for
// any other error.
func problemOf(err error) Problem {
	if p, ok := errors.AsType[Problem](err); ok {
		return p
	}
	for _, r := range refusals {
		if !errors.Is(err, r.no) {
			continue
		}
		p := r.Problem
		if r.no == memproxy.ErrState || r.no == memproxy.ErrRefused { // stores say what they miss, and quote nothing that a caller of a backend wrote
			_, why, _ := strings.Cut(err.Error(), r.no.Error()+": ")
			why, _, _ = strings.Cut(why, "\n")
			p.Detail = cmp.Or(why, p.Detail)
		}
		return p
	}
	return unavailable
}

var unavailable = problem(http.StatusServiceUnavailable, "unavailable", "temporarily unavailable: see \"review failed\" in the sidecar's log, and /readyz for the part that failed")

func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	if p == unavailable {
		w.Header().Set("Retry-After", "1")
		a.opt.Log.ErrorContext(r.Context(), "review failed", "path", r.Pattern, "error", err)
		if errors.Is(err, errAudit) {
			p.Detail = "the audit log cannot be written, so nothing was done"
		} else if unread, ok := errors.AsType[*UnreadableError](err); ok {
			p.Detail = unread.Error()
		}
	}
	if p == notFound() {
		part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
		p.Detail = cmp.Or(unknown[part], p.Detail)
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="memproxy review"`)
	}
	write(w, p.Status, p)
}
