package verify

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/memproxy/memproxy"
)

// Record is one record of the log. docs/audit-format.md describes the members and
// when they are present.
type Record struct {
	Index    uint64 `json:"index"`
	Time     string `json:"time"`
	PrevHash string `json:"prev_hash"`
	V        int    `json:"v"`
	Type     string `json:"type"`

	EventTime string     `json:"event_time,omitzero"`
	Decision  string     `json:"decision,omitzero"`
	Trace     string     `json:"trace,omitzero"`
	Session   string     `json:"session,omitzero"`
	Principal *Principal `json:"principal,omitzero"`
	Operation *Operation `json:"operation,omitzero"`
	Outcome   *Outcome   `json:"outcome,omitzero"`

	ContentSHA256 string                   `json:"content_sha256,omitzero"`
	Verdict       string                   `json:"verdict,omitzero"`
	ShadowVerdict string                   `json:"would,omitzero"`
	Reasons       []memproxy.Reason        `json:"reasons,omitzero"`
	Policy        string                   `json:"policy,omitzero"`
	Review        *memproxy.Act            `json:"review,omitzero"`
	Versions      []memproxy.VersionChange `json:"versions,omitzero"`
	Facts         *memproxy.Facts          `json:"facts,omitzero"`
	Findings      []Finding                `json:"findings,omitzero"`
	Confidence    *Confidence              `json:"confidence,omitzero"`
	Budget        []BudgetLine             `json:"budget,omitzero"`
	Degraded      bool                     `json:"degraded,omitzero"`
	Unsafe        []string                 `json:"unsafe,omitzero"`
	Detail        string                   `json:"detail,omitzero"`
	Part          *Part                    `json:"part,omitzero"`
	KeptFrom      *uint64                  `json:"kept_from,omitzero"`

	// Raw is the record as stored in the log.
	Raw []byte `json:"-"`
}

// Principal is the caller.
type Principal struct {
	ID     string `json:"id,omitzero"`
	Kind   string `json:"kind,omitzero"`
	Method string `json:"method,omitzero"`
	Tenant string `json:"tenant,omitzero"`
	Trust  string `json:"trust,omitzero"`
}

// Operation is the request.
type Operation struct {
	Backend string         `json:"backend,omitzero"`
	Fields  []string       `json:"fields,omitzero"`
	Items   int            `json:"items,omitzero"`
	Kind    string         `json:"kind,omitzero"`
	Method  string         `json:"method,omitzero"`
	Route   string         `json:"route,omitzero"`
	Scope   memproxy.Scope `json:"scope,omitzero"`
	Targets []string       `json:"targets,omitzero"`
}

// Outcome is the result of the request.
type Outcome struct {
	Cancelled bool     `json:"cancelled,omitzero"`
	Ended     string   `json:"ended,omitzero"`
	Filtered  int      `json:"filtered,omitzero"`
	Memories  []string `json:"memories,omitzero"`
	Status    int      `json:"status,omitzero"`
}

// Confidence is the claimed and the given confidence, per mille.
type Confidence struct {
	Claimed *int `json:"claimed,omitzero"`
	Given   *int `json:"given,omitzero"`
}

// BudgetLine is the state of one budget after the charge.
type BudgetLine struct {
	Account string `json:"account,omitzero"`
	Limit   int64  `json:"limit"`
	Reason  string `json:"reason,omitzero"`
	Reset   string `json:"reset,omitzero"`
	Soft    bool   `json:"soft,omitzero"`
	Used    int64  `json:"used"`
	Warn    bool   `json:"warn,omitzero"`
	Window  string `json:"window,omitzero"`
}

// Finding is a finding of screening in one of the operation's items. Start and End are
// byte offsets in the item's text, which is not recorded.
type Finding struct {
	End   int    `json:"end"`
	Item  int    `json:"item"`
	Rule  string `json:"rule,omitzero"`
	Score int    `json:"score"`
	Start int    `json:"start"`
}

// Part is set if an event is divided into several records.
type Part struct {
	N  int `json:"n"`
	Of int `json:"of"`
}

// Decode reads a record strictly: canonical JSON, known members only.
func Decode(raw []byte) (*Record, error) {
	v := jsontext.Value(bytes.Clone(raw))
	if err := v.Canonicalize(); err != nil {
		return nil, errors.New("not JSON")
	}
	if !bytes.Equal(v, raw) {
		return nil, errors.New("not canonical JSON")
	}
	r := &Record{Raw: raw}
	if err := json.Unmarshal(raw, r, json.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("not a record: a member is unknown or of the wrong type")
	}
	if r.V != 1 {
		return nil, fmt.Errorf("unknown format version %d", r.V)
	}
	if r.Type == "" {
		return nil, errors.New("the record has no type")
	}
	if b, err := hex.DecodeString(r.PrevHash); err != nil || len(b) != 32 || hex.EncodeToString(b) != r.PrevHash {
		return nil, errors.New("prev_hash is not a hash")
	}
	if _, err := r.At(); err != nil {
		return nil, errors.New("time is not a timestamp")
	}
	return r, nil
}

// At returns the time of append.
func (r *Record) At() (time.Time, error) {
	t, err := time.Parse(timeFormat, r.Time)
	if err == nil && t.Format(timeFormat) != r.Time {
		err = errors.New("not in canonical form")
	}
	return t, err
}
