package hunt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/memproxy/memproxy"
)

// Report returns a report that writes one JSON line for each item that would
// not pass: {"id","kind","field","owner","verdict","score","findings"}. It
// quotes the content, as "text", where content is set.
func Report(w io.Writer, content bool) func(Item, Verdict) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return func(i Item, v Verdict) error {
		if !v.Verdict.Stops() {
			return nil
		}
		text := ""
		if content {
			text = i.Text
		}
		err := enc.Encode(struct {
			ID    string         `json:"id"`
			Kind  string         `json:"kind"`
			Field string         `json:"field"`
			Owner memproxy.Scope `json:"owner"`
			Verdict
			Text string `json:"text,omitempty"`
		}{i.ID, i.Kind, i.Field, i.Owner, v, text})
		if err != nil {
			return fmt.Errorf("hunt: writing: %w", err)
		}
		return nil
	}
}

// OpenReport opens the file of a report: a new one, or that of the walk that goes
// on.
func OpenReport(path string, walk State) (*os.File, error) {
	mode := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if walk.Version == 0 {
		mode |= os.O_TRUNC
	}
	return os.OpenFile(path, mode, 0o600)
}

// Summary writes what a walk came to: by verdict, then the rules of what would
// not pass, the most frequent first.
func (s State) Summary(w io.Writer) {
	end := "finished"
	if !s.Done {
		end = "not finished"
	}
	fmt.Fprintf(w, "%d text(s) judged on %d page(s), %s: %d allow, %d hold, %d deny; %d not judged\n",
		s.Screened(), s.Pages, end, s.Allow+s.Amend, s.Hold, s.Deny, s.Skipped)
	rules := slices.SortedFunc(maps.Keys(s.Rules), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Rules[b], s.Rules[a]), cmp.Compare(a, b))
	})
	for _, r := range rules {
		fmt.Fprintf(w, "%8d  %s\n", s.Rules[r], r)
	}
}
