// Package refusal builds memproxy's refusals for every backend: the body that names the
// decision and its reasons, and how long to wait.
//
// A memory of another owner and a memory that does not exist are refused in the same words.
package refusal

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Body is the body of every refusal. The backends' SDKs read Detail, some of them
// Error.
type Body struct {
	Detail   string            `json:"detail"`
	Error    any               `json:"error,omitempty"`
	Code     string            `json:"code"`
	Decision string            `json:"decision_id"`
	Reasons  []memproxy.Reason `json:"reasons,omitempty"`
	Limit    *int64            `json:"limit,omitempty"`
	Left     *int64            `json:"remaining,omitempty"`
	Reset    string            `json:"reset,omitempty"` // RFC 3339
}

// Words are a backend's own texts for 404 and 401.
type Words struct{ NotFound, Unauthorized string }

// Refusal is a refusal that a dialect can extend.
type Refusal struct {
	Status int
	Header memproxy.Header
	Body   Body
	// Line is the exhausted budget line, if any.
	Line *memproxy.LineState
}

// New returns the refusal for a decision. Waiting times count from now.
func New(d memproxy.Decision, w Words, now func() time.Time) *Refusal {
	r := &Refusal{
		Status: cmp.Or(d.Status, 403), Header: memproxy.Header{"Content-Type": {"application/json"}},
		Body: Body{Code: "memproxy_denied", Decision: d.ID, Reasons: visible(d.Reasons)},
	}
	switch {
	case r.Status == 404:
		r.Body.Detail, r.Body.Reasons = w.NotFound, nil
	case r.Status == 401:
		r.Body.Detail = sentence(d, w.Unauthorized)
	case r.Status == 429:
		r.Body.Detail = sentence(d, "the write budget is used up")
		r.wait(d.Allowance, now)
	case r.Status >= 500:
		r.Body.Detail = sentence(d, "memproxy could not process this request")
		malformed := func(r memproxy.Reason) bool { return r.Code == memproxy.UpstreamMalformed }
		if !slices.ContainsFunc(d.Reasons, malformed) { // the backend would give the same answer to a retry
			r.Header["Retry-After"] = []string{"1"}
		}
	default:
		r.Body.Detail = sentence(d, "refused by policy")
	}
	if d.Verdict == memproxy.Hold {
		r.Body.Code = "memproxy_held"
	}
	return r
}

// Unprocessable changes the status for an unreadable body to FastAPI's 422. For invalid
// UTF-8 and excessive depth it stays 400, as in FastAPI.
func Unprocessable(err error) error {
	if m, ok := errors.AsType[*memproxy.Flaw](err); ok && (m.Code == memproxy.PayloadMalformed || m.Code == memproxy.PayloadContentType) {
		m.Status = 422
	}
	return err
}

// visible returns the reasons that the caller may see: a reason about another owner's object
// is replaced by the one about a missing object.
func visible(reasons []memproxy.Reason) []memproxy.Reason {
	out := slices.Clone(reasons)
	for i := range out {
		if r := &out[i]; r.Code == memproxy.OwnerForeign || r.Code == memproxy.OwnerUnknown {
			*r = memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: r.Pointer, Detail: "not found in this caller's tenant"}
		}
	}
	return out
}

func sentence(d memproxy.Decision, otherwise string) string {
	for _, r := range visible(d.Reasons) {
		switch {
		case r.Detail == "":
		case r.Pointer != "" && (r.Code == memproxy.PayloadMalformed || r.Code == memproxy.PayloadDuplicate):
			// SDKs show this sentence, not the reasons, so it includes the pointer. The pointer
			// is quoted, because a name in it may contain terminal escape sequences.
			return r.Detail + ": " + strings.Trim(strconv.QuoteToASCII(r.Pointer), `"`)
		default:
			return r.Detail
		}
	}
	return otherwise
}

// wait adds the exhausted budget and the waiting time, in whole seconds because some clients
// parse nothing else.
func (r *Refusal) wait(al *memproxy.Allowance, now func() time.Time) {
	al = cmp.Or(al, &memproxy.Allowance{Refused: -1})
	if al.Refused >= 0 && al.Refused < len(al.Lines) {
		l := al.Lines[al.Refused]
		limit, left := l.Limit, l.Remaining()
		r.Line, r.Body.Limit, r.Body.Left = &l, &limit, &left
		if !l.Reset.IsZero() {
			r.Body.Reset = l.Reset.UTC().Format(time.RFC3339)
		}
	}
	r.Header["Retry-After"] = []string{strconv.Itoa(al.RetryAfter(now()))}
}

// Reply returns the refusal as a reply.
func (r *Refusal) Reply() memproxy.Reply {
	body, _ := json.Marshal(r.Body) // strings and numbers always marshal
	return memproxy.Reply{Status: r.Status, Header: r.Header, Body: body}
}
