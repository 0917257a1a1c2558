// Package refusal builds memproxy's refusals for every backend: the body that names the
// decision and its reasons, and how long to wait.
//
// Somebody else's memory and one that does not exist are refused in the same words.
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

// Words are a backend's own texts.
type Words struct{ NotFound, Unauthorized string }

// Refusal is a refusal that a dialect can extend.
type Refusal struct {
	Status int
	Header memproxy.Header
	Body   Body
	// exhausted budget line, if any
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
		r.Body.Detail = sentence(d, "memproxy could not let this request through")
		if !Says(d, memproxy.UpstreamMalformed) { // the backend processed the request, and would answer the same
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

// Unprocessable gives an unreadable body the status of FastAPI. Invalid UTF-8 and
// excessive depth are 400 there as well.
func Unprocessable(err error) error {
	if m, ok := errors.AsType[*memproxy.Malformed](err); ok && (m.Code == memproxy.PayloadMalformed || m.Code == memproxy.PayloadContentType) {
		m.Status = 422
	}
	return err
}

// Says reports whether a decision has a reason.
func Says(d memproxy.Decision, code memproxy.ReasonCode) bool {
	return slices.ContainsFunc(d.Reasons, func(r memproxy.Reason) bool { return r.Code == code })
}

// visible returns the reasons as the caller may know them: a reason about somebody
// else's object is replaced by the one about a missing object.
func visible(reasons []memproxy.Reason) []memproxy.Reason {
	out := slices.Clone(reasons)
	for i := range out {
		if r := &out[i]; r.Code == memproxy.OwnerForeign || r.Code == memproxy.OwnerUnknown {
			*r = memproxy.Reason{Code: memproxy.OwnerUnknown, Pointer: r.Pointer, Detail: "this names what is not there for this caller's tenant"}
		}
	}
	return out
}

func sentence(d memproxy.Decision, otherwise string) string {
	for _, r := range visible(d.Reasons) {
		switch {
		case r.Detail == "":
		case r.Pointer != "" && (r.Code == memproxy.PayloadMalformed || r.Code == memproxy.PayloadDuplicate):
			// SDKs show the sentence, and not the reasons. Terminals must not obey a name in it.
			return r.Detail + ": " + strings.Trim(strconv.QuoteToASCII(r.Pointer), `"`)
		default:
			return r.Detail
		}
	}
	return otherwise
}

// wait adds the waiting time in whole seconds, because some clients parse nothing else.
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
