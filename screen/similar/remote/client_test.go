package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/screen/similar/remote"
)

// answering is an endpoint that answers with the length of each text, last text first.
func answering(calls *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		var in struct {
			Model string
			Input []string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.URL.Path != "/v1/embeddings" || r.Method != "POST" || r.Header.Get("Authorization") != "Bearer sesame" || in.Model != "m" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		type datum struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		}
		var data []datum
		for i := len(in.Input) - 1; i >= 0; i-- {
			data = append(data, datum{i, []float32{float32(len(in.Input[i])), 1}})
		}
		json.NewEncoder(w).Encode(map[string]any{"data": data})
	}
}

// The bounds of a call, and of the breaker.
const (
	batchSize, maxText, maxBody = 64, 8 << 10, 16 << 20
	maxFailures, cooldown       = 5, 30 * time.Second
)

func client(t testing.TB, h http.Handler, o remote.Options) *remote.Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o.URL, o.Model, o.Key = s.URL+"/v1/", "m", "sesame"
	return must.Get(remote.New(o))(t)
}

// Proves MFW-4, by API: batches, order, cache.
func TestEmbed(t *testing.T) {
	var calls atomic.Int64
	c := client(t, answering(&calls), remote.Options{})
	texts := []string{"a", strings.Repeat("d", maxText+5), strings.Repeat("a", maxText-1) + "ü"}
	want := [][]float32{{1, 1}, {maxText, 1}, {maxText - 1, 1}}
	for i := range batchSize {
		texts, want = append(texts, strings.Repeat("a", i+1)), append(want, []float32{float32(i + 1), 1})
	}
	for range 2 {
		must.Deep(t, must.Get(c.Embed(t.Context(), texts))(t), want)
		expect.Equal(t, calls.Load(), 2)
	}
	expect.Len(t, must.Get(c.Embed(t.Context(), nil))(t), 0, "nothing")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() { expect.OK(t, expect.Err(c.Embed(context.Background(), []string{fmt.Sprint(i % 3)}))) })
	}
	wg.Wait()
}

// Whatever the endpoint answers instead of vectors is an error that says
// neither key nor text.
func TestBadAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON":         `hello secret-text`,
		"nothing":         `{}`,
		"too few":         `{"data":[{"index":0,"embedding":[1]}]}`,
		"index twice":     `{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}`,
		"index outside":   `{"data":[{"index":0,"embedding":[1]},{"index":7,"embedding":[1]}]}`,
		"negative index":  `{"data":[{"index":0,"embedding":[1]},{"index":-1,"embedding":[1]}]}`,
		"empty vector":    `{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}`,
		"unequal vectors": `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}`,
		"too large":       `{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1]}]}` + strings.Repeat(" ", maxBody),
		"out of range":    `{"data":[{"index":0,"embedding":[1e99]},{"index":1,"embedding":[1]}]}`,
	} {
		c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }), remote.Options{})
		_, err := c.Embed(t.Context(), []string{"secret-text", "other"})
		expect.That(t, err != nil && !strings.Contains(err.Error(), "secret-text") && !strings.Contains(err.Error(), "sesame"), "%s: %v", name, err)
	}
}

// The key does not follow a redirect.
func TestRedirectIsRefused(t *testing.T) {
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	c := client(t, http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect), remote.Options{})
	_, err := c.Embed(t.Context(), []string{"a"})
	expect.That(t, err != nil && stolen.Load() == 0, "%v, %d calls elsewhere", err, stolen.Load())
}

// A silent endpoint ends with the deadline.
func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	c := client(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }), remote.Options{Timeout: 20 * time.Millisecond})
	defer close(release)
	expect.Is(t, expect.Err(c.Embed(t.Context(), []string{"a"})), context.DeadlineExceeded)
}

// An endpoint that fails in a row is left alone, and tried again once after
// the cooldown. A caller who gives up is not the endpoint's fault.
func TestBreaker(t *testing.T) {
	var calls atomic.Int64
	var healthy atomic.Bool
	good := answering(new(atomic.Int64))
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if healthy.Load() {
			good(w, r)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}), remote.Options{Now: func() time.Time { return now }})
	try := func() error { _, err := c.Embed(t.Context(), []string{"a"}); return err }

	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxFailures {
		must.Is(t, expect.Err(c.Embed(gone, []string{"a"})), context.Canceled)
	}
	for range maxFailures {
		err := try()
		must.That(t, err != nil && !errors.Is(err, remote.ErrOpen), "got %v", err)
	}
	before := calls.Load()
	expect.Is(t, try(), remote.ErrOpen, "open")
	expect.Equal(t, calls.Load(), before, "open")
	now = now.Add(cooldown)
	if err := try(); err == nil || errors.Is(err, remote.ErrOpen) || calls.Load() != before+1 {
		t.Errorf("probe: %v", err)
	}
	expect.Is(t, try(), remote.ErrOpen, "open again")
	now = now.Add(cooldown)
	healthy.Store(true)
	for range 3 {
		expect.OK(t, try(), "healthy")
	}
}

func TestAddressIsChecked(t *testing.T) {
	for _, o := range []remote.Options{{}, {URL: "ftp://h", Model: "m"}, {URL: "http://u:p@h", Model: "m"}} {
		expect.Error(t, expect.Err(remote.New(o)), o, "was taken")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embedding":[1,2]}]}`), 2)
	f.Add([]byte(`{"data":[{"embedding":[1]}]}`), 1)
	var body []byte
	var now atomic.Int64 // the breaker never stays open
	c := client(f, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }), remote.Options{Now: func() time.Time { return time.Unix(now.Add(60), 0) }})
	f.Fuzz(func(t *testing.T, raw []byte, want int) {
		if want &= 15; want == 0 {
			want = 1
		}
		body = raw
		texts := make([]string, want)
		for i := range texts {
			texts[i] = fmt.Sprint(now.Load(), i) // none that is known
		}
		vectors, err := c.Embed(t.Context(), texts)
		if err != nil {
			return
		}
		for _, v := range vectors {
			must.That(t, len(v) > 0 && len(v) == len(vectors[0]), "a vector is missing")
		}
		must.Len(t, vectors, want)
	})
}
