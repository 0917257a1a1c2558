package review

import (
	"cmp"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
)

// errAudit reports that the audit log could not be written.
var errAudit = errors.New("the audit log cannot be written")

// problem is a refusal of the API. As an error it quotes no user data.
type problem struct {
	status int
	code   string
	detail string
}

func (p problem) Error() string { return p.code + ": " + p.detail }

// Problem is the body of every answer that is not a success.
type Problem struct {
	Error  string `json:"error"`
	Detail string `json:"detail"`
	// Confirm is the confirmation to repeat the request with.
	Confirm string `json:"confirm,omitempty"`
}

func problemUnauthorized() problem {
	return problem{http.StatusUnauthorized, "unauthorized", "a token of a reviewer (review.reviewers in the configuration) is required"}
}

func badRequest(detail string) problem { return problem{http.StatusBadRequest, "bad_request", detail} }

func notFound() problem { return problem{http.StatusNotFound, "unknown", unknown[""]} }

// unknown has the messages for missing objects, by the first part of the path after the
// version.
var unknown = map[string]string{
	"": "there is no such object", "holds": "there is no such held write; memproxy holds list shows them",
	"memories": "memproxy has no record of this memory, or not of this version", "sessions": "there is no such session; memproxy sessions list --all shows them",
	"jobs": "there is no such job; memproxy upkeep list shows them",
}

// refusals maps a store's refusals to those of the API.
var refusals = [...]struct {
	no error
	problem
}{
	{memproxy.ErrUnknown, notFound()},
	{memproxy.ErrState, problem{http.StatusConflict, "state", "the present state does not allow this"}},
	{memproxy.ErrOwnReview, problem{http.StatusForbidden, "own_review", "authors may not review their own writes"}},
	{memproxy.ErrGone, problem{http.StatusGone, "gone", "the content was destroyed"}},
	{memproxy.ErrRefused, badRequest("an invalid argument")},
}

// problemOf returns the refusal for an error: a store's refusal by its kind, any other
// error as 503.
func problemOf(err error) problem {
	if p, ok := errors.AsType[problem](err); ok {
		return p
	}
	for _, r := range refusals {
		if errors.Is(err, r.no) {
			return r.problem
		}
	}
	return unavailable
}

var unavailable = problem{http.StatusServiceUnavailable, "unavailable", "temporarily unavailable"}

// refuse answers with the refusal for an error.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if confirm, ok := errors.AsType[confirmation](err); ok {
		write(w, http.StatusPreconditionRequired, Problem{"confirm", "repeat the request with this confirmation to see what may be an attack", string(confirm)})
		return
	}
	p := problemOf(err)
	if p == unavailable {
		a.opt.Log.ErrorContext(r.Context(), "review failed", "path", r.Pattern, "error", err)
		if errors.Is(err, errAudit) {
			p.detail = "the audit log cannot be written, so nothing was done"
		}
	}
	if p == notFound() {
		part, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/")
		p.detail = cmp.Or(unknown[part], p.detail)
	}
	if p.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="memproxy review"`)
	}
	write(w, p.status, Problem{Error: p.code, Detail: p.detail})
}

// body reads a request's JSON: exactly the members that v has, each once.
func (c *call) body(v any) error {
	media, _, err := mime.ParseMediaType(c.req.Header.Get("Content-Type"))
	if err != nil || media != "application/json" {
		return problem{http.StatusUnsupportedMediaType, "media_type", "the body is application/json"}
	}
	err = json.UnmarshalRead(http.MaxBytesReader(nil, c.req.Body, maxBody), v, json.RejectUnknownMembers(true))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return problem{http.StatusRequestEntityTooLarge, "too_large", "the body is too large"}
	}
	if err != nil {
		return badRequest("the body is not the documented JSON object")
	}
	return nil
}

func (r Reason) why() string          { return r.Reason }
func (r ApproveRequest) why() string  { return r.Reason }
func (r BatchRequest) why() string    { return r.Reason }
func (r ResolveRequest) why() string  { return r.Reason }
func (r UnlockRequest) why() string   { return r.Reason }
func (r PinRequest) why() string      { return r.Reason }
func (r RollbackRequest) why() string { return r.Reason }
