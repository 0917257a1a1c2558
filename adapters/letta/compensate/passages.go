package compensate

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// requestPassages requests the newest passages of an agent's archive that are older than the
// passage with the id before; "" for the newest of all.
func (d *RunDiff) requestPassages(a *agent, before string) {
	query := turn.NewestPassages
	if before != "" {
		query += "&before=" + url.QueryEscape(before)
	}
	q := d.opt.get(query, "agents", a.ID, "archival-memory")
	d.request(q, jsondoc.Array, "passages", nil, func(doc *jsondoc.Doc) error { return d.passages(a, doc) })
}

// passages reads one page. The first snapshot has one page only; later ones read older pages
// until they reach its passages, so that they have all new ones.
func (d *RunDiff) passages(a *agent, doc *jsondoc.Doc) error {
	fresh := 0
	for _, e := range doc.Root.Elems {
		var p passage
		if err := json.Unmarshal(doc.Raw(e), &p); err != nil {
			return fmt.Errorf("letta: cannot parse a passage: %w", err)
		}
		if p.ID == "" {
			return errors.New("letta: a passage has no id")
		}
		if a.passage(p.ID) == nil {
			a.Passages = append(a.Passages, p)
			fresh++
		}
	}
	a.Whole = len(doc.Root.Elems) < pageSize
	d.pages++
	if a.Whole || fresh == 0 || d.base == nil || d.base.caughtUp(a) {
		return nil
	}
	if d.pages > maxPages {
		a.truncated = true
		return nil
	}
	d.requestPassages(a, a.oldest().ID)
	return nil
}

// caughtUp reports whether the passages read so far reach those of this earlier snapshot.
func (s *snapshot) caughtUp(a *agent) bool {
	before := s.agent(a.ID)
	if before == nil {
		return true // the agent joined during the run, so one page is enough
	}
	first := before.oldest()
	return first != nil && (a.passage(first.ID) != nil || parseTime(a.oldest().Created).Before(parseTime(first.Created)))
}

func (o *Options) activeRuns(agent string) memproxy.Request {
	return o.get("active=true&limit=100&agent_id="+url.QueryEscape(agent), "runs", "")
}

// ActiveRunRequests implements memproxy.RunDiff.
func (d *RunDiff) ActiveRunRequests() []memproxy.Request {
	var out []memproxy.Request
	for _, id := range d.Agents() {
		out = append(out, d.opt.activeRuns(id))
	}
	return out
}

// HasActiveRun implements memproxy.RunDiff.
func (d *RunDiff) HasActiveRun(r memproxy.Reply) (bool, error) {
	runs, err := d.active(r)
	return slices.ContainsFunc(runs, func(id string) bool { return !slices.Contains(d.base.Running, id) }), err
}

// maxUnendedRun is how long a run counts as active if the server never records its end.
const maxUnendedRun = 10 * time.Minute

// active returns the active runs of a list. A conversation's run that is answered in one
// piece keeps the status "created" although it ends with its answer. A reopened RunDiff did
// not see the answer, so it counts such a run as active for maxUnendedRun.
func (d *RunDiff) active(r memproxy.Reply) ([]string, error) {
	if !memproxy.IsSuccess(r.Status) {
		return nil, fmt.Errorf("letta: the request for runs returned status %d", r.Status)
	}
	var list []struct {
		ID, Status   string
		Conversation *string `json:"conversation_id"`
		Created      string  `json:"created_at"`
		Metadata     struct {
			Type string `json:"run_type"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(r.Body, &list); err != nil {
		return nil, err
	}
	var out []string
	for _, run := range list {
		if run.Status != "created" && run.Status != "running" {
			continue
		}
		if run.Status == "created" && run.Metadata.Type == "send_conversation_message" && run.Conversation == nil &&
			(!d.reopened || d.clock().Sub(parseTime(run.Created)) > maxUnendedRun) {
			continue
		}
		out = append(out, run.ID)
	}
	return out, nil
}
