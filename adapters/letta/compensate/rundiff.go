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
// memproxy.RunDiff.
type RunDiff struct {
	opt       Options
	base, now *snapshot
	clock     func() time.Time
	reopened  bool // restored by Restore, so that the run's answer was not seen
	turn.Lookups
	pages     int
	revisited bool // detached blocks and new list entries were requested
}

// Bounds of one snapshot, a reading of the agents' memory before or after the run.
const (
	// pageSize is the number of passages per request, the limit in turn.NewestPassages.
	pageSize = 10
	// maxPages bounds how many pages of new passages one snapshot reads.
	maxPages  = 100
	maxAgents = 32
	maxBlocks = 4096
)

var errBounds = errors.New("letta: the agents' memory exceeds the limits of a snapshot")

// New returns the RunDiff of a run that is about to start.
func New(opt Options, clock func() time.Time) (memproxy.RunDiff, error) {
	if opt.Agent == "" && (opt.Conversation == "" || opt.Conversation == "default") {
		return nil, memproxy.ErrUngated
	}
	return &RunDiff{opt: opt, clock: clock}, nil
}

func (o *Options) get(query string, parts ...string) memproxy.Request {
	return turn.Get(o.Prefix, query, parts...)
}

// StartSnapshot implements memproxy.RunDiff.
func (d *RunDiff) StartSnapshot() {
	d.now, d.pages, d.Lookups, d.revisited = &snapshot{Blocks: map[string]*block{}}, 0, turn.Lookups{}, false
	if d.base == nil {
		d.now.Marks = map[string][]string{}
		for _, list := range [...]string{blockList, archiveList} {
			// If the server lacks this list, every object counts as new.
			d.request(d.opt.get(marksQuery, list, ""), jsondoc.Array, "a list", func() {}, func(doc *jsondoc.Doc) error {
				d.now.Marks[list] = listIDs(doc)
				return nil
			})
		}
	}
	if c := d.opt.Conversation; c != "" {
		gone := func() { // the server reports it when the run starts
			if d.base != nil {
				d.now.Agents = append(d.now.Agents, &agent{ID: d.opt.Agent, Gone: true})
			}
		}
		d.request(d.opt.get("", "conversations", c), jsondoc.Object, "one object", gone, d.conversation)
		return
	}
	d.requestAgent(d.opt.Agent)
}

// request is Lookups.Request for an answer of the given kind.
func (d *RunDiff) request(q memproxy.Request, kind jsondoc.Kind, what string, gone func(), take func(*jsondoc.Doc) error) {
	d.Request(q, what, gone, func(doc *jsondoc.Doc) error {
		if doc.Root.Kind != kind {
			return fmt.Errorf("letta: the request for %s returned another type", what)
		}
		return take(doc)
	})
}

// ReadSideReply implements memproxy.RunDiff.
func (d *RunDiff) ReadSideReply(r memproxy.Reply) error {
	if err := d.Lookups.ReadSideReply(r); err != nil {
		return err
	}
	if _, more := d.NextSideRequest(); !more && d.base != nil && !d.revisited {
		// A detached block may still be attached to other agents, with a changed text.
		d.revisited = true
		for _, id := range slices.Sorted(maps.Keys(d.base.Blocks)) {
			if d.now.Blocks[id] == nil {
				d.requestBlock(id)
			}
		}
		d.compareNew()
	}
	if _, more := d.NextSideRequest(); more {
		return nil
	}
	slices.SortFunc(d.now.Agents, func(a, b *agent) int { return strings.Compare(a.ID, b.ID) })
	d.base = cmp.Or(d.base, d.now)
	return nil
}

