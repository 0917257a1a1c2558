package review

import (
	"errors"
	"net/http"

	"github.com/memproxy/memproxy"
)

// RollbackRequest restores a version of a memory, named by its number or by the
// hash of its text.
type RollbackRequest struct {
	Version int64  `json:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// Newest is the hash of the text that the reviewer is replacing; if the backend
	// has another one, that is a conflict. Empty: any text is replaced.
	Newest string `json:"newest,omitempty"`
	Reason string `json:"reason"`
}

// RollbackAnswer is the result of a rollback.
type RollbackAnswer struct {
	Result  memproxy.HoldResult `json:"result"`
	Version *memproxy.Version   `json:"version,omitempty"` // the new one
	outcome memproxy.Outcome
}

func rollbackMemory(c *call, in RollbackRequest) (RollbackAnswer, error) {
	if c.api.opt.Roller == nil {
		return RollbackAnswer{}, problem{http.StatusNotImplemented, "rollback", "this installation cannot roll back"}
	}
	m, err := c.memory()
	if err != nil {
		return RollbackAnswer{}, err
	}
	to, err := c.target(m.MemoryKey, in)
	if err != nil {
		return RollbackAnswer{}, err
	}
	to.Tenant = m.tenant
	decision := c.api.opt.NewID()
	if err := c.record(m.tenant, m.Backend, decision, m.ID); err != nil {
		return RollbackAnswer{}, err
	}
	if to.Op != memproxy.OpRollback { // the text of a rollback is not the reviewer's own
		if err := c.who.own(to.Actor); err != nil {
			return RollbackAnswer{}, err
		}
	}
	c.api.opt.Roller.opt.Steps.At(memproxy.StepRollbackRecorded)
	answer, err := c.api.opt.Roller.Roll(c.ctx(), Rollback{
		Memory: m.MemoryKey, To: to, Decision: decision, Reviewer: c.who.ID, Reason: in.Reason, Newest: in.Newest,
	})
	if errors.Is(err, memproxy.ErrState) {
		err = problem{http.StatusConflict, "state", "another rollback of the memory is in progress"}
	}
	if err != nil {
		return RollbackAnswer{}, err
	}
	return answer, nil
}

// target returns the version that a rollback names, with its text.
func (c *call) target(k memproxy.MemoryKey, in RollbackRequest) (memproxy.Version, error) {
	if (in.Version > 0) == (in.SHA256 != "") {
		return memproxy.Version{}, badRequest("name either a version or the hash of one")
	}
	if in.Version == 0 {
		all, err := c.api.opt.Memories.History(c.ctx(), k, 0, maxHistory)
		if err != nil {
			return memproxy.Version{}, err
		}
		for _, v := range all { // the newest version with this text that still has it
			if v.SHA256 == in.SHA256 && !v.Compacted && v.Op != memproxy.OpDelete && v.Op != memproxy.OpPurge {
				in.Version = v.Number
				break
			}
		}
		if in.Version == 0 {
			return memproxy.Version{}, notFound()
		}
	}
	v, err := c.api.opt.Memories.Version(c.ctx(), k, in.Version)
	if err == nil && (v.Op == memproxy.OpDelete || v.Op == memproxy.OpPurge) {
		return v, badRequest("that version is a deletion; delete the memory instead")
	}
	return v, err
}
