package gate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/trust"
	"github.com/memproxy/memproxy/internal/cache"
)

// A word is what is known of one memory that the operation would change: its
// text, its owner, and the authority over it.
type word struct {
	target string             // as the operation names it
	at     int                // its place among the memories of an answer
	row    memproxy.Ownership // of the original author; Actor is "" where it is not known
	text   string             // as it was, where that was fetched
	trust.Authority
}

func (w *word) key() memproxy.MemoryKey {
	return memproxy.MemoryKey{Backend: w.row.Backend, Kind: w.row.Kind, ID: w.row.ID}
}

// loadAuthors finds out whose words the targets are: who wrote them, by the ledger
// and by the stamp, who changed them since, and how well their source is
// known. A ledger that cannot say so refuses the change.
func loadAuthors(ctx context.Context, r *run, targets []string) {
	if r.op.Kind != memproxy.Correct && r.op.Kind != memproxy.Forget || r.verdict.worst.Stops() && r.enforced() {
		return
	}
	brings, rewritten := brings(r.call, r.op), content.Replaced(r.op)
	for _, target := range targets {
		inspectTarget(ctx, r, target)
		if r.op.Current[target].Missing || slices.Contains(brings, target) && !slices.Contains(rewritten, target) {
			continue // nothing is there, or nothing of it is changed
		}
		r.words = append(r.words, wordOf(r, target))
	}
	if err := recorded(ctx, r.Admission, r.lookups(), r.words); err != nil {
		ledgerFailed(ctx, r, err, noAuthors)
	}
}

// wordOf is what the ledger's row and the stamp on the memory say of a target.
func wordOf(r *run, target string) word {
	m := r.op.Current[target]
	w := word{target: target, row: r.owners[target], text: m.Text}
	if w.row.ID == "" {
		w.row = memproxy.Ownership{Backend: r.op.Backend, Kind: r.op.TargetKind, ID: target}
		if m.ID != "" {
			w.row.ID = m.ID
		}
	}
	if w.row.Kind == "" {
		w.row.Kind = memproxy.TargetMemory
	}
	var stamp memproxy.Stamp
	if m.Stamp != nil {
		stamp = *m.Stamp
		stamp.Tenant = r.Principal.Tenant
		if !r.g.opt.Signer.Verify(stamp) {
			stamp = memproxy.Stamp{}
		}
	}
	w.Authority = trust.AuthorityOf(r.rules.Ceilings, r.Principal.ID, &w.row, &stamp)
	return w
}

// loadReplaced finds out whose words a call of a running agent would change: another
// tenant's it does not, also where a tool that nobody could read attached them to
// the agent. What it replaces is asked for by name; what a run that is watched has
// changed already stands otherwise by now, so the ledger alone is asked.
func loadReplaced(ctx context.Context, r *run, watched bool) {
	op := r.op
	if op == nil {
		return
	}
	targets := op.Targets
	if len(targets) == 0 {
		targets = content.Replaced(op)
	}
	if len(targets) == 0 || op.Kind != memproxy.Correct && op.Kind != memproxy.Forget {
		return
	}
	if err := loadOwners(ctx, r, targets); err != nil {
		ledgerFailed(ctx, r, err, noAuthors)
		return
	}
	if op.Kind == memproxy.Correct { // what is let go of may be anybody's
		for _, id := range targets {
			if row, known := r.owners[id]; known && !r.alone() && row.Scope.Tenant != r.Principal.Tenant {
				r.verdict.missing("target:" + id)
				return
			}
		}
	}
	if loc, ok := r.call.Backend.Adapter.(Locator); ok && !watched && r.call.Backend.Fetch != nil {
		if err := fetchTargets(ctx, r, loc, targets); err != nil {
			r.g.opt.Log.ErrorContext(ctx, "the backend cannot be asked whose words a call changes", "decision", r.Decision.ID, "error", err)
			r.verdict.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.UpstreamUnavailable, Detail: "who wrote the memory cannot be looked up"})
			return
		}
		recognise(ctx, r)
	}
	if r.blind {
		ledgerFailed(ctx, r, errBlind, noAuthors)
		return
	}
	loadAuthors(ctx, r, targets)
}

// errBlind says that the ledger did not know the owner by the name either.
var errBlind = errors.New("gate: the ledger did not answer")

// noAuthors says that a change is refused because nobody knows whose texts it changes.
const noAuthors = "who wrote the memory cannot be looked up"

// ledgerFailed refuses what the ledger had to be asked about.
func ledgerFailed(ctx context.Context, r *run, err error, detail string) {
	r.g.opt.Log.ErrorContext(ctx, "ledger lookup failed", "decision", r.Decision.ID, "error", err)
	r.verdict.refuse(StatusUnavailable, memproxy.Reason{Code: memproxy.LedgerUnavailable, Detail: detail})
}

// recorded adds what the ledger has recorded about words: how well their source is
// known, and who corrected them.
func recorded(ctx context.Context, a *Admission, known *lookups, words []word) error {
	keys := make([]memproxy.MemoryKey, len(words))
	for i := range words {
		keys[i] = words[i].key()
	}
	if err := known.need(ctx, keys...); err != nil {
		return err
	}
	for i := range words {
		w := &words[i]
		w.Attested(known.of(w.row.Kind, w.row.ID).Status.Attestation)
		if w.row.Actor == "" {
			continue
		}
		list, err := known.ledger.Corrections(ctx, keys[i])
		if err != nil {
			return err
		}
		w.Corrected(a.rules.Ceilings, a.Principal.ID, list)
	}
	return nil
}

