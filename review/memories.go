package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/memproxy/memproxy"
)

// HistoryAnswer is a page of a memory's versions, newest first.
type HistoryAnswer struct {
	Versions []memproxy.Version `json:"versions"`
	// Before is the cursor of the next page; 0 on the last page.
	Before int64 `json:"before,omitempty"`
}

func (h HistoryAnswer) next() string {
	if h.Before == 0 {
		return ""
	}
	return strconv.FormatInt(h.Before, 10)
}

// VersionView is a version. Content is the unsanitised text; it is set only on an
// explicit, confirmed request.
type VersionView struct {
	memproxy.Version
	Content *ContentView `json:"content,omitempty"`
	Gone    bool         `json:"gone,omitempty"`
}

// TraceAnswer is everything that is known about a memory, except its text.
type TraceAnswer struct {
	Memory      memproxy.MemoryKey    `json:"memory"`
	Author      string                `json:"author,omitempty"`
	Trust       memproxy.Trust        `json:"trust,omitempty"`
	Confidence  memproxy.PerMille     `json:"confidence"`
	Source      memproxy.Source       `json:"source,omitempty"`
	Decision    string                `json:"decision,omitempty"`
	Deleted     bool                  `json:"deleted,omitempty"`
	Status      *memproxy.Status      `json:"status,omitempty"`
	Versions    []memproxy.Version    `json:"versions"`
	Corrections []memproxy.Correction `json:"corrections,omitempty"`
	Dissent     []memproxy.Dissent    `json:"dissent,omitempty"`
	Chain       memproxy.ChainReport  `json:"chain"`
}

// PinRequest pins a version, the newest if none is named: its text is kept, and its memory
// does not expire. Pinned false ends that, for all versions if none is named.
type PinRequest struct {
	Version int64  `json:"version,omitempty"`
	Pinned  bool   `json:"pinned"`
	Reason  string `json:"reason"`
}

// maxHistory is the maximum number of versions in a trace, and of those searched for a
// hash.
const maxHistory = 1000

// subject is the memory of a request, with its record and its tenant.
type subject struct {
	memproxy.MemoryKey
	tenant string
	record memproxy.Record
}

// memory returns the memory in the path, if it belongs to one of the reviewer's tenants.
func (c *call) memory() (m subject, err error) { return subjectOf(c, false) }

// memoryOrStatus returns the memory like memory, or one of which only a status is known, because a
// sweep found it out-of-band. Reviewers can read that status and not act on the memory.
func memoryOrStatus(c *call) (m subject, err error) { return subjectOf(c, true) }

func subjectOf(c *call, statusOnly bool) (m subject, err error) {
	k := memproxy.MemoryKey{Backend: c.req.PathValue("backend"), Kind: memproxy.TargetKind(c.req.URL.Query().Get("kind")), ID: c.req.PathValue("id")}
	switch k.Kind {
	case memproxy.TargetMemory, memproxy.TargetObject:
	case "":
		if k.Kind, err = c.kindOf(k); err != nil {
			return m, err
		}
	default:
		return m, badRequest(fmt.Sprintf("kind is %s, or %s for what has no text", memproxy.TargetMemory, memproxy.TargetObject))
	}
	// The tenant is that of the owner, else of the newest version, else of the status.
	records, err := c.api.opt.Memories.Lookup(c.ctx(), k)
	if err != nil {
		return m, err
	}
	record := records.Of(k)
	m = subject{k, record.Owner.Scope.Tenant, record}
	known := m.record.HasOwner()
	if !known {
		last, err := c.api.opt.Memories.History(c.ctx(), k, 0, 1)
		if err != nil {
			return m, err
		}
		switch {
		case len(last) > 0:
			known, m.tenant = true, last[0].Tenant
		case statusOnly && m.record.HasStatus() && m.record.Status.Unverified != memproxy.IntegrityLedger: // an edited row proves no tenant
			known, m.tenant = true, m.record.Status.Tenant
		}
	}
	if !known || !c.allowed(m.tenant) { // a backend that is no longer configured may have records
		return m, cmp.Or(checkBackend(c, k.Backend), error(notFound()))
	}
	return m, nil
}

// kindOf determines the kind of an id if the request does not name it: a memory, or an
// object that has members and no text. Only these two have a history.
func (c *call) kindOf(k memproxy.MemoryKey) (memproxy.TargetKind, error) {
	for _, kind := range [...]memproxy.TargetKind{memproxy.TargetMemory, memproxy.TargetObject} {
		k.Kind = kind
		last, err := c.api.opt.Memories.History(c.ctx(), k, 0, 1)
		if err != nil || len(last) > 0 {
			return kind, err
		}
	}
	return memproxy.TargetMemory, nil
}

