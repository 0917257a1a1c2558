// Package contract holds what a Mem0 backend answers, as cases: a conversation
// of requests and the answers to them, with ids, times and scores replaced by
// placeholders. The same cases run against the embedded backend and against the
// real engine behind both dialects.
//
// It promises that a case changes nothing but what it made itself, and puts
// settings back: every id in it carries the run's own suffix, so a shared
// backend can be asked.
//
// A case is a txtar file. Its comment says what it shows. Then come pairs of files:
//
//	-- name.ask --
//	POST /v3/memories/search/
//	As: admin                    (or nobody, stranger; otherwise the dialect's key)
//	Until: settled               (ask again while "status" is PENDING or RUNNING)
//
//	{"query": "tea", "filters": {"user_id": "ann-$run"}}
//	-- name.answer --
//	200 unordered ours
//	{ … }
//
// In a question $run is the run's suffix and <id1> the first id of the
// conversation's answers. In an answer "<any>" stands for whatever comes;
// "unordered" sorts the memories by text, "ours" keeps what carries the
// suffix; further lines before the body are headers that must be there.
package contract_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy/internal/must"
)

//go:embed testdata/*.txtar
var files embed.FS

// credentials are those of a backend.
type credentials struct {
	Hosted     string // Authorization: Token
	SelfHosted string // X-API-Key
	Admin      string // X-API-Key of the self-hosted administrator
}

const (
	answerTimeout = 30 * time.Second
	maxAnswer     = 8 << 20
)

// run replays every case against the backend at baseURL, as subtests.
func run(t *testing.T, baseURL string) {
	t.Helper()
	for _, c := range cases(t) {
		t.Run(c.name, func(t *testing.T) {
			talk := newTalk(baseURL, keys)
			defer talk.tidy(t, c.name)
			for _, step := range c.steps {
				got, err := talk.ask(t.Context(), step)
				if err != nil {
					t.Fatalf("%s: %v", step.name, err)
				}
				if diff := step.differs(got); diff != "" {
					t.Errorf("%s: %s", step.name, diff)
				}
			}
		})
	}
}

// kase is one case.
type kase struct {
	name  string
	steps []step
}

// step is a question and the answer that it should get.
type step struct {
	name     string
	question string
	want     answer
}

func cases(t *testing.T) []kase {
	t.Helper()
	entries := must.Get(files.ReadDir("testdata"))(t)
	var out []kase
	for _, e := range entries {
		text := must.Get(files.ReadFile("testdata/" + e.Name()))(t)
		c := must.Get(parseCase(strings.TrimSuffix(e.Name(), ".txtar"), txtar.Parse(text)))(t)
		out = append(out, c)
	}
	return out
}

func parseCase(name string, ar *txtar.Archive) (kase, error) {
	c := kase{name: name}
	for _, f := range ar.Files {
		stem, isAsk := strings.CutSuffix(f.Name, ".ask")
		if isAsk {
			c.steps = append(c.steps, step{name: stem, question: string(f.Data)})
			continue
		}
		last := len(c.steps) - 1
		if last < 0 || f.Name != c.steps[last].name+".answer" {
			return c, fmt.Errorf("%s: %s does not answer the question before it", name, f.Name)
		}
		var err error
		if c.steps[last].want, err = parseAnswer(string(f.Data)); err != nil {
			return c, fmt.Errorf("%s: %s: %w", name, f.Name, err)
		}
	}
	return c, nil
}

// talk is one conversation: what was learnt from the answers so far.
type talk struct {
	base   string
	keys   credentials
	client *http.Client
	names  *names
}

func newTalk(base string, keys credentials) *talk {
	return &talk{
		base: strings.TrimSuffix(base, "/"), keys: keys, names: newNames(strings.ToLower(rand.Text()[:10])),
		client: &http.Client{
			// A server that closes after an error of its own must not fail the next
			// question.
			Transport:     &http.Transport{DisableKeepAlives: true},
			Timeout:       answerTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// ask sends a question and returns its answer with names for what varies.
func (k *talk) ask(ctx context.Context, s step) (answer, error) {
	head, body, _ := strings.Cut(s.question, "\n\n")
	lines := strings.Split(strings.TrimSpace(head), "\n")
	method, path, ok := strings.Cut(lines[0], " ")
	if !ok {
		return answer{}, fmt.Errorf("%q is no request line", lines[0])
	}
	header := make(http.Header)
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return answer{}, fmt.Errorf("%q is no header", line)
		}
		header.Set(name, k.names.fill(value))
	}
	as, until := header.Get("As"), header.Get("Until")
	header.Del("As")
	header.Del("Until")
	k.sign(header, path, as)
	body = strings.TrimSpace(body)
	if body != "" && header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json")
	}
	for {
		got, err := k.send(ctx, method, k.names.fill(path), header, k.names.fill(body), s.want.flags)
		if err != nil || until == "" || !got.pending() {
			return got, err
		}
		// The work goes on elsewhere and tells nobody when it is done.
		select {
		case <-ctx.Done():
			return got, ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// tidy deletes the memories that a conversation left behind. Ids of events and
// of memories that are gone already are 404 and do no harm.
func (k *talk) tidy(t *testing.T, name string) {
	form := "DELETE /memories/%s"
	if strings.HasPrefix(name, "hosted_") {
		form = "DELETE /v1/memories/%s/"
	}
	for _, id := range k.names.given {
		if _, err := k.ask(context.WithoutCancel(t.Context()), step{question: fmt.Sprintf(form, id)}); err != nil {
			t.Errorf("tidying up: %v", err)
		}
	}
}

// sign presents the key that a caller would in the dialect of the path.
func (k *talk) sign(h http.Header, path, as string) {
	hosted := strings.HasPrefix(path, "/v") || strings.HasPrefix(path, "/api/")
	switch {
	case as == "nobody":
	case as == "stranger" && hosted:
		h.Set("Authorization", "Token stranger")
	case as == "stranger":
		h.Set("X-API-Key", "stranger")
	case as == "admin":
		h.Set("X-API-Key", k.keys.Admin)
	case as == "bearer":
		h.Set("Authorization", "Bearer "+k.keys.SelfHosted)
	case as == "token":
		h.Set("Authorization", "Token "+k.keys.SelfHosted)
	case hosted:
		h.Set("Authorization", "Token "+k.keys.Hosted)
	default:
		h.Set("X-API-Key", k.keys.SelfHosted)
	}
}

func (k *talk) send(ctx context.Context, method, path string, header http.Header, body string, flags []string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, k.base+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{}, err
	}
	req.Header = header.Clone()
	resp, err := k.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return answer{}, err
	}
	return k.names.normal(resp.StatusCode, resp.Header, text, flags)
}
