package hunt_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/screen/hunt"
)

// toy holds what says "evil" and denies what says "worse".
func toy(text string) hunt.Verdict {
	if at := strings.Index(text, "worse"); at >= 0 {
		return hunt.Verdict{memproxy.Deny, 900, []hunt.Finding{{"toy.worse", "high", at, at + 5}}}
	}
	if at := strings.Index(text, "evil"); at >= 0 {
		return hunt.Verdict{memproxy.Hold, 600, []hunt.Finding{{"toy.evil", "medium", at, at + 4}}}
	}
	return hunt.Verdict{}
}

func TestStream(t *testing.T) {
	in := strings.Join([]string{
		`{"id":"a","text":"she likes tea"}`,
		`{"text":"an evil text","id":7,"label":{"more":[1]}}`,
		``,
		`{"id":"c","text":"w\u006frse <&>"}`,
		`no JSON, with evil content`,
		`{"id":"d","text":"x","text":"evil"}`,
		`{"id":["e"],"text":"x"}`,
		`{"id":"f"}`,
		`{"id":"g","TEXT":"evil"}`,
		`{"id":"h","text":"x"} {"id":"i"}`,
		"{\"id\":\"j\",\"text\":\"\xff\"}",
		`{"id":"k","text":"` + strings.Repeat("long", 1<<20/4) + `"}`,
		"  \t",
		`{"text":"no id"}`,
		`{"id":"ü","text":"last, without newline: evil"}`,
	}, "\n")
	want := `{"id":"a","verdict":"allow","score":0,"findings":[]}
{"id":7,"verdict":"hold","score":600,"findings":[{"rule":"toy.evil","severity":"medium","start":3,"end":7}]}
{"id":"c","verdict":"deny","score":900,"findings":[{"rule":"toy.worse","severity":"high","start":0,"end":5}]}
{"id":null,"verdict":"allow","score":0,"findings":[]}
{"id":"ü","verdict":"hold","score":600,"findings":[{"rule":"toy.evil","severity":"medium","start":23,"end":27}]}
`
	wantErrors := `line 5: not a JSON object, or it repeats a member or is not UTF-8
line 6: not a JSON object, or it repeats a member or is not UTF-8
line 7: "id" is neither a string nor a number
line 8: "text" is missing or not a string
line 9: "text" is missing or not a string
line 10: unexpected data after the object
line 11: not a JSON object, or it repeats a member or is not UTF-8
line 12: longer than the limit
`
	var out, errs bytes.Buffer
	r := must.Get(hunt.Stream(t.Context(), strings.NewReader(in), &out, hunt.StreamOptions{Screen: toy, Errors: &errs}))(t)
	expect.Equal(t, out.String(), want)
	expect.Equal(t, errs.String(), wantErrors)
	expect.Equal(t, r, (hunt.Result{hunt.Counts{Allow: 2, Hold: 2, Deny: 1}, 8}), "counted")
	expect.Equal(t, r.Screened(), 5, "counted")
}

// Many lines over several workers come out in order, in memory that does not
// grow with their number.
func TestStreamIsLongAndOrdered(t *testing.T) {
	n := 30_000 / ring.Share(1, 6)
	pr, pw := io.Pipe()
	go func() {
		w := bufio.NewWriter(pw)
		for i := range n {
			fmt.Fprintf(w, "{\"id\":%d,\"text\":%q}\n", i, strings.Repeat("x", i%97))
		}
		w.Flush()
		pw.Close()
	}()
	runtime.GC() // what other tests left is not counted
	check := &ordered{t: t}
	r, err := hunt.Stream(t.Context(), pr, check, hunt.StreamOptions{Screen: toy, Errors: io.Discard})
	must.That(t, err == nil && r.Allow == int64(n) && check.next == int64(n), "%+v, %d written, %v", r, check.next, err)
	expect.That(t, check.peak <= 64<<20, "%d bytes of heap", check.peak)
}

// ordered checks ids as they are written, and the heap now and then.
type ordered struct {
	t    *testing.T
	next int64
	peak uint64
}

func (o *ordered) Write(p []byte) (int, error) {
	dec := json.NewDecoder(bytes.NewReader(p))
	for {
		var a struct{ ID int64 }
		if err := dec.Decode(&a); err == io.EOF {
			break
		} else if err != nil || a.ID != o.next {
			o.t.Fatalf("%d where %d belongs, %v", a.ID, o.next, err)
		}
		if o.next++; o.next%5_000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			o.peak = max(o.peak, m.HeapAlloc)
		}
	}
	return len(p), nil
}

type failing struct{ after int }

var errBroken = errors.New("broken")

