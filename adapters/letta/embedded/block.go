package embedded

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// blocks are the server's blocks, by id.
type blocks struct {
	b   *Backend
	all map[string]*block
}

// labelled reads or changes an agent's block by its label.
func (s *blocks) labelled(w http.ResponseWriter, r *http.Request) {
	id := s.b.BlockID(r.PathValue("id"), r.PathValue("label"))
	r.SetPathValue("block", id)
	s.one(w, r)
}

// one reads or changes a block by its id.
func (s *blocks) one(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Value, Label, Description *string
		Metadata                  json.RawMessage
	}
	if r.Method == http.MethodPatch && !read(w, r, &q) {
		return
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	bl := s.all[r.PathValue("block")]
	if bl == nil {
		refuse(w, http.StatusNotFound, "Block not found")
		return
	}
	for from, to := range map[*string]*string{q.Value: &bl.Value, q.Label: &bl.Label, q.Description: &bl.Description} {
		if from != nil {
			*to = *from
		}
	}
	if len(q.Metadata) > 0 {
		bl.Metadata = q.Metadata
	}
	reply(w, http.StatusOK, bl)
}

// drop deletes a block, and takes it from whoever has it.
func (s *blocks) drop(w http.ResponseWriter, r *http.Request) {
	bl := s.all[r.PathValue("block")]
	if bl == nil {
		refuse(w, http.StatusNotFound, "Block not found")
		return
	}
	delete(s.all, bl.ID)
	for _, a := range s.b.agents {
		a.drop(bl)
	}
	reply(w, http.StatusOK, map[string]string{"message": "deleted"})
}

// create makes a block that belongs to no agent yet.
func (s *blocks) create(w http.ResponseWriter, r *http.Request) {
	var bl block
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&bl); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	bl.ID = s.b.id("block")
	s.all[bl.ID] = &bl
	reply(w, http.StatusOK, &bl)
}

// takeBlocks changes an agent; it gets the blocks of a list in the place of its
// own.
func (b *Backend) takeBlocks(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Blocks                    *[]string `json:"block_ids"`
		Name, Description, System *string
		Tags                      *[]string
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&q); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.agent(w, r)
	if a == nil {
		return
	}
	for from, to := range map[*string]*string{q.Name: &a.Name, q.Description: &a.Description, q.System: &a.System} {
		if from != nil {
			*to = *from
		}
	}
	if q.Tags != nil {
		a.Tags = *q.Tags
	}
	if q.Blocks != nil {
		a.Blocks = []*block{}
		for _, id := range *q.Blocks {
			if bl := b.blocks.all[id]; bl != nil {
				a.Blocks = append(a.Blocks, bl)
			}
		}
	}
	reply(w, http.StatusOK, a)
}

// attach gives an agent a block, or takes it away.
func (s *blocks) attach(w http.ResponseWriter, r *http.Request) {
	a, bl := s.b.agents[r.PathValue("id")], s.all[r.PathValue("block")]
	if a == nil || bl == nil {
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	switch r.PathValue("how") {
	case "attach":
		a.Blocks = append(a.Blocks, bl)
	case "detach":
		a.drop(bl)
	default:
		refuse(w, http.StatusNotFound, "not found")
		return
	}
	reply(w, http.StatusOK, nil)
}

func (a *agent) drop(bl *block) {
	a.Blocks = slices.DeleteFunc(slices.Clone(a.Blocks), func(x *block) bool { return x == bl })
}

// memory is the tool of many commands, as far as blocks come and go by it; the
// lock is held.
func (s *blocks) memory(a *agent, args map[string]string) error {
	label := strings.TrimPrefix(args["path"], "/memories/")
	switch args["command"] {
	case "create":
		bl := &block{ID: s.b.id("block"), Label: label, Value: args["file_text"], Description: args["description"]}
		s.all[bl.ID] = bl
		a.Blocks = append(a.Blocks, bl)
	case "delete":
		i := slices.IndexFunc(a.Blocks, func(x *block) bool { return x.Label == label })
		if i < 0 {
			return errors.New("no such block")
		}
		a.drop(a.Blocks[i])
	case "rename":
		was, to := label, label
		if args["description"] == "" {
			was, to = strings.TrimPrefix(args["old_path"], "/memories/"), strings.TrimPrefix(args["new_path"], "/memories/")
		}
		i := slices.IndexFunc(a.Blocks, func(x *block) bool { return x.Label == was })
		if i < 0 {
			return errors.New("no such block")
		}
		if a.Blocks[i].Label = to; args["description"] != "" {
			a.Blocks[i].Description = args["description"]
		}
	default:
		return errors.New("no such command")
	}
	return nil
}

// eachBlock calls f with an agent's blocks of a label, the first one last.
func (b *Backend) eachBlock(agentID, label string, f func(*block)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.agents[agentID]; a != nil {
		for _, bl := range slices.Backward(a.Blocks) {
			if bl.Label == label {
				f(bl)
			}
		}
	}
}

// Value is a block's value, for tests.
func (b *Backend) Value(agentID, label string) (value string) {
	b.eachBlock(agentID, label, func(bl *block) { value = bl.Value })
	return value
}

// SetValue changes a block behind everybody's back, for tests.
func (b *Backend) SetValue(agentID, label, value string) {
	b.eachBlock(agentID, label, func(bl *block) { bl.Value = value })
}

// BlockID is the id of an agent's block, or "", for tests.
func (b *Backend) BlockID(agentID, label string) (id string) {
	b.eachBlock(agentID, label, func(bl *block) { id = bl.ID })
	return id
}

// Passages are the texts of an agent's archive, the oldest first, for tests.
func (b *Backend) Passages(agentID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	if a := b.agents[agentID]; a != nil {
		for _, p := range a.passages {
			out = append(out, p.Text)
		}
	}
	return out
}

// Labels are an agent's blocks, sorted, for tests.
func (b *Backend) Labels(agentID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	if a := b.agents[agentID]; a != nil {
		for _, bl := range a.Blocks {
			out = append(out, bl.Label)
		}
	}
	slices.Sort(out)
	return out
}

// PassageIDs are the ids of an agent's archive, the oldest first, for tests.
func (b *Backend) PassageIDs(agentID string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []string
	if a := b.agents[agentID]; a != nil {
		for _, p := range a.passages {
			out = append(out, p.ID)
		}
	}
	return out
}
