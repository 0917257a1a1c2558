package mem0

import (
	"errors"
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
	// FieldKey is the metadata key that names the governed field. What category
	// and categories name are governed fields as well.
	FieldKey string
	// Sources are the tiers of the names that the metadata key source claims.
	// Nil is memproxy.DefaultSourceNames.
	Sources memproxy.SourceNames
	// MaxDepth bounds the nesting of requests. Answers have a bound of their
	// own, above it.
	MaxDepth int
	// Now is the clock that waiting times are told by; nil is time.Now.
	Now func() time.Time
}

// Adapter is the Mem0 adapter. It is stateless and safe for concurrent use.
type Adapter struct {
	opt     Options
	routes  *routetable.Table[row]
	rows    map[string]*row // by id
	members *answertable.Table
	names   *spelling.Names // what says whose a request is
}

// New returns the adapter.
func New(opt Options) (*Adapter, error) {
	if opt.Sources == nil {
		opt.Sources = memproxy.DefaultSourceNames()
	}
	if opt.ConfidenceKeys == nil {
		opt.ConfidenceKeys = []string{"confidence", "importance"}
	}
	if opt.FieldKey == "" {
		opt.FieldKey = "field"
	}
	for _, k := range append([]string{opt.FieldKey}, opt.ConfidenceKeys...) {
		if k == "" || memproxy.Reserved(k) {
			return nil, errors.New("mem0: a metadata key is empty or begins with " + memproxy.StampPrefix)
		}
	}
	if opt.MaxDepth == 0 {
		opt.MaxDepth = jsondoc.DefaultRequestDepth
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	known, err := answertable.Parse(answerTable)
	if err != nil {
		return nil, err
	}
	a := &Adapter{opt: opt, members: known, names: newNames(), routes: newRoutes(), rows: make(map[string]*row, len(table))}
	for i := range table {
		a.rows[table[i].id] = &table[i]
	}
	return a, nil
}

// Name implements the gate's adapter.
func (*Adapter) Name() string { return "mem0" }

func bad(code memproxy.ReasonCode, status int, pointer, detail string) error {
	return &memproxy.Malformed{Code: code, Status: status, Pointer: pointer, Detail: detail}
}
