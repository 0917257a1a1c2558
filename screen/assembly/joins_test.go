package assembly_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/assembly"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Proves MFW-13: fragmented payloads are assembled over several writes, and
// ordinary consecutive facts are not.
func TestJoins(t *testing.T) {
	raw := must.Get(os.ReadFile("testdata/joins.txtar"))(t)
	for _, f := range txtar.Parse(raw).Files {
		t.Run(f.Name, func(t *testing.T) {
			lines := strings.Split(strings.TrimSpace(string(f.Data)), "\n")
			s, key := assembly.New(), assembly.Key{"acme", "agent:dev", "run-1"}
			var got []assembly.JoinedText
			writes := map[string]string{}
			for i, line := range lines[:len(lines)-1] {
				id := string(rune('a' + i))
				writes[id] = line
				got = s.Assemble(id, []string{line}, noon, key)
				checkSegments(t, got, writes)
				s.Commit(id, []string{line}, noon, key)
			}
			want := strings.TrimPrefix(lines[len(lines)-1], "> ")
			if want == "nothing" {
				for _, j := range got {
					t.Errorf("%s: %q", j.Kind, j.Text)
				}
				return
			}
			kind, text, _ := strings.Cut(want, " | ")
			for _, j := range got {
				if at := strings.Index(j.Text, text); at >= 0 && string(j.Kind) == kind && j.SpansTexts(0, len(j.Text)) {
					return
				}
			}
			t.Errorf("want %s", want)
			for _, j := range got {
				t.Errorf("got %s | %s", j.Kind, j.Text)
			}
		})
	}
}

// checkSegments holds every segment to what the write really said.
func checkSegments(t *testing.T, joined []assembly.JoinedText, writes map[string]string) {
	t.Helper()
	for _, j := range joined {
		last := 0
		for _, s := range j.Segments {
			must.That(t, s.Start >= last && s.End <= len(j.Text) && s.From >= 0 && s.To <= len(writes[s.Write]) && s.From < s.To, "%s %q: segment %+v", j.Kind, j.Text, s)
			last = s.End
			said := writes[s.Write][s.From:s.To]
			expect.That(t, j.Text[s.Start:s.End] == said || j.Kind == assembly.Encoded && len(said) != s.End-s.Start, "%s: %q was taken from %q", j.Kind, j.Text[s.Start:s.End], said)
		}
	}
}
