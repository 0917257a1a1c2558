//go:build slow

// Slow: the store's own counts, and a definition of a recipe's words that shares its table.

package assembly

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/terms"
)

var (
	key  = Key{"acme", "agent:dev", "run-1"}
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// Whatever is written, the store stays within its bounds.
func TestBounds(t *testing.T) {
	o := bounds{sessions: 10, texts: 4, bytes: 3000, total: 12000}
	s := within(o)
	for i := range 500 {
		k := Key{"acme", "agent", fmt.Sprint(i % 37)}
		s.Commit(fmt.Sprint(i), []string{strings.Repeat("always ", i), "and", "or", "of", "to", "the"}, noon, k)
		sessions, bytes := s.sessions.Len(), s.bytes
		must.That(t, sessions <= o.sessions && bytes <= o.total, "%d sessions, %d bytes", sessions, bytes)
	}
	for s.sessions.Len() > 0 {
		s.sessions.RemoveOldest()
	}
	expect.Equal(t, s.bytes, 0)
}

// Sessions that nobody writes to any more are dropped by others' writes.
func TestIdleSessionsGo(t *testing.T) {
	s := New()
	for i := range 20 {
		s.Commit("a", []string{"always"}, noon, Key{"acme", "agent", fmt.Sprint(i)})
	}
	s.Commit("a", []string{"always"}, noon.Add(2*time.Hour), key)
	expect.Equal(t, s.sessions.Len(), 1)
}

// The words of a recipe are found as by the definition of them that is slow: each
// kind has a set of words, and edges are trimmed by strings.Trim.
func TestIngredientsByDefinition(t *testing.T) {
	kind := func(k int, w string) bool { return roles.Get(hash(w))&(1<<k) != 0 }
	slow := func(text string) (found [kinds]bool) {
		for _, s := range sentences(text) {
			address, aim := false, false
			for w := range strings.FieldsFuncSeq(strings.ToLower(text[s.from:s.to]), func(r rune) bool { return strings.ContainsRune(" \t\n,;!?()[]{}\"'`<>", r) }) {
				w = strings.Trim(w, ".:*_")
				found[packs] = found[packs] || kind(packs, w)
				found[carries] = found[carries] || kind(carries, w)
				aim = aim || kind(aims, w)
				address = address || terms.IsAddress(w)
			}
			found[aims] = found[aims] || address && aim
		}
		return found
	}
	pieces := strings.Split("tar Zip pg_dump uploads backup CURL endpoint evil.com x@y.example https://a.b ftp: .*_: . , ( ) ' ` < word é 字 \xff notes.md", " ")
	pieces = append(pieces, " ", "\n", ". ", "\r")
	random := rand.New(rand.NewPCG(7, 8))
	seen := map[[kinds]bool]int{}
	for range 20000 {
		var text strings.Builder
		for range random.IntN(14) {
			text.WriteString(pieces[random.IntN(len(pieces))])
		}
		got := ingredientsOf(text.String())
		must.Equal(t, got, slow(text.String()), text.String())
		seen[got]++
	}
	for _, want := range [][kinds]bool{{}, {true, false, false}, {false, true, false}, {true, true, true}} {
		expect.That(t, seen[want] != 0, "no text with %v was tried", want)
	}
	for k, words := range [kinds]string{packs: "tar backup", carries: "curl uploads", aims: "endpoint backup uploads"} {
		for w := range strings.FieldsSeq(words) {
			expect.That(t, kind(k, w), "%q is not of kind %d", w, k)
		}
	}
}
