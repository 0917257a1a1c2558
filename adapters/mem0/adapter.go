package mem0

import (
	_ "embed" // the table is data
	"strconv"
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
	answertable "github.com/memproxy/memproxy/adapters/answers"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/refusal"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// Options configure the adapter. The zero value is the documented default.
type Options = wire.Options

// Adapter is the Mem0 adapter. It is safe for concurrent use.
type Adapter struct {
	*routes
	*answertable.Table
	holdReplier
	opt      Options
	names    *spelling.Names // keys that name the owners of a request
	elements elements        // cache of elements that were read before
}

// New returns the adapter.
func New(opt Options) (*Adapter, error) {
	opt, err := opt.Checked()
	if err != nil {
		return nil, err
	}
	a := &Adapter{Table: answers(), opt: opt, routes: indexed(), elements: newElements()}
	a.names = spelling.New(owners[:], nil, []string{"page", "page_size", "limit", "top_k", "delete_linked", "metadata", "filters"})
	a.holdReplier = holdReplier{a.routes}
	return a, nil
}

func malformed(code memproxy.ReasonCode, status int, pointer, detail string) error {
	return &memproxy.Flaw{Code: code, Status: status, Pointer: pointer, Detail: detail}
}

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

//go:embed answers.txt
var answerTable string

// answers parses the answer table once for all adapters; the result is read-only.
var answers = sync.OnceValue(func() *answertable.Table { return answertable.MustParse(answerTable) })