func (f *failing) Write(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func (f *failing) Read(p []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errBroken
	}
	return copy(p, "{\"id\":1,\"text\":\"x\"}\n"), nil
}

func TestStreamErrors(t *testing.T) {
	endless := func() io.Reader { return &failing{after: 1 << 30} }
	expect.Is(t, expect.Err(hunt.Stream(t.Context(), endless(), &failing{after: 3}, hunt.StreamOptions{Screen: toy, Errors: io.Discard})), errBroken, "writing")
	var out bytes.Buffer
	r, err := hunt.Stream(t.Context(), &failing{after: 3}, &out, hunt.StreamOptions{Screen: toy, Errors: io.Discard})
	expect.That(t, errors.Is(err, errBroken) && r.Allow <= 3, "reading: %+v, %v", r, err)
	ctx, cancel := context.WithCancel(t.Context())
	var calls atomic.Int64
	one := hunt.StreamOptions{Errors: io.Discard, Screen: func(string) hunt.Verdict {
		if calls.Add(1) == 5 {
			cancel()
		}
		return hunt.Verdict{}
	}}
	expect.Is(t, expect.Err(hunt.Stream(ctx, endless(), io.Discard, one)), context.Canceled, "cancelled")
}

// A caller who writes one line gets its answer before it writes the rest of the next.
func TestStreamAnswersAtOnce(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := hunt.Stream(context.Background(), inR, outW, hunt.StreamOptions{Screen: toy, Errors: io.Discard})
		outW.Close()
		done <- err
	}()
	answers := bufio.NewReader(outR)
	for i := range 3 {
		fmt.Fprintf(inW, "%s\"id\":%d,\"text\":\"evil\"}\n{", []string{"{", ""}[min(i, 1)], i) // and the beginning of the next
		a, err := answers.ReadString('\n')
		must.That(t, err == nil && strings.HasPrefix(a, fmt.Sprintf(`{"id":%d,"verdict":"hold"`, i)), "%q, %v", a, err)
	}
	fmt.Fprint(inW, "}")
	inW.Close()
	expect.OK(t, <-done)
}

// FuzzReadLine: what is read is what encoding/json reads of the same line, for
// every line on which the two agree that it is one object.
func FuzzReadLine(f *testing.F) {
	f.Add(`{"id":"a","text":"x"}`)
	f.Add(`{"id":1e3,"text":"\ud83d\ude00","other":[{}]}`)
	f.Add(`{"text":"a","text":"b"}`)
	f.Fuzz(func(t *testing.T, raw string) {
		read := ""
		screen := func(text string) hunt.Verdict {
			read = text
			return toy(text)
		}
		var out bytes.Buffer
		r := must.Get(hunt.Stream(t.Context(), strings.NewReader(raw), &out, hunt.StreamOptions{Screen: screen, Errors: io.Discard}))(t)
		if r.Screened() != 1 || strings.Contains(raw, "\n") {
			return
		}
		var m map[string]json.RawMessage
		must.Do(t, json.Unmarshal([]byte(raw), &m), raw, "was read, and is no JSON")
		var text string
		err := json.Unmarshal(m["text"], &text)
		must.That(t, err == nil && text == read && utf8.ValidString(read), "%q: %q or %q", raw, read, text)
		must.That(t, json.Valid(out.Bytes()) && bytes.Count(out.Bytes(), []byte("\n")) == 1, "%q: answer %q", raw, out.String())
	})
}

// FuzzStream: every line is screened, bad or blank, whatever the input.
func FuzzStream(f *testing.F) {
	f.Add([]byte("{\"text\":\"a\"}\n\nx\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, errs bytes.Buffer
		r := must.Get(hunt.Stream(context.Background(), bytes.NewReader(in), &out, hunt.StreamOptions{Screen: toy, Errors: &errs}))(t)
		lines, blank := bytes.Split(in, []byte("\n")), int64(0)
		for _, l := range lines {
			if len(bytes.TrimSpace(l)) == 0 && len(l) <= 1<<20 {
				blank++
			}
		}
		if r.Screened()+r.Malformed+blank != int64(len(lines)) || int64(bytes.Count(out.Bytes(), []byte("\n"))) != r.Screened() || int64(bytes.Count(errs.Bytes(), []byte("\n"))) != r.Malformed {
			t.Fatalf("%d lines, %d blank, %+v", len(lines), blank, r)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	line := `{"id":"a","text":"` + strings.Repeat("The user prefers tea. ", 10) + "\"}\n"
	in := strings.Repeat(line, 10_000)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		must.Get(hunt.Stream(b.Context(), strings.NewReader(in), io.Discard, hunt.StreamOptions{Screen: toy, Errors: io.Discard}))(b)
	}
}
