package seen_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/gate/seen"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/expect"
)

const mostReaders, mostMemories, mostBytes = 1024, 256, 32 << 10 // are kept

// Proves TRL-4: what is remembered of readers is bounded, ends an hour after the
// last read, and is one reader's.
func TestReadersAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rs := seen.New(func() time.Time { return now })
	a := seen.Reader{"acme", "agent:dev", "s1"}
	knows := func(who seen.Reader, id string) bool {
		return slices.ContainsFunc(rs.Of(who), func(s trust.ShownText) bool { return s.ID == id })
	}
	rs.RecordShown(a, []trust.ShownText{{ID: "first", Text: trust.Plain("tea")}})
	if !knows(a, "first") || knows(seen.Reader{"acme", "agent:dev", "s2"}, "first") || knows(seen.Reader{"acme", "agent:ci", "s1"}, "first") || knows(seen.Reader{"globex", "agent:dev", "s1"}, "first") {
		t.Error("it is not this reader's alone")
	}
	rs.RecordShown(seen.Reader{"acme", "agent:dev", ""}, []trust.ShownText{{ID: "nowhere"}})
	expect.That(t, !knows(seen.Reader{"acme", "agent:dev", ""}, "nowhere"), "without a session something was kept")
	now = now.Add(time.Hour)
	expect.That(t, knows(a, "first"), "it ends within the hour")
	now = now.Add(time.Second)
	expect.That(t, !knows(a, "first"), "it does not end")
	for i := range mostMemories + 1 {
		rs.RecordShown(a, []trust.ShownText{{ID: fmt.Sprint(i)}})
	}
	expect.That(t, !knows(a, "0") && knows(a, "1") && !knows(a, "first"), "memories of one session are not bounded")
	big := strings.Repeat("x", mostBytes/2)
	for i := range 5 {
		rs.RecordShown(a, []trust.ShownText{{ID: fmt.Sprint("big", i), Text: big}})
	}
	expect.That(t, knows(a, "big4") && knows(a, "big3") && !knows(a, "big2"), "more bytes are kept than may be, or fewer")
	rs.RecordShown(a, []trust.ShownText{{ID: "huge", Text: big + big + "x"}})
	expect.That(t, knows(a, "huge") && knows(a, "big3"), "a text that is too long is kept in the place of others")
	for i := range mostReaders {
		rs.RecordShown(seen.Reader{"acme", "agent:dev", fmt.Sprint(i)}, []trust.ShownText{{ID: "x"}})
	}
	expect.That(t, !knows(a, "huge"), "sessions are not bounded")
}
