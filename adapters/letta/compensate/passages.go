package compensate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// askPassages asks for the newest passages of an agent's archive, or for those
// that are older than one.
func (w *Watch) askPassages(a *agent, than string) {
	query := pageQuery
	if than != "" {
		query += "&before=" + url.QueryEscape(than)
	}
	w.then(w.get(query, "agents", a.ID, "archival-memory"), func(w *Watch, r memproxy.Reply) error { return w.passages(a, r) })
}

// passages takes one page. The first look is one page long; later ones go back
// to where it began, so that all that is new is seen.
func (w *Watch) passages(a *agent, r memproxy.Reply) error {
	if r.Status < 200 || r.Status > 299 {
		return fmt.Errorf("letta: asked for passages, the server answers %d", r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err != nil {
		return err
	}
	if doc.Root.Kind != jsondoc.Array {
		return errors.New("letta: asked for passages, the server answers something else")
	}
	fresh := 0
	for _, e := range doc.Root.Elems {
		var p passage
		for name, to := range map[string]any{"id": &p.ID, "text": &p.Text, "tags": &p.Tags, "created_at": &p.Created} {
			if v := e.Get(name); v != nil {
				if err := json.Unmarshal(doc.Raw(v), to); err != nil {
					return fmt.Errorf("letta: a passage that cannot be read: %w", err)
				}
			}
		}
		if p.ID == "" {
			return errors.New("letta: a passage without an id")
		}
		if a.passage(p.ID) == nil {
			a.Passages = append(a.Passages, p)
			fresh++
		}
	}
	a.Whole = len(doc.Root.Elems) < pageSize
	if w.pages++; a.Whole || fresh == 0 || w.base == nil || w.reached(a) {
		return nil
	}
	if w.pages > maxPages {
		return errBounds
	}
	// In front of what else is asked, so that the pages follow each other.
	rest := w.steps
	w.steps = nil
	w.askPassages(a, a.oldest().ID)
	w.steps = append(w.steps, rest...)
	return nil
}

// reached reports whether a look has come to what was old at the first.
func (w *Watch) reached(a *agent) bool {
	before := w.base.agent(a.ID)
	if before == nil {
		return true // an agent that came in between: its newest, no more
	}
	first := before.oldest()
	return first != nil && (a.passage(first.ID) != nil || when(a.oldest().Created).Before(when(first.Created)))
}

func (w *Watch) busy(agent string) memproxy.Request {
	return w.get("active=true&limit=20&agent_id="+url.QueryEscape(agent), "runs", "")
}

// Busy implements memproxy.Watch.
func (w *Watch) Busy() []memproxy.Request {
	var out []memproxy.Request
	for _, id := range w.Agents() {
		out = append(out, w.busy(id))
	}
	return out
}

// running takes down the runs that are under way before the watch begins.
func (w *Watch) running(r memproxy.Reply) error {
	runs, err := active(r)
	w.now.Running = append(w.now.Running, runs...)
	return err
}

// Runs implements memproxy.Watch.
func (w *Watch) Runs(r memproxy.Reply) (bool, error) {
	runs, err := active(r)
	return slices.ContainsFunc(runs, func(id string) bool { return !slices.Contains(w.base.Running, id) }), err
}

// active are the runs of a list that are under way.
func active(r memproxy.Reply) ([]string, error) {
	if missing(r) {
		return nil, nil // the agent is gone, and nothing of it runs
	}
	if r.Status < 200 || r.Status > 299 {
		return nil, fmt.Errorf("letta: asked for runs, the server answers %d", r.Status)
	}
	var list []struct{ ID, Status string }
	if err := json.Unmarshal(r.Body, &list); err != nil {
		return nil, err
	}
	var out []string
	for _, run := range list {
		if run.Status == "created" || run.Status == "running" {
			out = append(out, run.ID)
		}
	}
	return out, nil
}
