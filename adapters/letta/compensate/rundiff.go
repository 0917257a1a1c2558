package compensate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
	"github.com/memproxy/memproxy/adapters/stamps"
)

// Options describe the run.
type Options struct {
	// Prefix is the path prefix of the server's routes: "/v1".
	Prefix string `json:"prefix"`
	// Agent runs, in Conversation if that is set. One of them may be empty.
	Agent        string `json:"agent"`
	Conversation string `json:"conversation,omitempty"`
	// Background is set for a run that starts once the request has been answered.
	Background bool `json:"background,omitempty"`
}

// RunDiff compares the memory of agents before and after a run. It implements
// memproxy.Watch.
type RunDiff struct {
	opt       Options
	base, now *snapshot
	accepted  map[string]bool
	clock     func() time.Time
	reopened  bool // restored by Open, so that the run's answer was not seen
	steps     []step
	pages     int
	revisited bool // detached blocks and new list entries were requested
}

// step is a side request and the function that takes its reply.
type step struct {
	request memproxy.Request
	take    func(memproxy.Reply) error
}

// Bounds of one look. A look is one reading of the agents' memory, before or after the run.
const (
	// pageSize is the number of passages per request, the limit in turn.NewestPassages.
	pageSize = 10
	// maxPages bounds how many pages of new passages one look reads.
	maxPages  = 100
	maxAgents = 32
	maxBlocks = 4096
)

// errBounds reports that the agents' memory exceeds the bounds of a look.
var errBounds = errors.New("letta: there is more to look at than is looked at")

// New returns the watch over a run that is about to start.
func New(opt Options, clock func() time.Time) (memproxy.RunDiff, error) {
	if opt.Agent == "" && (opt.Conversation == "" || opt.Conversation == "default") {
		return nil, memproxy.ErrUngated
	}
	return &RunDiff{opt: opt, clock: clock, accepted: map[string]bool{}}, nil
}

func (o *Options) get(query string, parts ...string) memproxy.Request {
	return turn.Get(o.path(parts...), query)
}

func (o *Options) path(parts ...string) string {
	var b strings.Builder
	b.WriteString(o.Prefix)
	for _, p := range parts {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(p))
	}
	return b.String()
}

// StartSnapshot implements memproxy.Watch.
func (w *RunDiff) StartSnapshot() {
	w.now, w.pages, w.steps, w.revisited = &snapshot{Blocks: map[string]*block{}}, 0, nil, false
	if w.base == nil {
		w.requestMarks()
	}
	if c := w.opt.Conversation; c != "" && c != "default" {
		w.enqueue(w.opt.get("", "conversations", c), w.conversation)
		return
	}
	w.requestAgent(w.opt.Agent)
}

func (w *RunDiff) enqueue(q memproxy.Request, take func(memproxy.Reply) error) {
	w.steps = append(w.steps, step{q, take})
}

// NextSideRequest implements memproxy.Watch.
func (w *RunDiff) NextSideRequest() (memproxy.Request, bool) {
	if len(w.steps) == 0 {
		return memproxy.Request{}, false
	}
	return w.steps[0].request, true
}

// ReadSideReply implements memproxy.Watch.
func (w *RunDiff) ReadSideReply(r memproxy.Reply) error {
	if len(w.steps) == 0 {
		return errors.New("letta: an answer to nothing")
	}
	take := w.steps[0].take
	w.steps = w.steps[1:]
	if err := take(r); err != nil {
		w.steps = nil
		return err
	}
	if len(w.steps) == 0 && w.base != nil && !w.revisited {
		// A detached block may still be attached to other agents, with a changed text.
		w.revisited = true
		for _, id := range slices.Sorted(maps.Keys(w.base.Blocks)) {
			if w.now.Blocks[id] == nil {
				w.requestBlock(id)
			}
		}
		w.compareNew()
	}
	if len(w.steps) > 0 {
		return nil
	}
	slices.SortFunc(w.now.Agents, func(a, b *agent) int { return strings.Compare(a.ID, b.ID) })
	w.base = cmp.Or(w.base, w.now)
	return nil
}

// missing reports whether the server says that an object does not exist. Statuses other
// than 404 can have other causes.
func missing(r memproxy.Reply) bool { return r.Status == 404 }

func object(r memproxy.Reply) (*jsondoc.Doc, error) { return document(r, jsondoc.Object, "one thing") }

// document parses a successful reply whose root is of the given kind.
func document(r memproxy.Reply, kind jsondoc.Kind, asked string) (*jsondoc.Doc, error) {
	if r.Status < 200 || r.Status > 299 {
		return nil, fmt.Errorf("letta: asked for %s, the server answers %d", asked, r.Status)
	}
	doc, err := jsondoc.Parse(r.Body, 0)
	if err == nil && doc.Root.Kind != kind {
		err = fmt.Errorf("letta: asked for %s, the server answers something else", asked)
	}
	return doc, err
}

