package letta

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/memproxy/memproxy"
)

// refusal is the body of every refusal. The SDKs show detail, and all of it
// where there is no error.message.
type refusal struct {
	Detail   string            `json:"detail"`
	Code     string            `json:"code"`
	Decision string            `json:"decision_id"`
	Reasons  []memproxy.Reason `json:"reasons,omitempty"`
	Limit    *int64            `json:"limit,omitempty"`
	Left     *int64            `json:"remaining,omitempty"`
	Reset    string            `json:"reset,omitempty"`
}

// Refuse implements the gate's adapter. Letta's SDKs repeat 409, 429 and 5xx
// by themselves, writes too; the header tells them not to.
func (a *Adapter) Refuse(req memproxy.Request, d memproxy.Decision) memproxy.Reply {
	status := d.Status
	if status == 0 {
		status = 403
	}
	out := refusal{Code: "memproxy_denied", Decision: d.ID, Reasons: d.Reasons}
	h := memproxy.Header{"Content-Type": {"application/json"}, "X-Should-Retry": {"false"}}
	switch {
	case status == 404:
		// The same for what does not exist and for somebody else's.
		out.Detail, out.Reasons = "Not found", nil
	case status == 401:
		out.Detail = sentence(d, "Unauthorized")
	case status == 429:
		out.Detail = sentence(d, "the write budget is used up")
		a.budget(&out, h, d.Allowance)
	case status >= 500:
		out.Detail = sentence(d, "memproxy could not let this request through")
		h["Retry-After"] = []string{"1"}
	default:
		out.Detail = sentence(d, "refused by policy")
	}
	if d.Verdict == memproxy.Hold {
		out.Code = "memproxy_held"
	}
	body, _ := json.Marshal(out) // strings and numbers always marshal
	return memproxy.Reply{Status: status, Header: h, Body: body}
}

func sentence(d memproxy.Decision, otherwise string) string {
	for _, r := range d.Reasons {
		if r.Detail != "" {
			return r.Detail
		}
	}
	return otherwise
}

// budget adds what a client needs to wait, in whole seconds.
func (a *Adapter) budget(out *refusal, h memproxy.Header, al *memproxy.Allowance) {
	wait := time.Hour
	if al != nil && al.Refused >= 0 && al.Refused < len(al.Lines) {
		l := al.Lines[al.Refused]
		limit, left := l.Limit, l.Remaining()
		out.Limit, out.Left = &limit, &left
		if !l.Reset.IsZero() {
			out.Reset = l.Reset.UTC().Format(time.RFC3339)
			wait = l.Reset.Sub(a.opt.Now())
		}
	}
	h["Retry-After"] = []string{strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second)))}
}
