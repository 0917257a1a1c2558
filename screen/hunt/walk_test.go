package hunt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/hunt"
)

// shelf is a store in memory: page n is at cursor "n".
type shelf struct {
	pages [][]hunt.Item
	fail  map[string]error
	asked []string
}

func (s *shelf) Page(_ context.Context, cursor string) ([]hunt.Item, string, error) {
	s.asked = append(s.asked, cursor)
	if err := s.fail[cursor]; err != nil {
		return nil, "", err
	}
	n := 0
	if cursor != "" {
		if _, err := fmt.Sscan(cursor, &n); err != nil {
			return nil, "", err
		}
	}
	if n+1 == len(s.pages) {
		return s.pages[n], "", nil
	}
	return s.pages[n], fmt.Sprint(n + 1), nil
}

func memory(id, text string) hunt.Item {
	return hunt.Item{ID: id, Kind: "memory", Field: "memory", Text: text, Owner: memproxy.Scope{User: "ada"}}
}

func newShelf() *shelf {
	return &shelf{pages: [][]hunt.Item{
		{memory("1", "she likes tea"), memory("2", "evil")},
		{},
		{memory("3", "worse"), memory("4", strings.Repeat("x", 1<<20+1)), {ID: "5", Kind: "memory", Incomplete: true}},
		{memory("6", "he likes cats")},
	}}
}

type walker struct {
	ids     []string
	skipped []string
	report  bytes.Buffer
}

func (w *walker) options(state string) hunt.WalkOptions {
	report := hunt.NewReporter(&w.report, false)
	return hunt.WalkOptions{
		Screen: toy, Name: "mem0 http://store", StateFile: state, Rate: 4,
		Report:  func(i hunt.Item, v hunt.Verdict) error { w.ids = append(w.ids, i.ID); return report(i, v) },
		Skipped: func(i hunt.Item) { w.skipped = append(w.skipped, i.ID) },
	}
}

func TestWalk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w walker
		began := time.Now()
		path := filepath.Join(t.TempDir(), "state")
		s := newShelf()
		state, err := hunt.Walk(t.Context(), s, w.options(path))
		expect.That(t, err == nil && state.Done && state.Pages == 4 && state.Counts == (hunt.Counts{Allow: 2, Hold: 1, Deny: 1}) && state.Skipped == 2, "%+v, %v", state, err)
		expect.Equal(t, strings.Join(w.ids, " ")+" | "+strings.Join(w.skipped, " "), "1 2 3 6 | 4 5", "walked")
		want := `{"id":"2","kind":"memory","field":"memory","owner":{"user":"ada"},"verdict":"hold","score":600,"findings":[{"rule":"toy.evil","severity":"medium","start":0,"end":4}]}
{"id":"3","kind":"memory","field":"memory","owner":{"user":"ada"},"verdict":"deny","score":900,"findings":[{"rule":"toy.worse","severity":"high","start":0,"end":5}]}
`
		expect.That(t, w.report.String() == want, "reported\n%s", w.report.String())
		expect.Equal(t, time.Since(began), 3*250*time.Millisecond, "waited between four pages")
		// A finished walk is not walked again.
		asked := len(s.asked)
		again, err := hunt.Walk(t.Context(), s, w.options(path))
		expect.That(t, err == nil && again.Counts == state.Counts && len(s.asked) == asked, "again: %+v, %v", again, err)
	})
}

