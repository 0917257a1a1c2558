package ledger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// The errors of holds and reviews.
var (
	// ErrUnknown means that the item does not exist.
	ErrUnknown = fmt.Errorf("ledger: %w", memproxy.ErrUnknown)
	// ErrState means that the item's state does not allow the operation.
	ErrState = fmt.Errorf("ledger: %w", memproxy.ErrState)
	// ErrConflict means that another item has the id.
	ErrConflict = errors.New("ledger: the id is taken")
	// ErrOwnReview means that the reviewer is the author, who may not review.
	ErrOwnReview = fmt.Errorf("ledger: %w", memproxy.ErrOwnReview)
)

// maxHeld is the largest content of a hold in bytes. The gate's body limit is far below.
const maxHeld = 32 << 20

const holdColumns = `id, backend, route, method, path, tenant, principal, trust, session, scope, kind,
	reasons, findings, score, policy, sha256, created, state, reviewer, reviewed, note, similarity, lease, result, today`

func scanHold(s scanner) (h memproxy.HeldWrite, err error) {
	err = s.Scan(&h.ID, &h.Backend, &h.Route, &h.Method, &h.EscapedPath, &h.Tenant, &h.Principal, &h.Trust, &h.Session,
		sqlJSON{&h.Scope}, &h.Kind, sqlJSON{&h.Reasons}, sqlJSON{&h.Findings}, &h.Score, &h.Policy, &h.ContentSHA256, (*sqlTime)(&h.Created), &h.State,
		&h.Reviewer, (*sqlTime)(&h.Reviewed), &h.Note, &h.Similarity, (*sqlTime)(&h.Lease), sqlJSON{&h.Result}, &h.CurrentVerdict)
	return h, err
}

// asJSON encodes a value whose encoding cannot fail.
func asJSON(v any) string { return string(inJSON(v)) }

func inJSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic("ledger: " + err.Error()) // the values are structs of strings and numbers from this module
	}
	return text
}

// Holds is the review queue of held writes.
type Holds struct{ *store }

// Put stores a held write, its content encrypted, and returns it with Created, State
// and Similarity set. The hold is on disk when Put returns. Repeating an id with the
// same content changes nothing; with another content it is ErrConflict. When a limit on
// waiting holds is reached the error is a *memproxy.HoldLimitError, and also ErrFull if it
// is the tenant's limit. A write with the state memproxy.HoldRewritten does not wait:
// it takes no room in the queue and causes no notice.
func (hs Holds) Put(ctx context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) (memproxy.HeldWrite, error) {
	if err := validHold(&h); err != nil {
		return h, err
	}
	plain, err := json.Marshal(holdSecret{c, requestSum(&h)})
	if err != nil {
		return h, invalidArgument("the content of a hold: %v", err)
	}
	if len(plain) > maxHeld {
		return h, invalidArgument("the content of a hold is longer than %d bytes", maxHeld)
	}
	secret, err := hs.sketchKey(ctx)
	if err != nil {
		return h, err
	}
	sk := sketchOf(secret, c.Texts)
	h.Created = fromMicros(max(1, toMicros(hs.opt.Clock())))
	if h.State != memproxy.HoldRewritten {
		h.State = memproxy.HoldPending
	}
	h.Reviewer, h.Note, h.CurrentVerdict, h.Reviewed, h.Lease, h.Result = "", "", "", time.Time{}, time.Time{}, memproxy.HoldResult{}
	return changeResult(ctx, hs.store, nil, func(t *transaction) memproxy.HeldWrite {
		return putHold(t, h, sk, plain)
	})
}

// holdSecret is what is encrypted of a hold: the content, and the hash of the row's
// members that never change. The row itself is not encrypted, and is compared with it.
type holdSecret struct {
	memproxy.HoldContent
	Request []byte `json:"request,omitempty"` // absent in holds of earlier versions
}

// requestSum hashes the members of a hold that say whose write it is and where it is sent.
func requestSum(h *memproxy.HeldWrite) []byte {
	sum := sha256.Sum256([]byte(asJSON([...]any{
		h.ID, h.Backend, h.Route, h.Method, h.EscapedPath, h.Tenant, h.Principal, h.Trust, h.Session, h.Scope, h.Kind, h.ContentSHA256,
	})))
	return sum[:]
}

