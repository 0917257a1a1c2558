package replay

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/memproxy/memproxy"
)

// Case is one recorded decision.
type Case struct {
	// ID is the decision id, or "line N".
	ID         string
	Verdict    memproxy.Verdict
	Rules      []string // ids of the policies in the reasons
	Codes      []memproxy.ReasonCode
	Principal  memproxy.Principal
	Kind       memproxy.Kind
	Backend    string
	Route      string
	Scope      memproxy.Scope
	Fields     []string
	Items      int
	Claimed    memproxy.PerMille // -1 if not recorded
	Confidence memproxy.PerMille // -1 if not recorded
	Findings   []string          // screening rules, sorted
	// Facts is nil if the record has none.
	Facts *Facts
}

// Facts are inputs of the policies that a record has nowhere else. Older records have
// none.
type Facts struct {
	memproxy.Facts
	// Size is the number of characters written to each of the record's fields, for
	// records without Writes.
	Size int `json:"size"`
}

// record is a line of input: the audit record of a decision, as printed by `memproxy
// audit query --json`.
type record struct {
	Type          string             `json:"type"`
	Decision      string             `json:"decision"`
	Verdict       memproxy.Verdict   `json:"verdict"`
	ShadowVerdict *memproxy.Verdict  `json:"would"`
	Reasons       []memproxy.Reason  `json:"reasons"`
	Principal     memproxy.Principal `json:"principal"`
	Operation     struct {
		Kind    memproxy.Kind  `json:"kind"`
		Backend string         `json:"backend"`
		Route   string         `json:"route"`
		Fields  []string       `json:"fields"`
		Items   int            `json:"items"`
		Scope   memproxy.Scope `json:"scope"`
	} `json:"operation"`
	Confidence struct {
		Claimed *memproxy.PerMille `json:"claimed"`
		Given   *memproxy.PerMille `json:"given"`
	} `json:"confidence"`
	Findings []memproxy.Finding `json:"findings"`
	Facts    *Facts             `json:"facts"`
}

// maxLine is the maximum length of a record in bytes.
const maxLine = 4 << 20

// Read reads decisions, one JSON object per line. It skips records of other types. A line
// that is not JSON is an error with its number.
func Read(in io.Reader) ([]Case, error) {
	var out []Case
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; sc.Scan(); n++ {
		if len(sc.Bytes()) == 0 {
			continue
		}
		var r record
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("replay: line %d: %w", n, err)
		}
		if r.Type != "" && r.Type != string(memproxy.EventDecision) {
			continue
		}
		if r.Operation.Kind == "" {
			continue // refused before its operation was known
		}
		out = append(out, r.caseOf(n))
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return out, nil
}

func (r *record) caseOf(line int) Case {
	c := Case{
		ID: cmp.Or(r.Decision, fmt.Sprintf("line %d", line)), Verdict: r.Verdict, Principal: r.Principal, Kind: r.Operation.Kind, Backend: r.Operation.Backend,
		Route: r.Operation.Route, Scope: r.Operation.Scope, Fields: r.Operation.Fields, Items: r.Operation.Items,
		Claimed: -1, Confidence: -1, Facts: r.Facts,
	}
	if r.ShadowVerdict != nil {
		c.Verdict = *r.ShadowVerdict // shadow mode: take the verdict of the rules
	}
	if p := r.Confidence.Claimed; p != nil {
		c.Claimed = *p
	}
	if p := r.Confidence.Given; p != nil {
		c.Confidence = *p
	}
	for _, f := range r.Findings {
		c.Findings = append(c.Findings, f.Rule)
	}
	slices.Sort(c.Findings)
	c.Findings = slices.Compact(c.Findings)
	for _, reason := range r.Reasons {
		c.Codes = append(c.Codes, reason.Code)
		if reason.Rule != "" {
			c.Rules = append(c.Rules, reason.Rule)
		}
	}
	return c
}
