package embedded

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// labelled reads or changes an agent's block by its label.
func (b *Backend) labelled(w http.ResponseWriter, r *http.Request) {
	id := b.BlockID(r.PathValue("id"), r.PathValue("label"))
	r.SetPathValue("block", id)
	b.block(w, r)
}

// block reads or changes a block by its id.
func (b *Backend) block(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Value, Label, Description *string
		Metadata                  json.RawMessage
	}
	if r.Method == http.MethodPatch && !read(w, r, &q) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	bl := b.blocks[r.PathValue("block")]
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

// dropBlock deletes a block, and takes it from whoever has it.
func (b *Backend) dropBlock(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	bl := b.blocks[r.PathValue("block")]
	if bl == nil {
		refuse(w, http.StatusNotFound, "Block not found")
		return
	}
	delete(b.blocks, bl.ID)
	for _, a := range b.agents {
		a.drop(bl)
	}
	reply(w, http.StatusOK, map[string]string{"message": "deleted"})
}

// newBlock makes a block that belongs to no agent yet.
func (b *Backend) newBlock(w http.ResponseWriter, r *http.Request) {
	var bl block
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&bl); err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	bl.ID = b.id("block")
	b.blocks[bl.ID] = &bl
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
	a := b.agents[r.PathValue("id")]
	if a == nil {
		refuse(w, http.StatusNotFound, "Agent not found")
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
			if bl := b.blocks[id]; bl != nil {
				a.Blocks = append(a.Blocks, bl)
			}
		}
	}
	reply(w, http.StatusOK, a)
}

// attach gives an agent a block, or takes it away.
func (b *Backend) attach(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, bl := b.agents[r.PathValue("id")], b.blocks[r.PathValue("block")]
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
func (b *Backend) memory(a *agent, args map[string]string) error {
	label := strings.TrimPrefix(args["path"], "/memories/")
	switch args["command"] {
	case "create":
		bl := &block{ID: b.id("block"), Label: label, Value: args["file_text"], Description: args["description"]}
		b.blocks[bl.ID] = bl
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

// SetValue changes a block behind everybody's back, for tests.
func (b *Backend) SetValue(agentID, label, value string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.agents[agentID]; a != nil {
		for _, bl := range a.Blocks {
			if bl.Label == label {
				bl.Value = value
			}
		}
	}
}

// BlockID is the id of an agent's block, or "", for tests.
func (b *Backend) BlockID(agentID, label string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a := b.agents[agentID]; a != nil {
		for _, bl := range a.Blocks {
			if bl.Label == label {
				return bl.ID
			}
		}
	}
	return ""
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