func putHold(t *transaction, h memproxy.HeldWrite, sk sketch, plain []byte) memproxy.HeldWrite {
	if other, taken := row(t, scanHold, oneHold, h.ID); taken {
		if other.ContentSHA256 != h.ContentSHA256 || other.Tenant != h.Tenant || other.Backend != h.Backend {
			t.fail(fmt.Errorf("%w: hold %s", ErrConflict, h.ID))
		}
		return other
	}
	waits := h.State == memproxy.HoldPending
	if waits {
		if err := roomFor(t, h); err != nil {
			t.fail(err)
			return h
		}
	}
	h.Similarity = similarityOf(t, h.Tenant, sk)
	h, _ = row(t, scanHold, `INSERT INTO hold (`+holdColumns+`, sketch, token, aged)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,'',?,'',0) RETURNING `+holdColumns, // what is confirmed is as it will be read
		h.ID, h.Backend, h.Route, h.Method, h.EscapedPath, h.Tenant, h.Principal, string(h.Trust), h.Session, asJSON(h.Scope), string(h.Kind),
		asJSON(h.Reasons), asJSON(h.Findings), int64(h.Score), h.Policy, h.ContentSHA256, toMicros(h.Created), string(h.State),
		"", 0, "", h.Similarity, 0, asJSON(h.Result), sk.String())
	t.encrypt(ref(refHold, h.ID), h.Tenant, plain)
	confirm(t, &h, confirmation{Shown: shownOf(&h)})
	if waits {
		t.notify(memproxy.NoticeHold, h.Tenant, h.ID, h)
	}
	return h
}

func validHold(h *memproxy.HeldWrite) error {
	return cmp.Or(require(h.ID != "" && h.Backend != "" && h.Route != "", "a hold needs an id, a backend and a route"),
		storableParts("hold", h.ID, h.Backend, h.Route, h.Method, h.Tenant, h.Principal, string(h.Trust), h.Session,
			string(h.Kind), h.Policy, h.ContentSHA256, h.Scope.Tenant, h.Scope.User, h.Scope.Agent, h.Scope.App, h.Scope.Run),
		require(storableUpTo(8*maxText, h.EscapedPath) == nil,
			"the path of a hold is not UTF-8 of at most %d bytes", 8*maxText))
}

const oneHold = `SELECT ` + holdColumns + ` FROM hold WHERE id = ?`

// knownHold returns the hold that a statement finds, and fails with ErrUnknown if there is
// none.
func knownHold(t *transaction, id, text string) memproxy.HeldWrite {
	h, there := row(t, scanHold, text, id)
	if !there {
		t.fail(fmt.Errorf("%w: hold %s", ErrUnknown, id))
	}
	return h
}

// Get returns a hold without its content, or ErrUnknown.
func (hs Holds) Get(ctx context.Context, id string) (memproxy.HeldWrite, error) {
	found, err := queryRows(ctx, hs.store, "look up a hold", scanHold, oneHold, id)
	h, err := oneOrUnknown(found, err, "hold "+id)
	if err != nil || h.State != memproxy.HoldPending {
		return h, err
	}
	votes, err := queryRows(ctx, hs.store, "look up votes", scanVote(hs.store), `SELECT `+voteColumns+` FROM vote WHERE subject = ? AND reviewer <> ? ORDER BY at, reviewer`,
		ref(refHold, id), h.Principal)
	for _, v := range votes {
		if !v.edited {
			h.Votes = append(h.Votes, v.reviewer)
		}
	}
	return h, err
}

// Content returns a hold with its content, or ErrShredded if the content is gone, or
// ErrForged if the row was edited since Put.
func (hs Holds) Content(ctx context.Context, id string) (memproxy.HeldWrite, memproxy.HoldContent, error) {
	var c holdSecret
	if err := hs.flush(ctx); err != nil { // a deletion that is queued destroys it
		return memproxy.HeldWrite{}, memproxy.HoldContent{}, err
	}
	h, err := hs.Get(ctx, id)
	if err != nil {
		return h, memproxy.HoldContent{}, err
	}
	plain, err := hs.decrypt(ctx, ref(refHold, h.ID), h.Tenant)
	if err != nil {
		return h, memproxy.HoldContent{}, err
	}
	if err := json.Unmarshal(plain, &c); err != nil {
		return h, memproxy.HoldContent{}, fmt.Errorf("%w: hold %s", ErrSealed, h.ID)
	}
	if c.Request != nil && !bytes.Equal(c.Request, requestSum(&h)) {
		return h, memproxy.HoldContent{}, forged(hs.store, &h)
	}
	if over := h.State == memproxy.HoldRejected || h.State == memproxy.HoldDone || h.State == memproxy.HoldFailed; !over {
		if said, err := hs.confirmed(ctx, &h); err != nil || !bytes.Equal(said.Shown, shownOf(&h)) {
			if err == nil && hs.changed(ctx, &h) {
				return hs.Content(ctx, id)
			}
			return h, memproxy.HoldContent{}, cmp.Or(err, forged(hs.store, &h))
		}
	}
	return h, c.HoldContent, nil
}

