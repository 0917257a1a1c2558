package gate

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Proves TRL-4: what is contained in a text is whole sentences of it.
func TestPlainForm(t *testing.T) {
	const shown = "Ann does not like tea. She plays go!\nHer desk costs 3.5 k, e.g. in Leeds"
	for text, want := range map[string]bool{
		shown:            true,
		"She plays go":   true,
		"she  PLAYS go.": true,
		"She plays go! Her desk costs 3.5 k, e.g.": true,
		"like tea":       false,
		"like tea.":      false,
		"plays go":       false,
		"She plays":      false,
		"Ann likes tea.": false,
		"5 k, e.g.":      false,
		"":               false,
		" .!?\n":         false,
		"\x00":           false,
	} {
		form := plainForm(text)
		if got := form != "" && strings.Contains(plainForm(shown), form); got != want {
			t.Errorf("%q (%q): %v", text, form, got)
		}
	}
}

// A form holds every sentence between ends, and none of the text's own bytes
// can stand for an end.
func FuzzPlainForm(f *testing.F) {
	for _, seed := range []string{"", "a. b", "a\x00b", "A\u00a0B?! c", "\xff.", "Ⅷ\u200b. ß"} {
		f.Add(seed, "x")
	}
	f.Fuzz(func(t *testing.T, text, more string) {
		form := plainForm(text)
		if form == "" {
			return
		}
		if !strings.HasPrefix(form, sentenceEnd) || !strings.HasSuffix(form, sentenceEnd) || strings.Contains(form, sentenceEnd+sentenceEnd) {
			t.Fatalf("%q: %q", text, form)
		}
		// Letters may grow in lower case, and no text grows by more than that.
		if len(form) > 4*len(text)+2 {
			t.Fatalf("%d bytes of %d", len(form), len(text))
		}
		if whole := plainForm(text + "\n" + more); !strings.Contains(whole, form) {
			t.Fatalf("%q is not in %q", form, whole)
		}
	})
}

// Proves TRL-4: what is remembered of readers is bounded, ends an hour after the
// last read, and is one reader's.
func TestReadersAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rs := newReaders(func() time.Time { return now })
	a := reader{"acme", "agent:dev", "s1"}
	knows := func(who reader, id string) bool { return rs.any(who, func(s *seen) bool { return s.id == id }) }
	rs.shown(a, []seen{{id: "first", text: plainForm("tea")}})
	if !knows(a, "first") || knows(reader{"acme", "agent:dev", "s2"}, "first") || knows(reader{"acme", "agent:ci", "s1"}, "first") || knows(reader{"globex", "agent:dev", "s1"}, "first") {
		t.Error("it is not this reader's alone")
	}
	rs.shown(reader{"acme", "agent:dev", ""}, []seen{{id: "nowhere"}})
	if knows(reader{"acme", "agent:dev", ""}, "nowhere") {
		t.Error("without a session something was kept")
	}
	if now = now.Add(time.Hour); !knows(a, "first") {
		t.Error("it ends within the hour")
	}
	if now = now.Add(time.Second); knows(a, "first") {
		t.Error("it does not end")
	}
	for i := range maxSeen + 1 {
		rs.shown(a, []seen{{id: fmt.Sprint(i)}})
	}
	if knows(a, "0") || !knows(a, "1") || knows(a, "first") {
		t.Error("memories of one session are not bounded")
	}
	big := strings.Repeat("x", maxSeenBytes/2)
	for i := range 5 {
		rs.shown(a, []seen{{id: fmt.Sprint("big", i), text: big}})
	}
	s, _ := rs.kept.Get(a)
	if s.bytes > maxSeenBytes || !knows(a, "big4") || knows(a, "big1") {
		t.Errorf("%d bytes are kept", s.bytes)
	}
	rs.shown(a, []seen{{id: "huge", text: big + big + "x"}})
	if !knows(a, "huge") || s.bytes > maxSeenBytes {
		t.Errorf("%d bytes are kept", s.bytes)
	}
	for i := range maxReaders {
		rs.shown(reader{"acme", "agent:dev", fmt.Sprint(i)}, []seen{{id: "x"}})
	}
	if knows(a, "huge") || rs.kept.Len() > maxReaders {
		t.Error("sessions are not bounded")
	}
}
