package replay

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"

	"github.com/memproxy/memproxy"
)

// Case is one recorded decision: an audit record, as `memproxy audit query --json` prints
// it.
type Case struct {
	Type          string             `json:"type"`
	ID            string             `json:"decision"` // or "line N"
	Verdict       memproxy.Verdict   `json:"verdict"`  // of the rules, also in shadow mode
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
	Confidence struct { // -1 if not recorded
		Claimed memproxy.PerMille `json:"claimed"`
		Given   memproxy.PerMille `json:"given"`
	} `json:"confidence"`
	Findings []memproxy.Finding `json:"findings"` // policies see the rules only
	// Facts is nil if the record has none.
	Facts *memproxy.Facts `json:"facts"`
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
		var c Case
		c.Confidence.Claimed, c.Confidence.Given = -1, -1
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			return nil, fmt.Errorf("replay: line %d: %w", n, err)
		}
		if c.Type != "" && c.Type != string(memproxy.EventDecision) {
			continue
		}
		if c.Operation.Kind == "" {
			continue // refused before its operation was known
		}
		c.ID = cmp.Or(c.ID, fmt.Sprintf("line %d", n))
		if c.ShadowVerdict != nil {
			c.Verdict = *c.ShadowVerdict
		}
		out = append(out, c)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	return out, nil
}
