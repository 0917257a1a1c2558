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
	// ID is the decision's, or "line N".
	ID        string
	Verdict   memproxy.Verdict
	Rules     []string // that the reasons name
	Codes     []memproxy.ReasonCode
	Principal memproxy.Principal
	Kind      memproxy.Kind
	Backend   string
	Route     string
	Scope     memproxy.Scope
	Fields    []string
	Items     int
	Claimed   memproxy.PerMille // -1: not recorded
	Given     memproxy.PerMille // -1: not recorded
	Findings  []string          // rules of screening, sorted
	// Facts are recorded or stated, or nil where the record lacks them.
	Facts *Facts
}

// Facts are what policies are asked besides what a record says elsewhere. The
// log has kept them since it knows "facts"; older records have none.
type Facts struct {
	memproxy.Facts
	// Size is how many characters are written to each of the record's fields
	// where Writes are not stated.
	Size int `json:"size"`
}

// record is a line: an audit record of a decision, as `memproxy audit query
// --json` prints it, with facts if somebody states them.
type record struct {
	Type      string             `json:"type"`
	Decision  string             `json:"decision"`
	Verdict   memproxy.Verdict   `json:"verdict"`
	Would     *memproxy.Verdict  `json:"would"`
	Reasons   []memproxy.Reason  `json:"reasons"`
	Principal memproxy.Principal `json:"principal"`
	Operation struct {
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

// maxLine bounds one record.
const maxLine = 4 << 20

// Read reads decisions, a JSON object a line. Records of other types are passed
// over; a line that is none is an error with its number.
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
			continue // refused before it was known what it would do
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
		Claimed: -1, Given: -1, Facts: r.Facts,
	}
	if r.Would != nil {
		c.Verdict = *r.Would // in shadow mode: what the rules said
	}
	if p := r.Confidence.Claimed; p != nil {
		c.Claimed = *p
	}
	if p := r.Confidence.Given; p != nil {
		c.Given = *p
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