func memoryHistory(c *call, m subject) (HistoryAnswer, error) {
	q := c.req.URL.Query()
	before, err := strconv.Atoi(cmp.Or(q.Get("before"), "0"))
	if err != nil || before < 0 {
		return HistoryAnswer{}, badRequest("before must be a whole number")
	}
	limit := cmp.Or(pageSize(q), 50)
	found, err := c.api.opt.Memories.History(c.ctx(), m.MemoryKey, int64(before), limit+1)
	answer := HistoryAnswer{Versions: found}
	if len(found) > limit {
		answer.Versions, answer.Before = found[:limit], found[limit-1].Number
	}
	return answer, err
}

func memoryVersion(c *call, m subject) (VersionView, error) {
	number, err := strconv.ParseInt(c.req.PathValue("version"), 10, 64)
	if err != nil {
		return VersionView{}, notFound()
	}
	v, err := c.api.opt.Memories.Version(c.ctx(), m.MemoryKey, number)
	if errors.Is(err, memproxy.ErrGone) {
		return VersionView{Version: v, Gone: true}, nil
	}
	if err != nil {
		return VersionView{}, err
	}
	view := VersionView{Version: v}
	c.versions = []memproxy.VersionChange{v.Change()}
	full, err := c.wantsFull(fmt.Sprintf("version/%s/%s/%s/%d", m.Backend, m.Kind, m.ID, number), func() error {
		return c.record(m.tenant, m.Backend, v.Decision, m.ID)
	})
	if full && err == nil {
		view.Content = &ContentView{Warning: warning, Body: v.Text, Metadata: string(v.Metadata)}
	}
	return view, err
}

func memoryTrace(c *call, m subject) (TraceAnswer, error) {
	s, ctx, k, rec := c.api.opt.Memories, c.ctx(), m.MemoryKey, &m.record
	t := TraceAnswer{Memory: k, Confidence: -1}
	if row := &rec.Owner; rec.HasOwner() {
		t.Author, t.Trust, t.Confidence, t.Source, t.Decision, t.Deleted = row.Actor, row.Trust, row.Confidence, row.Source, row.Decision, row.Deleted
	}
	if rec.HasStatus() {
		t.Status = &rec.Status
	}
	var errs [4]error
	t.Versions, errs[0] = s.History(ctx, k, 0, maxHistory)
	t.Corrections, errs[1] = s.Corrections(ctx, k)
	t.Dissent, errs[2] = s.Dissents(ctx, k, false)
	t.Chain, errs[3] = s.VerifyMemory(ctx, k)
	return t, errors.Join(errs[:]...)
}

func pinMemory(c *call, in PinRequest) (PinRequest, error) {
	if in.Version < 0 {
		return PinRequest{}, badRequest("versions are numbered from 1")
	}
	k, err := c.memoryForAction()
	if err != nil {
		return PinRequest{}, err
	}
	return in, c.api.opt.Memories.Pin(c.ctx(), k, in.Version, in.Pinned, c.review(in.Reason))
}

func promoteMemory(c *call, in Reason) (out memproxy.VoteResult, err error) {
	k, err := c.memoryForAction()
	if err != nil {
		return out, err
	}
	if err := refuseChanged(c, k); err != nil {
		return out, err
	}
	return c.api.opt.Memories.Promote(c.ctx(), k, c.review(in.Reason))
}

// refuseChanged refuses a memory whose text in the backend is not the recorded one, which the
// reviewer read and a promotion is about. A backend that cannot be asked, such as for a
// passage of Letta or without a credential, does not prevent the promotion.
func refuseChanged(c *call, k memproxy.MemoryKey) error {
	last, err := c.api.opt.Memories.History(c.ctx(), k, 0, 1)
	backend, away := c.api.opt.Backend(k.Backend)
	if err != nil || len(last) == 0 || k.Kind != memproxy.TargetMemory || away != nil {
		return err
	}
	asking, cancel := context.WithTimeout(c.ctx(), c.api.opt.Timeout/2) // the promotion needs time as well
	defer cancel()
	now, err := backend.CurrentMemory(asking, k)
	switch {
	case err != nil:
		return nil // the sweep compares the texts later
	case now.Missing:
		c.api.Runner.recordDeletion(c.ctx(), k)
		return errDeleted
	case last[0].SHA256 != memproxy.TextSHA256(now.Text):
		return errOutside
	}
	return nil
}

// memoryForAction returns the memory, and records the action before it is performed.
// Authors may not act on their own memories.
func (c *call) memoryForAction() (memproxy.MemoryKey, error) {
	m, err := c.memory()
	if err != nil {
		return m.MemoryKey, err
	}
	return m.MemoryKey, cmp.Or(c.record(m.tenant, m.Backend, "", m.ID), c.who.refuseOwn(m.record.Owner.Actor))
}
