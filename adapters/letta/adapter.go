package letta

import (
	_ "embed" // the tables are data
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/memproxy/memproxy"
	answertable "github.com/memproxy/memproxy/adapters/answers"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/refusal"
	"github.com/memproxy/memproxy/adapters/spelling"
	"github.com/memproxy/memproxy/internal/cache"
)

// Options configure the adapter. The zero value is the documented default.
type Options = wire.Options

// Adapter is the Letta adapter. It is stateless and safe for concurrent use.
type Adapter struct {
	*routes
	*answertable.Table
	runs
	holdReplier
	opt     Options
	bodies  members
	names   *spelling.Names // keys that name the owner or the subject of a request
	headers *spelling.Names // headers that name an identity
}

// Evict implements the gate's Adapter, which has no cache here.
func (a *Adapter) Evict(...string) {}

// New returns the adapter.
func New(opt Options) (*Adapter, error) {
	opt, err := opt.Checked()
	if err != nil {
		return nil, err
	}
	a := &Adapter{Table: answers(), opt: opt, routes: indexed()}
	a.headers = spelling.New(slices.Collect(maps.Keys(identityHeaders)), nil, nil)
	a.names = spelling.New(nameLists["owner"], nameLists["owners"], nameLists["single"])
	a.bodies = parsedMembers()
	a.runs = runs{routes: a.routes, bodies: a.bodies, now: opt.Now, callerCalls: cache.NewGenerations[string, struct{}](maxCallerCalls)}
	return a, nil
}

// The kinds of object that a Letta id names.
const (
	TargetBlock        memproxy.TargetKind = "block"
	TargetAgent        memproxy.TargetKind = "agent"
	TargetPassage      memproxy.TargetKind = "passage"
	TargetArchive      memproxy.TargetKind = "archive"
	TargetConversation memproxy.TargetKind = "conversation"
	TargetFolder       memproxy.TargetKind = "folder" // called source by older servers
	TargetFile         memproxy.TargetKind = "file"
	TargetGroup        memproxy.TargetKind = "group"
	TargetIdentity     memproxy.TargetKind = "identity"
	TargetMessage      memproxy.TargetKind = "message"
	TargetRun          memproxy.TargetKind = "run"
	TargetStep         memproxy.TargetKind = "step"
	TargetTool         memproxy.TargetKind = "tool"
	TargetJob          memproxy.TargetKind = "job"   // a batch, or the work of an upload
	TargetLabel        memproxy.TargetKind = "label" // "agent-…/label": a block by its label
)

// KindOf returns the kind of object that an id's prefix names, or "".
func KindOf(id string) memproxy.TargetKind {
	prefix, rest, _ := strings.Cut(id, "-")
	switch {
	case rest == "":
		return ""
	case prefix == "agent" && strings.Contains(rest, "/"):
		return TargetLabel
	}
	return idPrefixes[prefix]
}

func malformed(code memproxy.ReasonCode, status int, pointer, detail string) error {
	return &memproxy.Flaw{Code: code, Status: status, Pointer: pointer, Detail: detail}
}

// Refuse implements the gate's adapter. The SDKs show detail, in full if there is no
// error.message. They retry 409, 429 and 5xx, also for writes. The header x-should-retry
// disables retries, except for a request that was not forwarded because something failed
// (503, or no connection), a read that the backend did not answer, and the backend's own rate
// limit, which the SDKs would also retry without memproxy.
func (a *Adapter) Refuse(req memproxy.Request, d memproxy.Decision) memproxy.Reply {
	r := refusal.New(d, refusal.Words{NotFound: "Not found", Unauthorized: "Unauthorized"}, a.opt.Now)
	again := d.Status == memproxy.StatusUnavailable
	for _, why := range d.Reasons {
		again = again || why.Code == memproxy.UpstreamUnavailable &&
			(d.Status == memproxy.StatusTooMany || d.Status == memproxy.StatusBadGateway && req.Method == "GET" || why.Detail == memproxy.NotReached)
	}
	if !again {
		r.Header["X-Should-Retry"] = []string{"false"}
	}
	if strings.HasSuffix(strings.TrimSuffix(req.EscapedPath, "/"), "/chat/completions") {
		// OpenAI's SDKs show only the error's message.
		why := strings.Join(append(memproxy.Codes(r.Body.Reasons), "decision "+r.Body.Decision), ", ")
		r.Body.Error = map[string]any{"message": r.Body.Detail + " (" + why + ")", "type": r.Body.Code, "param": nil, "code": r.Body.Code}
	}
	return r.Reply()
}

// The members of answers: those in the server's OpenAPI document, and others.
//
//go:embed answers.txt
var answerTable string

//go:embed answers_more.txt
var moreAnswers string

// Texts of the server's errors.
//
//go:embed errors.txt
var errorPhrases string

// answers parses the tables once for all adapters; the result is read-only.
var answers = sync.OnceValue(func() *answertable.Table { return answertable.MustParse(answerTable, moreAnswers, errorPhrases) })
