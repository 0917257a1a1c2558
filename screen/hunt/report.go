package hunt

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/memproxy/memproxy"
)

// Report returns a report that writes one JSON line for each item that would
// not pass, or for every item: {"id","kind","field","owner","verdict","score",
// "findings"}. It quotes no content.
func Report(w io.Writer, every bool) func(Item, Verdict) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(i Item, v Verdict) error {
		if !every && !v.Verdict.Stops() {
			return nil
		}
		if v.Findings == nil {
			v.Findings = []Finding{}
		}
		err := enc.Encode(struct {
			ID       string            `json:"id"`
			Kind     string            `json:"kind"`
			Field    string            `json:"field"`
			Owner    memproxy.Scope    `json:"owner"`
			Verdict  memproxy.Verdict  `json:"verdict"`
			Score    memproxy.PerMille `json:"score"`
			Findings []Finding         `json:"findings"`
		}{i.ID, i.Kind, i.Field, i.Owner, v.Verdict, v.Score, v.Findings})
		if err != nil {
			return fmt.Errorf("hunt: writing: %w", err)
		}
		return nil
	}
}