func (w *RunDiff) conversation(r memproxy.Reply) error {
	if missing(r) {
		if w.base != nil {
			w.now.recordMissing(w.opt.Agent)
		}
		return nil // the server reports it when the run starts
	}
	doc, err := object(r)
	if err != nil {
		return err
	}
	if w.opt.Agent = doc.Root.Get("agent_id").Text(); w.opt.Agent == "" {
		return memproxy.ErrUngated
	}
	w.requestAgent(w.opt.Agent)
	for _, id := range ids(doc.Root.Get("isolated_block_ids")) {
		w.now.Isolated = append(w.now.Isolated, id)
		w.requestBlock(id)
	}
	return nil
}

func ids(v *jsondoc.Value) []string {
	var out []string
	for _, e := range v.List() {
		if id := e.Text(); id != "" && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func (w *RunDiff) requestBlock(id string) {
	w.enqueue(w.opt.get("", "blocks", id), func(r memproxy.Reply) error {
		if missing(r) {
			return nil
		}
		doc, err := object(r)
		if err != nil {
			return err
		}
		_, err = w.block(doc, doc.Root)
		return err
	})
}

func (w *RunDiff) block(doc *jsondoc.Doc, v *jsondoc.Value) (string, error) {
	var b block
	if err := json.Unmarshal(doc.Raw(v), &b); err != nil {
		return "", fmt.Errorf("letta: a block that cannot be read: %w", err)
	}
	if b.ID == "" {
		return "", errors.New("letta: a block without an id")
	}
	if meta := v.Get("metadata"); meta != nil && meta.Kind == jsondoc.Object {
		b.stamp = stamps.Parse(meta, doc)
	}
	if w.now.Blocks[b.ID] = &b; len(w.now.Blocks) > maxBlocks {
		return "", errBounds
	}
	return b.ID, nil
}

func (w *RunDiff) requestAgent(id string) {
	q := w.opt.get("include=agent.blocks&include=agent.managed_group&include=agent.tools", "agents", id)
	w.enqueue(q, func(r memproxy.Reply) error { return w.agent(id, r) })
}

// recordMissing records an agent that does not exist, and so has no changes.
func (p *snapshot) recordMissing(id string) {
	p.Agents = append(p.Agents, &agent{ID: id, Gone: true})
}

func (w *RunDiff) agent(id string, r memproxy.Reply) error {
	if missing(r) {
		w.now.recordMissing(id)
		return nil
	}
	doc, err := object(r)
	if err != nil {
		return err
	}
	if doc.Root.Get("id").Text() != id {
		return errors.New("letta: asked for one agent, the server answers with another")
	}
	if w.base == nil && messagesAgents(doc.Root.Get("tools")) {
		return memproxy.ErrUngated
	}
	a := &agent{ID: id, Blocks: []string{}}
	w.now.Agents = append(w.now.Agents, a)
	list := doc.Root.Get("blocks")
	if list == nil || list.Kind != jsondoc.Array {
		list = doc.Root.Get("memory").Get("blocks") // older servers
	}
	if list == nil || list.Kind != jsondoc.Array {
		return errors.New("letta: an agent without its blocks")
	}
	for _, e := range list.Elems {
		b, err := w.block(doc, e)
		if err != nil {
			return err
		}
		a.Blocks = append(a.Blocks, b)
	}
	if id == w.opt.Agent {
		for _, name := range [...]string{"managed_group", "multi_agent_group"} {
			if err := w.group(doc.Root.Get(name)); err != nil {
				return err
			}
		}
	}
	w.requestArchives(a)
	w.requestPassages(a, "")
	if w.base == nil {
		w.enqueue(w.opt.busy(id), func(r memproxy.Reply) error {
			runs, err := w.active(r)
			w.now.Running = append(w.now.Running, runs...)
			return err
		})
	}
	return nil
}

// group requests the agents of a group, which run after the agent, and the group's shared
// blocks.
func (w *RunDiff) group(g *jsondoc.Value) error {
	if g == nil || g.Kind != jsondoc.Object {
		return nil
	}
	for _, id := range ids(g.Get("agent_ids")) {
		if id == w.opt.Agent || slices.ContainsFunc(w.steps, func(s step) bool { return s.request.EscapedPath == w.opt.path("agents", id) }) || w.now.agent(id) != nil {
			continue
		}
		if len(w.steps) > maxAgents {
			return errBounds
		}
		w.requestAgent(id)
	}
	for _, id := range ids(g.Get("shared_block_ids")) {
		if !slices.Contains(w.now.Isolated, id) {
			w.now.Isolated = append(w.now.Isolated, id)
			w.requestBlock(id)
		}
	}
	return nil
}

// messagesAgents reports whether an agent can send messages to other agents. The watch does
// not read the memory of those agents, and a message cannot be undone.
func messagesAgents(tools *jsondoc.Value) bool {
	if tools == nil {
		return false
	}
	return slices.ContainsFunc(tools.Elems, func(t *jsondoc.Value) bool {
		return strings.HasPrefix(t.Get("name").Text(), "send_message_to_agent")
	})
}

// Agents implements memproxy.Watch.
func (w *RunDiff) Agents() []string {
	last := cmp.Or(w.now, w.base)
	if last == nil {
		if w.opt.Agent == "" {
			return nil
		}
		return []string{w.opt.Agent}
	}
	var out []string
	for _, a := range last.Agents {
		out = append(out, a.ID)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Background implements memproxy.Watch.
func (w *RunDiff) Background() bool { return w.opt.Background }
