package embedded

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// passage is an entry of an agent's archive.
type passage struct {
	ID      string   `json:"id"`
	Text    string   `json:"text"`
	Tags    []string `json:"tags"`
	Created string   `json:"created_at"`
	Archive string   `json:"archive_id"`
}

// found is a passage in the result of the search tool.
type found struct {
	ID        string   `json:"id"`
	Timestamp string   `json:"timestamp"`
	Content   string   `json:"content"`
	Tags      []string `json:"tags"`
}

func (b *Backend) archive(r *http.Request, p *passage) any {
	return b.ofAgent(func(a *agent, _ *http.Request) any {
		b.insert(a, *p)
		return a.passages[len(a.passages)-1:]
	})(r)
}

// insert adds a passage to an archive; the lock is held.
func (b *Backend) insert(a *agent, p passage) {
	p.ID, p.Archive = b.id("passage"), b.objects.archiveOf(a)
	if p.Created == "" {
		p.Created = time.Unix(int64(b.n), 0).UTC().Format(time.RFC3339)
	}
	a.passages = append(a.passages, p)
}

// passages lists an archive, by default newest first.
func passages(a *agent, r *http.Request) any {
	q, list, way := r.URL.Query(), slices.Clone(a.passages), 1
	if q.Get("ascending") != "true" {
		way = -1
		q = url.Values{"after": q["before"], "limit": q["limit"]} // the list is reversed, so before becomes after
	}
	slices.SortStableFunc(list, func(x, y passage) int { return way * strings.Compare(x.Created, y.Created) })
	return page(list, q, func(p passage) string { return p.ID })
}

func (b *Backend) dropPassage(r *http.Request) any {
	if a := b.agents[r.PathValue("id")]; a != nil {
		if i := slices.IndexFunc(a.passages, func(p passage) bool { return p.ID == r.PathValue("passage") }); i >= 0 {
			a.passages = slices.Delete(a.passages, i, i+1)
			return deleted
		}
	}
	return notFound("Passage")
}

var deleted = map[string]string{"message": "deleted"}

// search implements the search tool: it finds passages that contain a word of the query.
func (a *agent) search(query string) []found {
	out := []found{}
	for _, p := range a.passages {
		if slices.ContainsFunc(strings.Fields(query), func(word string) bool { return strings.Contains(p.Text, word) }) {
			out = append(out, found{p.ID, "1970-01-01T00:00:00+00:00", p.Text, []string{}})
		}
	}
	return out
}

type toolRequest struct {
	Args map[string]string `json:"args"`
}

func (b *Backend) runTool(r *http.Request, q *toolRequest) any {
	return b.ofAgent(func(a *agent, r *http.Request) any {
		name := r.PathValue("name")
		if name == "archival_memory_search" {
			return map[string]any{"status": "success", "func_return": a.search(q.Args["query"]), "stdout": nil, "stderr": nil}
		}
		args, _ := json.Marshal(q.Args) // strings always marshal
		text, err := (&answer{b: b, a: a}).call(toolCall{Name: name, Arguments: string(args)})
		if err != nil {
			return map[string]any{"status": "error", "func_return": nil, "stderr": []string{err.Error()}}
		}
		return map[string]any{"status": "success", "func_return": text, "stdout": nil, "stderr": nil}
	})(r)
}
