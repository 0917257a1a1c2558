package memories

import (
	"context"
	"errors"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/proxy"
	"github.com/memproxy/memproxy/screen"
)

const (
	// validateBatch is how many memories of one tenant in one state a pass judges (DOL-3),
	// and validateTotal the number for all tenants together.
	validateBatch = 10
	validateTotal = 1000
	validateScan  = 20_000 // how many due memories a pass reads in search of tenants not served yet
	validatePage  = 1000
	// lastKind sorts after every kind of memory.
	lastKind memproxy.TargetKind = "~"
)

// validate judges memories that the rules in force have not judged in their present state:
// new ones, those that were changed out-of-band, and, after a change of the rules, all.
func (k *Maintainer) validate(ctx context.Context) error {
	rules := k.Rules()
	if rules.Screener == nil {
		return nil
	}
	away := map[string]bool{} // unavailable backends, whose memories remain due
	var errs []error
	for _, state := range []memproxy.MemoryState{memproxy.StateUntrusted, memproxy.StateValidated, memproxy.StateFlagged} {
		errs = append(errs, k.validateState(ctx, rules, state, away))
	}
	return errors.Join(errs...)
}

// validateState judges a batch of each tenant's memories in a state, so that a tenant with
// many memories does not delay the others. The next pass continues where this one stops.
func (k *Maintainer) validateState(ctx context.Context, rules *gate.Rules, state memproxy.MemoryState, away map[string]bool) error {
	after, taken := k.stopped[state], map[string]int{}
	delete(k.stopped, state)
	for seen, done := 0, 0; ; {
		list, err := k.Ledger.ListStatuses(ctx, memproxy.StatusFilter{State: state, NotRules: rules.Version, After: after, Limit: validatePage})
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			st := &list[i]
			after = st.MemoryKey
			seen++
			if taken[st.Tenant] == validateBatch {
				continue
			}
			if !away[st.Backend] {
				err = k.validateOne(ctx, rules, st)
				away[st.Backend] = errors.Is(err, proxy.ErrUnanswered)
			}
			if away[st.Backend] {
				if err != nil {
					k.Log.Warn("memories are not validated while their backend is unavailable", "backend", st.Backend, "error", err)
				}
				after = memproxy.MemoryKey{Backend: st.Backend, Kind: lastKind} // skips the rest of this backend
				break                                                           // the rest of the page may belong to it
			}
			if err != nil {
				k.stopped[state] = after // the next pass judges those after it
				return err
			}
			taken[st.Tenant]++
			done++
		}
		if seen >= validateScan || done >= validateTotal {
			k.stopped[state] = after
			return nil
		}
	}
}

func (k *Maintainer) validateOne(ctx context.Context, rules *gate.Rules, st *memproxy.Status) error {
	change := memproxy.StateChange{
		MemoryKey: st.MemoryKey, Tenant: st.Tenant, State: st.State, From: []memproxy.MemoryState{st.State},
		Seen: st.Changed, Rules: rules.Version, Decision: st.Decision, Reason: st.Reason, Findings: st.Findings, Text: st.Text,
	}
	text, err := k.currentText(ctx, st)
	if err != nil {
		return err
	}
	if text != "" {
		records, err := k.Ledger.Lookup(ctx, st.MemoryKey)
		if err != nil {
			return err
		}
		author := records.Of(st.MemoryKey).Owner // the author's trust and source count as at the time of writing
		op := &memproxy.Operation{Kind: memproxy.Recall, Backend: st.Backend, SourceClaim: author.Trust.Screened(author.Source), Items: []memproxy.Item{{Kind: memproxy.ItemContent, Text: text}}}
		findings, err := rules.Screener.Screen(ctx, memproxy.Screening{Principal: memproxy.Principal{Tenant: st.Tenant, Trust: author.Trust}, Operation: op, FromBackend: true})
		if err != nil {
			return err
		}
		change.State, change.Reason, change.Findings = stateOf(findings)
		if change.State == memproxy.StateValidated && st.Unverified != "" && author.ID == "" && st.Reviewed == "" {
			// Only a sweep's mark gave it a status: it is as untrusted as before it was found.
			change.State, change.Reason = memproxy.StateUntrusted, ""
		}
		change.Text = memproxy.TextSHA256(text)
	}
	_, err = k.Ledger.SetState(ctx, change)
	return err
}

// stateOf returns the state that findings imply, with the reason and the findings to store.
func stateOf(findings []memproxy.Finding) (memproxy.MemoryState, string, []memproxy.Finding) {
	switch risk := memproxy.Risk(findings); {
	case risk >= screen.DenyThreshold:
		return memproxy.StateQuarantined, "it looks like an attack", nil
	case risk >= screen.HoldThreshold:
		return memproxy.StateFlagged, "parts of it look like instructions", memproxy.Dangerous(findings)
	}
	return memproxy.StateValidated, "nothing was found in it", nil
}

// currentText returns the present text of a memory: the one in its backend, which may have
// been changed out-of-band, or, if the backend cannot return a single memory (Letta's
// passages, a backend that refuses), the one that was last written through memproxy. ""
// means unknown. currentText reports a text that was not written through memproxy.
func (k *Maintainer) currentText(ctx context.Context, st *memproxy.Status) (string, error) {
	p := k.Backend(st.Backend)
	for settled := false; ; settled = true {
		recorded, err := k.recordedText(ctx, st.MemoryKey)
		if err != nil || p == nil || st.Kind != memproxy.TargetMemory {
			return recorded, err
		}
		there, known, err := k.backendText(ctx, p, st.MemoryKey)
		switch {
		case err != nil, known && there == recorded, known && recorded == "" && !settled:
			return there, err
		case !known:
			return recorded, nil
		case settled:
			return there, k.Integrity.Differs(ctx, memproxy.Ownership{Backend: st.Backend, Kind: st.Kind, ID: st.ID, Scope: memproxy.Scope{Tenant: st.Tenant}, SHA256: memproxy.TextSHA256(recorded)})
		}
		// The write may not have reached the ledger yet.
		if err := k.Integrity.Settle(ctx); err != nil {
			return "", err
		}
	}
}

// backendText returns the text of a memory in its backend. known is false if the
// backend cannot return it.
func (k *Maintainer) backendText(ctx context.Context, p *proxy.BackendClient, key memproxy.MemoryKey) (text string, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.Integrity.RecordTime) // as where a finding is looked up
	defer cancel()
	m, err := p.CurrentMemory(ctx, key)
	switch {
	case errors.Is(err, proxy.ErrUnanswered):
		return "", false, err
	case err != nil || m.Missing || m.Text == "" || m.TextAt == "":
		return "", false, nil
	}
	return m.Text, true, nil
}

// recordedText returns the text that was last written through memproxy, or "" if it is unknown.
func (k *Maintainer) recordedText(ctx context.Context, key memproxy.MemoryKey) (string, error) {
	list, err := k.Ledger.History(ctx, key, 0, 1)
	if err != nil || len(list) == 0 || list[0].Op == memproxy.OpDelete {
		return "", err
	}
	v, err := k.Ledger.Version(ctx, key, list[0].Number)
	if errors.Is(err, ledger.ErrShredded) || errors.Is(err, ledger.ErrUnknown) {
		return "", nil
	}
	return v.Text, err
}
