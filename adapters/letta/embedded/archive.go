package embedded

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// passage is a memory of an agent's archive.
type passage struct {
	ID      string   `json:"id"`
	Text    string   `json:"text"`
	Tags    []string `json:"tags"`
	Created string   `json:"created_at"`
	Archive string   `json:"archive_id"`
}

// found is a passage as the search tool gives it.
type found struct {
	ID        string   `json:"id"`
	Timestamp string   `json:"timestamp"`
	Content   string   `json:"content"`
	Tags      []string `json:"tags"`
}

func (b *Backend) archive(w http.ResponseWriter, r *http.Request) {
	var p passage
	if !read(w, r, &p) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agent(w, r)
	if a == nil {
		return
	}
	_ = b.insert(a, p)
	reply(w, http.StatusOK, a.passages[len(a.passages)-1:])
}

// insert adds to an archive; the lock is held.
func (b *Backend) insert(a *agent, p passage) error {
	p.ID, p.Archive = b.id("passage"), b.objects.archiveOf(a)
	if p.Created == "" {
		p.Created = time.Unix(int64(b.n), 0).UTC().Format(time.RFC3339)
	}
	a.passages = append(a.passages, p)
	return nil
}

// passages lists an archive, the newest first unless it is asked otherwise.
func (b *Backend) passages(w http.ResponseWriter, r *http.Request) {
	a := b.agent(w, r)
	if a == nil {
		return
	}
	list := slices.Clone(a.passages)
	if q := r.URL.Query(); q.Get("ascending") == "true" {
		slices.SortStableFunc(list, func(x, y passage) int { return strings.Compare(x.Created, y.Created) })
		reply(w, http.StatusOK, page(list, q, func(p passage) string { return p.ID }))
		return
	}
	slices.SortStableFunc(list, func(x, y passage) int { return -strings.Compare(x.Created, y.Created) })
	if i := slices.IndexFunc(list, func(p passage) bool { return p.ID == r.URL.Query().Get("before") }); i >= 0 {
		list = list[i+1:]
	}
	if n, err := strconv.Atoi(r.URL.Query().Get("limit")); err == nil && n < len(list) {
		list = list[:n]
	}
	if list == nil {
		list = []passage{}
	}
	reply(w, http.StatusOK, list)
}

func (b *Backend) dropPassage(w http.ResponseWriter, r *http.Request) {
	if a := b.agents[r.PathValue("id")]; a != nil {
		if i := slices.IndexFunc(a.passages, func(p passage) bool { return p.ID == r.PathValue("passage") }); i >= 0 {
			a.passages = slices.Delete(a.passages, i, i+1)
			reply(w, http.StatusOK, map[string]string{"message": "deleted"})
			return
		}
	}
	refuse(w, http.StatusNotFound, "Passage not found")
}

// search is the search tool: whatever holds a word of the query.
func (a *agent) search(query string) []found {
	out := []found{}
	for _, p := range a.passages {
		if slices.ContainsFunc(strings.Fields(query), func(word string) bool { return strings.Contains(p.Text, word) }) {
			out = append(out, found{p.ID, "1970-01-01T00:00:00+00:00", p.Text, []string{}})
		}
	}
	return out
}

// runTool runs a tool from outside.
func (b *Backend) runTool(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Args map[string]string `json:"args"`
	}
	if !read(w, r, &q) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agent(w, r)
	if a == nil {
		return
	}
	if name := r.PathValue("name"); name != "archival_memory_search" {
		args, err := json.Marshal(q.Args)
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		text, err := (&answer{b: b, a: a}).call(toolCall{Name: name, Arguments: string(args)})
		if err != nil {
			reply(w, http.StatusOK, map[string]any{"status": "error", "func_return": nil, "stderr": []string{err.Error()}})
			return
		}
		reply(w, http.StatusOK, map[string]any{"status": "success", "func_return": text, "stdout": nil, "stderr": nil})
		return
	}
	reply(w, http.StatusOK, map[string]any{"status": "success", "func_return": a.search(q.Args["query"]), "stdout": nil, "stderr": nil})
}
