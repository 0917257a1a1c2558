package hunt

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/memproxy/memproxy"
)

// NewReporter returns a function for WalkOptions.Report that writes one JSON line for each
// item that would be stopped: {"id","kind","field","owner","verdict","score","findings"}.
// The content is added as "text" if content is set.
func NewReporter(w io.Writer, content bool) func(Item, Verdict) error {
	return func(i Item, v Verdict) error {
		if !v.Verdict.Stops() {
			return nil
		}
		text := ""
		if content {
			text = i.Text
		}
		line, err := jsonv2.Marshal(struct {
			ID    string         `json:"id"`
			Kind  string         `json:"kind"`
			Field string         `json:"field"`
			Owner memproxy.Scope `json:"owner"`
			Verdict
			Text string `json:"text,omitempty"`
		}{i.ID, i.Kind, i.Field, i.Owner, v, text})
		if err == nil {
			_, err = w.Write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("hunt: writing: %w", err)
		}
		return nil
	}
}

// OpenReport opens the file of a report: it appends for a walk that is resumed, and
// truncates the file for a new one.
func OpenReport(path string, walk State) (*os.File, error) {
	mode := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if walk.Version == 0 {
		mode |= os.O_TRUNC
	}
	return os.OpenFile(path, mode, 0o600)
}

// Summary writes the result of a walk: the counts by verdict, then the rules of the texts
// that would be stopped, most frequent first.
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
