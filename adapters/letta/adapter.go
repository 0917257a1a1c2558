package letta

import (
	"errors"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	answertable "github.com/memproxy/memproxy/adapters/answers"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/routetable"
	"github.com/memproxy/memproxy/adapters/spelling"
)

// Options configure the adapter. The zero value is the documented default.
type Options struct {
	// ConfidenceKeys are the metadata keys that claim a confidence from 0 to 1.
	ConfidenceKeys []string
	// Sources are the tiers of the names that the metadata key source claims.
	// Nil is memproxy.DefaultSourceNames.
	Sources memproxy.SourceNames
	// MaxDepth bounds the nesting of requests. Answers have a bound of their
	// own, above it.
	MaxDepth int
	// Now is the clock that waiting times are told by; nil is time.Now.
	Now func() time.Time
}

// Adapter is the Letta adapter. It is stateless and safe for concurrent use.
type Adapter struct {
	opt     Options
	routes  *routetable.Table[row]
	rows    map[string]*row // by id
	members *answertable.Table
	bodies  members
	names   *spelling.Names // what says whose a request is
	headers *spelling.Names // those that say who somebody is
}

// New returns the adapter.
func New(opt Options) (*Adapter, error) {
	if opt.Sources == nil {
		opt.Sources = memproxy.DefaultSourceNames()
	}
	if opt.ConfidenceKeys == nil {
		opt.ConfidenceKeys = []string{"confidence", "importance"}
	}
	for _, k := range opt.ConfidenceKeys {
		if k == "" || memproxy.Reserved(k) {
			return nil, errors.New("letta: a metadata key is empty or begins with " + memproxy.StampPrefix)
		}
	}
	if opt.MaxDepth == 0 {
		opt.MaxDepth = jsondoc.DefaultRequestDepth
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	known, err := answertable.Parse(answerTable, moreAnswers, errorPhrases)
	if err != nil {
		return nil, err
	}
	a := &Adapter{opt: opt, members: known, names: newNames(), headers: newHeaders(), routes: newRoutes(), rows: make(map[string]*row, len(table))}
	for i := range table {
		a.rows[table[i].id] = &table[i]
	}
	a.bodies = newMembers(a.rows)
	return a, nil
}

// Name implements the gate's adapter.
func (*Adapter) Name() string { return "letta" }

// The kinds of thing that a Letta id names.
const (
	TargetBlock        memproxy.TargetKind = "block"
	TargetAgent        memproxy.TargetKind = "agent"
	TargetPassage      memproxy.TargetKind = "passage"
	TargetArchive      memproxy.TargetKind = "archive"
	TargetConversation memproxy.TargetKind = "conversation"
	TargetFolder       memproxy.TargetKind = "folder" // a source, in older words
	TargetFile         memproxy.TargetKind = "file"
	TargetGroup        memproxy.TargetKind = "group"
	TargetIdentity     memproxy.TargetKind = "identity"
	TargetMessage      memproxy.TargetKind = "message"
	TargetRun          memproxy.TargetKind = "run"
	TargetStep         memproxy.TargetKind = "step"
	TargetTool         memproxy.TargetKind = "tool"
	TargetJob          memproxy.TargetKind = "job"   // a batch is one, and an upload's work
	TargetLabel        memproxy.TargetKind = "label" // "agent-…/label": a block by its label
)

// KindOf tells what an id names by its prefix, or returns "".
func KindOf(id string) memproxy.TargetKind {
	prefix, rest, _ := strings.Cut(id, "-")
	switch {
	case rest == "":
		return ""
	case prefix == "agent" && strings.Contains(rest, "/"):
		return TargetLabel
	}
	switch prefix {
	case "block", "agent", "passage", "archive", "file", "group", "identity", "message", "run", "step", "tool", "job":
		return memproxy.TargetKind(prefix)
	case "source", "folder":
		return TargetFolder
	case "conv":
		return TargetConversation
	}
	return ""
}

func bad(code memproxy.ReasonCode, status int, pointer, detail string) error {
	return &memproxy.Malformed{Code: code, Status: status, Pointer: pointer, Detail: detail}
}
