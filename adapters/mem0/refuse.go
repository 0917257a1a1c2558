package mem0

import (
	"strconv"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/refusal"
)

// Refuse implements the gate's adapter. Both SDKs read detail.
func (a *Adapter) Refuse(req memproxy.Request, d memproxy.Decision) memproxy.Reply {
	r := refusal.New(d, refusal.Words{NotFound: "Memory not found", Unauthorized: "the credential was not accepted"}, a.opt.Now)
	switch {
	case r.Status == 401:
		r.Header["Www-Authenticate"] = []string{"Bearer"}
	case r.Status == 404 && strings.HasPrefix(req.EscapedPath, "/v1/"):
		r.Body.Error = "Memory not found!"
	case r.Line != nil:
		r.Header["X-Ratelimit-Limit"] = []string{strconv.FormatInt(r.Line.Limit, 10)}
		r.Header["X-Ratelimit-Remaining"] = []string{strconv.FormatInt(r.Line.Remaining(), 10)}
		if !r.Line.Reset.IsZero() {
			r.Header["X-Ratelimit-Reset"] = []string{strconv.FormatInt(r.Line.Reset.Unix(), 10)}
		}
	}
	return r.Reply()
}