func (d *RunDiff) conversation(doc *jsondoc.Doc) error {
	if d.opt.Agent = doc.Root.Get("agent_id").Text(); d.opt.Agent == "" {
		return memproxy.ErrUngated
	}
	d.requestAgent(d.opt.Agent)
	for _, id := range ids(doc.Root.Get("isolated_block_ids")) {
		d.requestBlock(id)
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

func (d *RunDiff) requestBlock(id string) {
	d.request(d.opt.get("", "blocks", id), jsondoc.Object, "one object", func() {}, func(doc *jsondoc.Doc) error {
		_, err := d.block(doc, doc.Root)
		return err
	})
}

func (d *RunDiff) block(doc *jsondoc.Doc, v *jsondoc.Value) (string, error) {
	var b block
	if err := json.Unmarshal(doc.Raw(v), &b); err != nil {
		return "", fmt.Errorf("letta: cannot parse a block: %w", err)
	}
	if b.ID == "" {
		return "", errors.New("letta: a block has no id")
	}
	if meta := v.Get("metadata"); meta != nil && meta.Kind == jsondoc.Object {
		b.stamp, _ = stamps.Parse(meta, doc)
	}
	d.now.Blocks[b.ID] = &b
	if len(d.now.Blocks) > maxBlocks {
		return "", errBounds
	}
	return b.ID, nil
}

func (d *RunDiff) requestAgent(id string) {
	q := d.opt.get("include=agent.blocks&include=agent.managed_group&include=agent.tools", "agents", id)
	a := &agent{ID: id}
	d.now.Agents = append(d.now.Agents, a)
	gone := func() { a.Gone = true } // it has no changes
	d.request(q, jsondoc.Object, "one object", gone, func(doc *jsondoc.Doc) error { return d.agent(a, doc) })
}

func (d *RunDiff) agent(a *agent, doc *jsondoc.Doc) error {
	if doc.Root.Get("id").Text() != a.ID {
		return errors.New("letta: the server returned a different agent than requested")
	}
	// An agent may be able to send messages to other agents. The RunDiff does not read the memory
	// of those agents, and a message cannot be undone.
	if d.base == nil && slices.ContainsFunc(doc.Root.Get("tools").List(), func(t *jsondoc.Value) bool {
		return strings.HasPrefix(t.Get("name").Text(), "send_message_to_agent")
	}) {
		return memproxy.ErrUngated
	}
	list := turn.Blocks(doc.Root)
	if list == nil || list.Kind != jsondoc.Array {
		return errors.New("letta: the agent's blocks are missing in the response")
	}
	a.Blocks = []string{}
	for _, e := range list.Elems {
		b, err := d.block(doc, e)
		if err != nil {
			return err
		}
		a.Blocks = append(a.Blocks, b)
	}
	if a.ID == d.opt.Agent {
		for _, g := range turn.Groups(doc.Root) {
			if err := d.group(g); err != nil {
				return err
			}
		}
	}
	archives := d.opt.get(newestQuery+"&agent_id="+url.QueryEscape(a.ID), archiveList, "")
	d.request(archives, jsondoc.Array, "a list", func() {}, func(doc *jsondoc.Doc) error {
		a.Archives = listIDs(doc)
		return nil
	})
	d.requestPassages(a, "")
	if d.base == nil {
		d.Add(d.opt.activeRuns(a.ID), func(r memproxy.Reply) error {
			runs, err := d.active(r)
			d.now.Running = append(d.now.Running, runs...)
			return err
		})
	}
	return nil
}

// group requests the agents of a group, which run after the agent, and the group's shared
// blocks.
func (d *RunDiff) group(g *jsondoc.Value) error {
	for _, id := range ids(g.Get("agent_ids")) {
		if d.now.agent(id) != nil {
			continue
		}
		if len(d.now.Agents) > maxAgents {
			return errBounds
		}
		d.requestAgent(id)
	}
	for _, id := range ids(g.Get("shared_block_ids")) {
		d.requestBlock(id)
	}
	return nil
}

// Agents implements memproxy.RunDiff.
func (d *RunDiff) Agents() []string {
	last := cmp.Or(d.now, d.base)
	if last == nil {
		if d.opt.Agent == "" {
			return nil
		}
		return []string{d.opt.Agent}
	}
	var out []string
	for _, a := range last.Agents {
		out = append(out, a.ID)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Background implements memproxy.RunDiff.
func (d *RunDiff) Background() bool { return d.opt.Background }