// addAuthors adds the authors of the memories being changed to the policy question.
func addAuthors(r *run) {
	for i := range r.words {
		w := &r.words[i]
		r.q.AuthorTrust = max(r.q.AuthorTrust, w.Others)
		if w.Attestation.Outranks(r.q.AuthorAttestation) {
			r.q.AuthorAttestation = w.Attestation
		}
		if w.row.Actor == "" || w.Own {
			continue
		}
		r.q.Others = true
		why := memproxy.Reason{
			Code:   memproxy.TrustCorrection,
			Detail: "written by " + w.row.Actor + " (" + string(w.row.Trust) + ", " + string(cmp.Or(w.Attestation, memproxy.AttestationUnknown)) + ")",
		}
		if !slices.Contains(r.verdict.notes, why) {
			r.verdict.note(why)
		}
	}
}

// uncontested: no correction was refused for the word of somebody else.
func uncontested(r *run) bool {
	return r.op == nil || !r.enforced() || !r.Decision.Verdict.Stops() || !has(r.Decision.Reasons, memproxy.TrustAuthority)
}

// contest keeps a correction that was not let through against the word of
// somebody else: the memory is contested from then on, and readers see it so.
func contest(ctx context.Context, r *run) error {
	for i := range r.words {
		if w := &r.words[i]; !w.Own || w.Others > 0 {
			dissent(ctx, r.g, r.Admission, w, content.NewText(r.op, w.target))
		}
	}
	return nil
}

// unmade: the call is refused.
func unmade(r *run) bool { return r.op == nil || r.Decision.Verdict.Stops() }

// credit takes a call of a running agent that is let through for made: whoever
// asked runs it next.
func credit(ctx context.Context, r *run) error {
	settleChange(ctx, r.g, r.Admission)
	return nil
}

// dissent notes that somebody would have a memory say something else.
func dissent(ctx context.Context, g *Gate, a *Admission, w *word, text string) {
	d := memproxy.Dissent{Open: true, Text: text, SHA256: textHash(text), Correction: correction(a, w, string(memproxy.TrustAuthority))}
	_ = commit(ctx, g, &a.Decision, memproxy.Entry{Dissents: []memproxy.Dissent{d}}, "a dissent was not kept") // it is in the log
}

// correction says that the admission changes, or would change, a word.
func correction(a *Admission, w *word, reason string) memproxy.Correction {
	tenant := w.row.Scope.Tenant
	if tenant == "" {
		tenant = a.Principal.Tenant
	}
	return memproxy.Correction{
		Backend: w.row.Backend, Kind: w.row.Kind, ID: w.row.ID, Tenant: tenant, Author: w.row.Actor,
		Corrector: a.Principal.ID, Trust: a.Principal.Trust, Decision: a.Decision.ID, Reason: reason, Time: a.begun,
	}
}

// How records are kept.
const (
	// maxTracks bounds the authors whose records are kept, about 200 bytes each.
	maxTracks = 8192
	// keepTrack is how long a record holds; a correction that this process lets
	// in ends it at once.
	keepTrack = 10 * time.Second
	// keepGap is how long nobody asks again after a ledger that did not answer.
	keepGap = time.Second
	// trackTimeout bounds one question.
	trackTimeout = time.Second
)

// tracks are the records of the authors who wrote lately.
type tracks struct {
	kept  cache.Cache[author, kept]
	clock func() time.Time
}

type author struct{ tenant, id string }

type kept struct {
	track memproxy.Track
	known bool // the ledger said so, once
	until time.Time
}

func newTracks(clock func() time.Time) *tracks {
	return &tracks{kept: cache.New[author, kept](maxTracks), clock: clock}
}

func (t *tracks) forget(tenant, id string) { t.kept.Remove(author{tenant, memproxy.Account(id)}) }

// of returns an author's record, and false where nobody knows it: the ledger
// did not answer, and never did about this author.
func (t *tracks) of(ctx context.Context, from Ledger, tenant, id string) (memproxy.Track, bool, error) {
	who, now := author{tenant, id}, t.clock()
	last, there := t.kept.Get(who)
	if there && now.Before(last.until) {
		return last.track, last.known, nil
	}
	ctx, cancel := context.WithTimeout(ctx, trackTimeout)
	defer cancel()
	track, err := from.Record(ctx, tenant, id)
	if err != nil {
		last.until = now.Add(keepGap)
		t.kept.Add(who, last)
		return last.track, last.known, err
	}
	t.kept.Add(who, kept{track: track, known: true, until: now.Add(keepTrack)})
	return track, true, nil
}

// loadTrack loads the caller's track record, and reports whether it is known: now, or
// from the last time that the ledger answered.
func loadTrack(ctx context.Context, r *run) bool {
	track, known, err := r.g.tracks.of(ctx, r.g.opt.Ledger, r.Principal.Tenant, r.Principal.Account())
	if err != nil {
		r.g.opt.Log.WarnContext(ctx, "a track record cannot be looked up", "decision", r.Decision.ID, "principal", r.Principal.ID, "error", err)
	}
	r.track, r.trackKnown = track, known
	return known
}

// unearned: the caller's tier is not one that a record raises, or nothing is
// written.
func unearned(r *run) bool {
	return unlocked(r) || r.Principal.Trust != memproxy.TrustAuthenticated || r.rules.Earning.Facts == 0
}

// earn makes an authenticated caller an established one whose record is good
// enough. A record that nobody can look up earns nothing.
func earn(ctx context.Context, r *run) error {
	if loadTrack(ctx, r) && r.rules.Earning.Earned(r.track, r.begun) {
		r.Principal.Trust = memproxy.TrustEstablished
	}
	return nil
}