// A walk that fails, is cancelled or cannot report goes on at the page that it
// had not finished, and counts nothing twice.
func TestWalkGoesOn(t *testing.T) {
	broken := errors.New("broken")
	for name, stop := range map[string]func(*shelf, *hunt.WalkOptions, context.CancelFunc){
		"the backend fails": func(s *shelf, _ *hunt.WalkOptions, _ context.CancelFunc) { s.fail = map[string]error{"2": broken} },
		"the report fails": func(_ *shelf, o *hunt.WalkOptions, _ context.CancelFunc) {
			inner := o.Report
			o.Report = func(i hunt.Item, v hunt.Verdict) error {
				if i.ID == "3" {
					return broken
				}
				return inner(i, v)
			}
		},
		"it is cancelled": func(_ *shelf, _ *hunt.WalkOptions, cancel context.CancelFunc) {
			time.AfterFunc(300*time.Millisecond, cancel) // between the second and the third page
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w walker
				path := filepath.Join(t.TempDir(), "state")
				s := newShelf()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				o := w.options(path)
				stop(s, &o, cancel)
				state, err := hunt.Walk(ctx, s, o)
				must.That(t, (errors.Is(err, broken) || errors.Is(err, context.Canceled)) && state.Pages == 2 && state.Cursor == "2" && !state.Done, "stopped at %+v, %v", state, err)
				s.fail, s.asked = nil, nil
				state, err = hunt.Walk(t.Context(), s, w.options(path))
				expect.That(t, err == nil && state.Done && state.Counts == (hunt.Counts{Allow: 2, Hold: 1, Deny: 1}) && state.Skipped == 2, "in the end %+v, %v", state, err)
				expect.Equal(t, strings.Join(s.asked, ","), "2,3", "the second walk asked for")
				expect.Equal(t, strings.Join(w.ids, " "), "1 2 3 6", "reported")
				left, _ := filepath.Glob(path + "*")
				expect.That(t, len(left) == 1, "files left: %v", left)
			})
		})
	}
}

func TestWalkRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		var w walker
		path := filepath.Join(dir, "state")
		must.Get(hunt.Walk(t.Context(), newShelf(), w.options(path)))(t)
		other := w.options(path)
		other.Name = "letta http://other"
		expect.Is(t, expect.Err(hunt.Walk(t.Context(), newShelf(), other)), hunt.ErrOtherWalk, "another store")
		for name, text := range map[string]string{"garbage": "x", "empty": "", "version": `{"version":9}`, "unknown": `{"version":1,"x":1}`, "twice": `{"version":1}{}`, "negative": `{"version":1,"hold":-1}`} {
			file := filepath.Join(dir, name)
			must.Do(t, os.WriteFile(file, []byte(text), 0o600))
			s := newShelf()
			_, err := hunt.Walk(t.Context(), s, w.options(file))
			expect.That(t, err != nil && len(s.asked) == 0, "state %s: %v", name, err)
		}
		expect.Error(t, expect.Err(hunt.Walk(t.Context(), newShelf(), w.options(filepath.Join(dir, "none", "state")))), "a state that cannot be kept was")
		expect.Is(t, expect.Err(hunt.Walk(t.Context(), circle{}, w.options(""))), hunt.ErrCursorLoop, "in a circle")
	})
}

type circle struct{}

func (circle) Page(context.Context, string) ([]hunt.Item, string, error) { return nil, "same", nil }

// A sequence of pagers, as of a Letta server, takes no cursor of none of them.
func TestSequence(t *testing.T) {
	api := serve(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "[]") })
	p := pager(t)(hunt.Letta(api))
	for cursor, ok := range map[string]bool{"": true, "0:": true, "1:": true, "x": false, "7:": false, "-1:": false, "1": false} {
		_, _, err := p.Page(t.Context(), cursor)
		expect.Equal(t, err == nil, ok, cursor, err)
	}
}

func FuzzParseState(f *testing.F) {
	f.Add([]byte(`{"version":1,"name":"x","cursor":"7","done":false,"pages":6,"skipped":0,"started":"2026-11-21T12:00:00Z","updated":"2026-11-21T12:00:00Z","allow":1,"amend":0,"hold":0,"deny":0}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "state")
		must.Do(t, os.WriteFile(path, raw, 0o600))
		s, err := hunt.LoadState(path)
		if err != nil {
			return
		}
		if err := s.Save(path); err != nil {
			t.Skip() // a time out of JSON's range
		}
		again, err := hunt.LoadState(path)
		must.That(t, err == nil && again.Cursor == s.Cursor && again.Counts == s.Counts, "%+v came back as %+v, %v", s, again, err)
	})
}
