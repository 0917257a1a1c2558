package letta

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/refusal"
)

// Refuse implements the gate's adapter. The SDKs show detail, and all of it
// where there is no error.message. They repeat 409, 429 and 5xx by themselves,
// writes too; the header tells them not to.
func (a *Adapter) Refuse(_ memproxy.Request, d memproxy.Decision) memproxy.Reply {
	r := refusal.New(d, refusal.Words{NotFound: "Not found", Unauthorized: "Unauthorized"}, a.opt.Now)
	r.Header["X-Should-Retry"] = []string{"false"}
	return r.Reply()
}
