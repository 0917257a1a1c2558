package embedded

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

type blocks struct {
	b   *Backend
	all map[string]*block
}

// named returns the block that a path names by its id, or by its label in an agent.
func (s *blocks) named(r *http.Request) *block {
	label := r.PathValue("label")
	if label == "" {
		return s.all[r.PathValue("block")]
	}
	if a := s.b.agents[r.PathValue("id")]; a != nil {
		if i := a.at(label); i >= 0 {
			return a.Blocks[i]
		}
	}
	return nil
}

func (s *blocks) one(r *http.Request) any {
	if bl := s.named(r); bl != nil {
		return bl
	}
	return notFound("Block")
}

// blockChange lists the members of a block to change.
type blockChange struct {
	Value, Label, Description *string
	Metadata                  json.RawMessage
}

func (s *blocks) change(r *http.Request, q *blockChange) any {
	bl := s.named(r)
	if bl == nil {
		return notFound("Block")
	}
	set(&bl.Value, q.Value)
	set(&bl.Label, q.Label)
	set(&bl.Description, q.Description)
	if len(q.Metadata) > 0 {
		bl.Metadata = q.Metadata
	}
	return bl
}

// set changes a member that was sent.
func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// drop deletes a block and detaches it from all agents.
func (s *blocks) drop(r *http.Request) any {
	bl := s.named(r)
	if bl == nil {
		return notFound("Block")
	}
	delete(s.all, bl.ID)
	for _, a := range s.b.agents {
		a.drop(bl)
	}
	return deleted
}

// create adds a block that is attached to no agent.
func (s *blocks) create(_ *http.Request, bl *block) any {
	bl.ID = s.b.id("block")
	s.all[bl.ID] = bl
	return bl
}

// agentChange lists the members of an agent to change. A list of blocks replaces the
// agent's.
type agentChange struct {
	Blocks                    *[]string `json:"block_ids"`
	Name, Description, System *string
	Tags                      *[]string
}

func (b *Backend) change(r *http.Request, q *agentChange) any {
	return b.ofAgent(func(a *agent, _ *http.Request) any {
		set(&a.Name, q.Name)
		set(&a.Description, q.Description)
		set(&a.System, q.System)
		set(&a.Tags, q.Tags)
		if q.Blocks != nil {
			a.Blocks = []*block{}
			for _, id := range *q.Blocks {
				if bl := b.blocks.all[id]; bl != nil {
					a.Blocks = append(a.Blocks, bl)
				}
			}
		}
		return a
	})(r)
}

// attach attaches a block to an agent, or detaches it.
func (s *blocks) attach(r *http.Request) any {
	a, bl := s.b.agents[r.PathValue("id")], s.all[r.PathValue("block")]
	switch how := r.PathValue("how"); {
	case a == nil || bl == nil || how != "attach" && how != "detach":
		return refusal{http.StatusNotFound, "not found"}
	case how == "attach":
		a.Blocks = append(a.Blocks, bl)
	default:
		a.drop(bl)
	}
	return nil
}

// at returns the index of an agent's first block with a label, or -1.
func (a *agent) at(label string) int {
	return slices.IndexFunc(a.Blocks, func(x *block) bool { return x.Label == label })
}

func (a *agent) drop(bl *block) {
	a.Blocks = slices.DeleteFunc(slices.Clone(a.Blocks), func(x *block) bool { return x == bl })
}

// memory implements the commands of the tool memory that attach or detach blocks; the lock
// is held.
func (s *blocks) memory(a *agent, args map[string]string) error {
	label := func(path string) string { return strings.TrimPrefix(args[path], "/memories/") }
	path := "path"
	if args["command"] == "rename" && args["description"] == "" {
		path = "old_path"
	}
	was := a.at(label(path))
	switch command := args["command"]; {
	case command == "create":
		bl := &block{ID: s.b.id("block"), Label: label("path"), Value: args["file_text"], Description: args["description"]}
		s.all[bl.ID] = bl
		a.Blocks = append(a.Blocks, bl)
	case was < 0:
		return errors.New("no such block")
	case command == "delete":
		a.drop(a.Blocks[was])
	case command == "rename" && args["description"] != "":
		a.Blocks[was].Description = args["description"]
	case command == "rename":
		a.Blocks[was].Label = label("new_path")
	default:
		return errors.New("no such command")
	}
	return nil
}

// withBlock calls f with an agent's first block of a label, if there is one.
func (b *Backend) withBlock(agentID, label string, f func(*block)) {
	b.withAgent(agentID, func(a *agent) {
		if i := a.at(label); i >= 0 {
			f(a.Blocks[i])
		}
	})
}

// withAgent calls f with an agent, if there is one.
func (b *Backend) withAgent(agentID string, f func(*agent)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.agents[agentID]; a != nil {
		f(a)
	}
}

// Value returns a block's value, for tests.
func (b *Backend) Value(agentID, label string) (value string) {
	b.withBlock(agentID, label, func(bl *block) { value = bl.Value })
	return value
}

// SetValue changes a block out-of-band, for tests.
func (b *Backend) SetValue(agentID, label, value string) {
	b.withBlock(agentID, label, func(bl *block) { bl.Value = value })
}

// BlockID returns the id of an agent's block, or "", for tests.
func (b *Backend) BlockID(agentID, label string) (id string) {
	b.withBlock(agentID, label, func(bl *block) { id = bl.ID })
	return id
}

// Passages returns the texts of an agent's archive, oldest first, for tests.
func (b *Backend) Passages(agentID string) []string {
	out := []string{}
	b.withAgent(agentID, func(a *agent) {
		for _, p := range a.passages {
			out = append(out, p.Text)
		}
	})
	return out
}

// PassageIDs returns the ids of an agent's archive, oldest first, for tests.
func (b *Backend) PassageIDs(agentID string) (out []string) {
	b.withAgent(agentID, func(a *agent) {
		for _, p := range a.passages {
			out = append(out, p.ID)
		}
	})
	return out
}

// Labels returns the labels of an agent's blocks, sorted, for tests.
func (b *Backend) Labels(agentID string) (out []string) {
	b.withAgent(agentID, func(a *agent) {
		for _, bl := range a.Blocks {
			out = append(out, bl.Label)
		}
	})
	slices.Sort(out)
	return out
}
