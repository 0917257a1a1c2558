package gate

import (
	"context"
	"time"

	"github.com/memproxy/memproxy"
)

// retracted is how long a text counts as said before.
const retracted = 30 * 24 * time.Hour

// before is the confidence that the caller gave to the same word before, and
// which it may not raise: of its own memories that it corrects, and of texts
// that it retracted and now writes anew. A source that is known better than
// before raises it. False: there is no such word.
func (r *run) before(ctx context.Context) (memproxy.PerMille, bool, error) {
	least, found := memproxy.Full, false
	note := func(given memproxy.PerMille, a memproxy.Attestation) {
		if given > 0 && !r.attestation.Outranks(a) {
			least, found = min(least, given), true
		}
	}
	for i := range r.words {
		if w := &r.words[i]; w.own {
			note(w.row.Confidence, basis(w.attestation))
		}
	}
	if texts := r.texts(); len(texts) > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.g.opt.RecordTimeout)
		defer cancel()
		said, known, err := r.g.opt.Ledger.Retraction(ctx, r.Principal.Tenant, r.Principal.Account(), texts, r.begun.Add(-retracted))
		if err != nil {
			return 0, false, err
		}
		if known {
			note(said.Confidence, basis(said.Attestation))
		}
	}
	return least, found, nil
}

// basis is the attestation that a new one has to outrank. What a memory is
// known by that nothing is recorded of is the word of its author.
func basis(a memproxy.Attestation) memproxy.Attestation {
	if memproxy.SelfReported.Outranks(a) && a != memproxy.Inferred {
		return memproxy.SelfReported
	}
	return a
}

func (r *run) texts() []string {
	var out []string
	for i := range r.op.Items {
		if it := &r.op.Items[i]; it.Kind == memproxy.ItemContent && it.Text != "" {
			out = append(out, it.Text)
		}
	}
	return out
}

// withdraw notes what the authors of memories no longer say, after it was
// deleted or replaced: by themselves, who could write it anew and look more
// certain, or by somebody who found it wrong. What was as certain as its author
// can be has nothing to gain and is not kept.
func (g *Gate) withdraw(ctx context.Context, a *Admission, words []word) {
	if !a.enforced() {
		return
	}
	var all []memproxy.Retraction
	for i := range words {
		w := &words[i]
		if a.op.Kind == memproxy.Correct && !a.rewrites(w) {
			continue
		}
		if w.row.Actor == "" || w.text == "" || w.row.Confidence <= 0 || w.row.Confidence >= a.rules.Ceilings.Ceiling(w.row.Trust, "") {
			continue
		}
		all = append(all, memproxy.Retraction{
			Tenant: w.row.Scope.Tenant, Author: memproxy.Account(w.row.Actor), Text: w.text,
			Confidence: w.row.Confidence, Attestation: w.attestation, Time: a.begun,
		})
	}
	_ = commit(ctx, g, &a.Decision, memproxy.Entry{Retractions: all}, "what is no longer said is not kept") // it is in the log
}