// List returns a page of holds, oldest first. It refuses an invalid cursor with ErrRow.
func (hs Holds) List(ctx context.Context, f memproxy.HoldFilter) (memproxy.HoldPage, error) {
	c, err := holdConditions(f)
	if err != nil {
		return memproxy.HoldPage{}, err
	}
	n := min(cmp.Or(max(0, f.Limit), 50), 500)
	found, err := queryRows(ctx, hs.store, "list holds", scanHold, `SELECT `+holdColumns+` FROM hold`+c.where()+` ORDER BY created, id LIMIT ?`, append(c.args, n+1)...)
	if err != nil {
		return memproxy.HoldPage{}, err
	}
	page := memproxy.HoldPage{Holds: found}
	if len(found) > n {
		page.Holds = found[:n]
		page.Next = cursor(found[n-1])
	}
	return page, nil
}

// Each calls f with every hold that a filter selects, oldest first, until f returns an error.
func (hs Holds) Each(ctx context.Context, filter memproxy.HoldFilter, f func(memproxy.HeldWrite) error) error {
	for {
		page, err := hs.List(ctx, filter)
		if err != nil {
			return err
		}
		for _, h := range page.Holds {
			if err := f(h); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		filter.After = page.Next
	}
}

func cursor(h memproxy.HeldWrite) string {
	return strconv.FormatInt(toMicros(h.Created), 36) + "." + h.ID
}

func parseCursor(text string) (at int64, id string, err error) {
	first, id, ok := strings.Cut(text, ".")
	at, perr := strconv.ParseInt(first, 36, 64)
	if !ok || perr != nil || storable(id) != nil {
		return 0, "", invalidArgument("not a cursor")
	}
	return at, id, nil
}

func holdConditions(f memproxy.HoldFilter) (c conditions, err error) {
	c.text("state", "state = ?", string(f.State))
	if f.Open {
		c.add("state IN ('pending', 'approved', 'replaying')")
	}
	c.text("backend", "backend = ?", f.Backend)
	c.text("principal", "principal = ?", f.Principal)
	c.text("similarity", "similarity = ?", f.Similarity)
	c.text("the session", "session IN (?, ?)", f.Session, memproxy.InertSession(f.Session)) // the session's name as the caller writes it, or as it is stored
	c.text("the version of the rules", "policy <> ?", f.NotPolicy)
	c.tenant("tenant", f.Tenant)
	if !f.Since.IsZero() {
		c.add("created >= ?", toMicros(f.Since))
	}
	if !f.Before.IsZero() {
		c.add("created < ?", toMicros(f.Before))
	}
	if f.After != "" {
		at, id, err := parseCursor(f.After)
		if err != nil {
			return c, err
		}
		c.add("(created, id) > (?, ?)", at, id)
	}
	return c, c.bad
}

// roomFor refuses a hold when the limit on waiting holds of its caller, its end user,
// all anonymous callers or its tenant is reached. No caller can fill the queue for
// others, and many callers together cannot either: an authenticated caller without a
// waiting hold may have one more, up to twice the tenant's limit.
func roomFor(t *transaction, h memproxy.HeldWrite) error {
	all, user, total := t.store.opt.MaxPrincipalHolds, t.store.opt.MaxUserHolds, t.store.opt.MaxHolds
	account := memproxy.Account(h.Principal)
	whose, who := `principal = ?`, []any{h.Tenant, account}
	if strings.HasPrefix(account, memproxy.AnonymousPrefix) { // all sessions of one address share a limit
		whose, who = `principal >= ? AND principal < ?`, append(who, account+".")
	}
	scopes := rows(t, scanOne[string], `SELECT scope FROM hold WHERE tenant = ? AND `+whose+` AND state = 'pending' LIMIT ?`, append(who, all)...)
	if len(scopes) >= all {
		return &memproxy.HoldLimitError{Key: "holds/" + account, Limit: all, Setting: "review.max_held"}
	}
	n := 0
	for _, text := range scopes {
		var s memproxy.Scope
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		if s.User == h.Scope.User {
			n++
		}
	}
	if h.Scope.User != "" && n >= user {
		return &memproxy.HoldLimitError{Key: "holds/" + account + "/" + h.Scope.User, Limit: user, Setting: "review.max_held_user"}
	}
	var waiting, anonymous int
	t.one(`SELECT count(*) FROM hold WHERE tenant = ? AND state = 'pending'`, []any{h.Tenant}, &waiting)
	known := h.Trust != memproxy.TrustAnonymous
	if !known { // anonymous callers can change their identity at will
		t.one(`SELECT count(*) FROM hold WHERE tenant = ? AND state = 'pending' AND trust = ?`, []any{h.Tenant, string(memproxy.TrustAnonymous)}, &anonymous)
		if share := max(1, total/4); anonymous >= share {
			return &memproxy.HoldLimitError{Key: "holds/anonymous", Limit: share, Setting: "a quarter of review.max_held_tenant"}
		}
	}
	if waiting < total || known && len(scopes) == 0 && waiting < 2*total {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrFull, &memproxy.HoldLimitError{Key: "holds", Limit: total, Setting: "review.max_held_tenant"})
}

// settledStates are those in which a hold is over, as a list for SQL.
const settledStates = `('rejected', 'done', 'failed', 'rewritten')`

// clearHolds ends the writes that wait within a scope after everything in the scope was
// deleted. If they were approved later, they would restore deleted data. A write that
// is being sent is marked, and is not sent again. clearHolds returns the holds that it
// ended, in their last state. What was held within the scope is destroyed, of holds that
// were settled before too: it is data of the owner as well.
func clearHolds(ctx context.Context, s *store, backend string, scope memproxy.Scope) (ended []memproxy.HeldWrite, _ error) {
	type held struct {
		id    string
		scope memproxy.Scope
	}
	// The scopes are read without the writer, which would wait for thousands of settled
	// holds, once the holds that are being stored are in the table.
	err := s.do(ctx, &job{})
	if err != nil {
		return nil, err
	}
	err = eachPage(expireStep, func(after held) ([]held, error) {
		return queryRows(ctx, s, "find held writes", func(s scanner) (h held, err error) {
			return h, s.Scan(&h.id, sqlJSON{&h.scope})
		}, `SELECT id, scope FROM hold WHERE backend = ? AND id > ? ORDER BY id LIMIT ?`, backend, after.id, expireStep)
	}, func(page []held) error {
		if page = slices.DeleteFunc(page, func(h held) bool { return !h.scope.Within(scope) }); len(page) == 0 {
			return nil
		}
		did, err := doResult(ctx, s, job{durable: true}, func(t *transaction) (did []memproxy.HeldWrite) {
			for i := range page { // another process may claim or prune it meanwhile
				if h, there := row(t, scanHold, lockedHold, page[i].id); there && clearHold(t, &h) {
					did = append(did, h)
				}
			}
			return did
		})
		ended = append(ended, did...)
		return err
	})
	return ended, err
}

// clearHold ends a locked hold, and reports whether it was waiting.
func clearHold(t *transaction, h *memproxy.HeldWrite) bool {
	was := h.State
	switch was {
	case memproxy.HoldReplaying:
		h.Result.Cleared = true
	case memproxy.HoldPending, memproxy.HoldApproved:
		h.State, h.Result = memproxy.HoldFailed, clearedResult()
		endReview(t, h.ID)
		destroyHeld(t, h.ID)
	default:
		destroyHeld(t, h.ID)
		return false
	}
	t.run(`UPDATE hold SET state = ?, result = ? WHERE id = ?`, string(h.State), asJSON(h.Result), h.ID)
	return was != memproxy.HoldReplaying
}

// destroyHeld destroys a hold's content and the key that it is encrypted under.
func destroyHeld(t *transaction, id string) {
	t.run(`UPDATE content SET envelope = '' WHERE ref = ?`, ref(refHold, id))
}

// destroyHeldOf destroys what was held of a memory that was deleted: no version of it can
// be read any more, and a hold shows the same text.
func destroyHeldOf(t *transaction, k memproxy.MemoryKey) {
	for _, id := range rows(t, scanOne[string], `SELECT id FROM hold WHERE state IN `+settledStates+` 
		AND id IN (SELECT decision FROM version WHERE backend = ?1 AND kind = ?2 AND id = ?3 UNION
			SELECT decision FROM record WHERE backend = ?1 AND kind = ?2 AND id = ?3)`, k) {
		destroyHeld(t, id)
	}
}
