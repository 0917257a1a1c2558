package embedded

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
)

// passage is a memory of an agent's archive.
type passage struct {
	ID   string `json:"id"`
	Text string `json:"text"`
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agents[r.PathValue("id")]
	if a == nil {
		refuse(w, http.StatusNotFound, "Agent not found")
		return
	}
	p.ID = b.id("passage")
	a.passages = append(a.passages, p)
	reply(w, http.StatusOK, []passage{p})
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agents[r.PathValue("id")]
	if a == nil || r.PathValue("name") != "archival_memory_search" {
		refuse(w, http.StatusNotFound, "Tool not found")
		return
	}
	reply(w, http.StatusOK, map[string]any{"status": "success", "func_return": a.search(q.Args["query"]), "stdout": nil, "stderr": nil})
}
