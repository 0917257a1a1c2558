package ledger

import (
	"slices"

	"github.com/memproxy/memproxy"
)

// setState changes a state, and reports whether it did. What a person decided
// of a text stays until another text is there: what rules would do to it is
// noted, and told.
func (t *transaction) setState(c *memproxy.StateChange) (bool, error) {
	st, prior, err := t.status(c.MemoryKey)
	if err != nil {
		return false, err
	}
	if len(c.From) > 0 && !slices.Contains(c.From, st.State) || !c.Seen.IsZero() && !c.Seen.Equal(st.Changed) {
		return false, nil
	}
	if c.Tenant != "" {
		st.Tenant = c.Tenant
	}
	if !c.Expires.IsZero() {
		st.Expires = c.Expires
	}
	if c.Person || st.Reviewed != "" {
		text, err := t.textOf(c)
		if err != nil {
			return false, err
		}
		if !c.Person && (text == memproxy.AnyText || st.Reviewed == memproxy.AnyText && c.Text == "" || text == st.Reviewed) {
			return false, t.keepDecided(c, &st, prior)
		}
		if st.Reviewed = ""; c.Person {
			st.Reviewed = text
		}
	}
	if c.Attestation != "" {
		st.Attestation = c.Attestation
	}
	was := st.State
	st.State, st.Reason, st.Decision, st.Rules, st.Findings, st.Text = c.State, c.Reason, c.Decision, c.Rules, c.Findings, c.Text
	st.CurrentRules = ""
	st.Changed = moment(max(1, micros(t.l.opt.Clock())))
	if err := t.putStatus(st, ""); err != nil {
		return false, err
	}
	if was == st.State || st.Kind == memproxy.TargetDecision {
		return true, nil
	}
	if err := t.accepted(c.MemoryKey, was, st.State, c.Person); err != nil {
		return false, err
	}
	if err := t.validated(c.MemoryKey, st.State); err != nil {
		return false, err
	}
	switch st.State {
	case memproxy.StateFlagged:
		err = t.notify(memproxy.NoticeFlagged, st.Tenant, st.ID, st)
	case memproxy.StateQuarantined:
		err = t.notify(memproxy.NoticeQuarantined, st.Tenant, st.ID, st)
	}
	return true, err
}

// keepDecided leaves a state as a person decided it, and notes what the rules
// would do.
func (t *transaction) keepDecided(c *memproxy.StateChange, st *memproxy.Status, prior memproxy.MemoryState) error {
	was := st.CurrentRules
	if c.Rules != "" {
		st.Rules, st.CurrentRules = c.Rules, ""
	}
	if c.State == memproxy.StateFlagged || c.State == memproxy.StateQuarantined {
		st.CurrentRules = c.State
	}
	if st.State == memproxy.StateExpired && !st.Expires.IsZero() && st.Expires.After(t.l.opt.Clock()) { // written again, with the same text
		st.State, prior = prior, ""
	}
	if err := t.putStatus(*st, prior); err != nil || st.CurrentRules == "" || st.CurrentRules == was {
		return err
	}
	return t.notify(memproxy.NoticeMemoryRuled, st.Tenant, st.ID, st)
}

// textOf is the hash of the text that a change is about.
func (t *transaction) textOf(c *memproxy.StateChange) (string, error) {
	if c.Text != "" {
		return c.Text, nil
	}
	last, known, err := t.lastVersion(c.MemoryKey)
	if err != nil || known && last.SHA256 != "" {
		return last.SHA256, err
	}
	var sha string
	_, err = t.one(`SELECT sha256 FROM ownership WHERE backend = ? AND kind = ? AND id = ?`, []any{c.Backend, string(c.Kind), c.ID}, &sha)
	if sha == "" {
		sha = memproxy.AnyText
	}
	return sha, err
}
