package ledger

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger/keys"
)

// Claim hands an approved hold to exactly one caller, who sends it to the backend. From
// then on the write may have been sent, so the hold is not handed out again, whatever
// happens to the caller, who ends the claim with EndClaim. A claim whose lease expires before
// that is stranded (ExpiredClaims), and Resolve ends it after the backend was asked. The first
// Claim of a hold that waited in a restored ledger makes it stranded too. ErrState means that
// the hold is not approved, ErrForged that its row was edited: it goes back to review, and its
// votes are deleted.
func (hs Holds) Claim(ctx context.Context, id string, lease time.Duration) (memproxy.Replay, error) {
	if lease <= 0 {
		return memproxy.Replay{}, invalidArgument("a claim needs a lease")
	}
	h, c, err := hs.Content(ctx, id)                    // before the claim, because a claimed hold whose content cannot be opened would be stranded
	if err == nil && h.State == memproxy.HoldApproved { // otherwise the update below reports it
		var said confirmation
		if said, err = hs.confirmed(ctx, &h); err == nil && !bytes.Equal(said.Approval, approvalOf(&h)) {
			if hs.changed(ctx, &h) {
				return hs.Claim(ctx, id, lease)
			}
			err = forged(hs.store, &h)
		}
	}
	if errors.Is(err, memproxy.ErrForged) {
		err = errors.Join(err, hs.change(ctx, nil, func(t *transaction) {
			if t.run(`UPDATE hold SET state = 'pending' WHERE id = ? AND state = 'approved'`, h.ID) == 1 {
				withdrawApproval(t, &h)
			}
		}))
	}
	if err != nil {
		return memproxy.Replay{Hold: h}, err
	}
	token := rand.Text()
	until, err := changeResult(ctx, hs.store, nil, func(t *transaction) int64 {
		if t.run(`UPDATE hold SET state = 'replaying', token = '' WHERE id = ? AND state = 'approved' AND lease > 0`, id) == 1 {
			return 0 // Restore set a lease that has expired
		}
		until := toMicros(leaseTime(t).Add(lease))
		if t.run(`UPDATE hold SET state = 'replaying', token = ?, lease = ? WHERE id = ? AND state = 'approved'`, token, until, id) == 0 {
			wrongState(t, id, "approved")
			return 0
		}
		return until
	})
	if err == nil && until == 0 {
		err = fmt.Errorf("%w: the hold was restored from a backup, so the backend must be queried first", ErrState)
	}
	if err != nil {
		return memproxy.Replay{}, err
	}
	h.State, h.Lease = memproxy.HoldReplaying, fromMicros(until)
	return memproxy.Replay{Hold: h, Content: c, Token: token}, nil
}

// wrongState fails because a hold is not in the wanted state, or does not exist.
func wrongState(t *transaction, id, want string) {
	h := knownHold(t, id, oneHold)
	t.fail(fmt.Errorf("%w: the hold is %s, not %s", ErrState, h.State, want))
}

// EndClaim ends a claim, which only its holder can: as done if the backend accepted the write;
// failed if it refused it for good; approved if this attempt certainly sent nothing, so that the
// hold can be claimed again; or pending if nothing was written and it has to be reviewed again,
// without votes. Repeating the call with the same token is not an error.
func (hs Holds) EndClaim(ctx context.Context, id, token string, to memproxy.HoldState, r memproxy.HoldResult) error {
	known := slices.Contains([]memproxy.HoldState{memproxy.HoldDone, memproxy.HoldFailed, memproxy.HoldApproved, memproxy.HoldPending}, to)
	return hs.change(ctx, require(token != "" && known, "the end of a claim needs its token and a state"), func(t *transaction) {
		is, left := settleClaim(t, id, to, r, false, `token = ?`, token)
		if !left && !t.one(`SELECT 1 FROM hold WHERE id = ? AND state = ? AND token = ?`, []any{id, string(is), token}, new(int)) {
			wrongState(t, id, "replaying in this process")
		}
	})
}

// settleClaim ends the claim of a hold that matches a condition. sent says that this attempt
// may have sent the write. It returns the state that the hold is given, and reports whether
// there was such a claim. A write of an owner whose memories were all deleted is not sent again:
// it becomes failed.
func settleClaim(t *transaction, id string, to memproxy.HoldState, r memproxy.HoldResult, sent bool, where string, args ...any) (memproxy.HoldState, bool) {
	h := lockHold(t, id)
	if to == memproxy.HoldApproved || to == memproxy.HoldPending { // it may be sent again
		r.SentBefore = h.Result.SentBefore || sent
		if h.Result.Cleared {
			to, r = memproxy.HoldFailed, clearedResult()
		}
	}
	n := t.run(`UPDATE hold SET state = ?, lease = 0, result = ? WHERE id = ? AND state = 'replaying' AND `+where,
		append([]any{string(to), asJSON(limitResult(r)), id}, args...)...)
	switch {
	case n == 0:
	case to == memproxy.HoldPending:
		withdrawApproval(t, &h)
	case to != memproxy.HoldApproved: // it was written or has failed for good
		endReview(t, id)
		if h.Result.Cleared {
			destroyHeld(t, id)
		}
	}
	return to, n > 0
}

// limitResult limits the size of a result, which the backend determines.
func limitResult(r memproxy.HoldResult) memproxy.HoldResult {
	r.Memories = r.Memories[:min(len(r.Memories), 1000)]
	r.Detail = r.Detail[:min(len(r.Detail), maxNote)]
	return r
}

// ExpiredClaims returns the claims whose lease has expired: their process is gone, and it
// is unknown whether the write was sent.
func (hs Holds) ExpiredClaims(ctx context.Context) ([]memproxy.HeldWrite, error) {
	return doResult(ctx, hs.store, job{}, func(t *transaction) []memproxy.HeldWrite {
		now := leaseTime(t)
		return rows(t, scanHold, `SELECT `+holdColumns+` FROM hold WHERE state = 'replaying' AND (lease < ?1 OR lease > ?2) ORDER BY created, id LIMIT ?3`,
			toMicros(now), toMicros(now.Add(longestLease)), maxBatch)
	})
}

// Resolve ends a stranded claim after the backend was asked: as done if the backend has
// the write, approved if it certainly does not have it, failed if the write is
// abandoned. A write that arrived and was changed or deleted since is not sent again:
// instead of approved it becomes done if the ledger has its versions, and failed if
// everything of its owner was deleted. Resolve returns the resulting state.
func (hs Holds) Resolve(ctx context.Context, id string, to memproxy.HoldState, r memproxy.HoldResult) (memproxy.HoldState, error) {
	ends := to == memproxy.HoldDone || to == memproxy.HoldApproved || to == memproxy.HoldFailed
	if to == memproxy.HoldApproved {
		seen, err := hasVersions(ctx, hs, id)
		if err != nil {
			return "", err
		}
		if seen {
			to, r = memproxy.HoldDone, memproxy.HoldResult{Detail: "it arrived, and was changed or deleted since"}
		}
	}
	bad := require(ends, "an interrupted hold cannot become %q", to)
	return changeResult(ctx, hs.store, bad, func(t *transaction) memproxy.HoldState {
		// It was claimed, not just restored: the attempt was charged.
		claimed := t.one(`SELECT 1 FROM hold WHERE id = ? AND token <> ''`, []any{id}, new(int))
		now := leaseTime(t)
		is, left := settleClaim(t, id, to, r, claimed, `(lease < ? OR lease > ?)`, toMicros(now), toMicros(now.Add(longestLease)))
		if !left {
			wrongState(t, id, "replaying for over two minutes, after which it counts as interrupted")
			return ""
		}
		t.run(`UPDATE hold SET token = '' WHERE id = ?`, id)
		return is
	})
}

// hasVersions reports whether a hold has versions. Decisions have no index: it reads the
// tenant's chain from its end back to a day before the hold, as clocks may differ, page by page.
func hasVersions(ctx context.Context, hs Holds, id string) (seen bool, err error) {
	h, err := hs.Get(ctx, id)
	last := versionRow{at: math.MaxInt64, place: math.MaxInt64}
	for err == nil && !seen && last.at >= toMicros(h.Created.Add(-longestLease)) {
		var page []versionRow
		page, err = querySettled(ctx, hs.store, "look for the versions of a hold", scanVersionRow,
			`SELECT `+versionColumns+` FROM version WHERE tenant = ? AND place < ? ORDER BY place DESC LIMIT ?`, h.Tenant, last.place, verifyStep)
		if len(page) == 0 {
			break
		}
		last = page[len(page)-1]
		seen = slices.ContainsFunc(page, func(r versionRow) bool { return r.Backend == h.Backend && r.Decision == id })
	}
	return seen, err
}

// clearedResult returns the result of a write that is not sent, or not again, because
// everything of its owner was deleted.
func clearedResult() memproxy.HoldResult {
	return memproxy.HoldResult{Cleared: true, Detail: "everything of its owner was deleted after it was held"}
}

// Shred destroys the content of a hold irrecoverably. A waiting or approved hold
// becomes rejected. ErrState means that the hold is being sent.
func (hs Holds) Shred(ctx context.Context, id string, r memproxy.Review) error {
	return hs.do(ctx, &job{bad: checkReview(r), durable: true, erase: true, run: func(t *transaction) {
		h := lockHold(t, id)
		switch h.State {
		case memproxy.HoldReplaying:
			failState(t, &h)
			return
		case memproxy.HoldPending, memproxy.HoldApproved:
			settleHold(t, id, memproxy.HoldRejected, r)
		}
		destroyHeld(t, id)
	}})
}

// Prune deletes the holds that were settled before a time, with their contents, and
// returns how many, also along with an error.
func (hs Holds) Prune(ctx context.Context, before time.Time) (int, error) {
	step := job{bad: require(!before.IsZero(), "prune holds: no time given"), erase: true, durable: true}
	return inSteps(ctx, hs.store, step, pruneStep, func(t *transaction) int {
		ids := rows(t, scanOne[string], `DELETE FROM hold WHERE id IN
			(SELECT id FROM hold WHERE state IN `+settledStates+` AND created < ?1 AND reviewed < ?1 LIMIT ?2)
			RETURNING id`, toMicros(before), pruneStep)
		for _, id := range ids {
			t.run(`DELETE FROM content WHERE ref IN (?, ?)`, ref(refHold, id), ref(refApproval, id))
			t.run(`DELETE FROM vote WHERE subject = ?`, ref(refHold, id))
		}
		return len(ids)
	})
}

// A sketch is a 64-bit SimHash over the words and word pairs of a text: similar texts
// have sketches that differ in few bits. The hash is keyed, so that an editor of the
// database cannot recover texts by sketching guesses. SimHash is unreliable for few
// words: of texts with five features, three of them in common, one pair in seventy
// would be within sketchLike, depending on the key. So the sketch of a short text is a
// hash of all its words, and only a text with the same words is similar. It is stored as 16 hex
// digits.
type sketch uint64

const (
	// sketchLike is the largest Hamming distance of similar texts. Sketches of unrelated
	// texts differ in 32 bits on average, with a standard deviation of 4: of a thousand
	// groups, two are similar by chance about once in ten million.
	sketchLike  = 10
	sketchShort = 12 // number of words from which on SimHash is used
	// sketchWords limits the words that are sketched.
	sketchWords = 4096
	// sketchRecent limits the waiting holds whose groups a new hold is compared with.
	sketchRecent = 1000
)

func (s sketch) String() string { return fmt.Sprintf("%016x", uint64(s)) }

// sketchOf sketches normalised texts: letters in lower case, all numbers alike, all
// else separators. A text without words has the sketch 0.
func sketchOf(secret []byte, texts []memproxy.HeldText) sketch {
	mac := hmac.New(sha256.New, secret)
	hash := func(feature string) uint64 {
		mac.Reset()
		mac.Write([]byte(feature))
		return binary.BigEndian.Uint64(mac.Sum(nil))
	}
	var votes [64]int
	count := func(feature string) {
		h := hash(feature)
		for i := range votes {
			if h>>i&1 == 1 {
				votes[i]++
			} else {
				votes[i]--
			}
		}
	}
	left, before, short := sketchWords, "", ""
	for _, t := range texts {
		for word := range strings.FieldsFuncSeq(t.Text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			if left--; left < 0 {
				break
			}
			word = strings.ToLower(word)
			if strings.ContainsFunc(word, unicode.IsDigit) {
				word = "0"
			}
			if left > sketchWords-sketchShort {
				short += " " + word
			}
			count(word)
			if before != "" {
				count(before + " " + word)
			}
			before = word
		}
	}
	if words := sketchWords - left; words > 0 && words < sketchShort {
		return sketch(hash("all of it:" + short))
	}
	var s sketch
	for i, v := range votes {
		if v > 0 {
			s |= 1 << i
		}
	}
	return s
}

// similarityOf returns the similarity of a new hold: that of the newest similar one of the
// tenant's last waiting holds, else the hold's own.
func similarityOf(t *transaction, tenant string, s sketch) string {
	groups := rows(t, scanOne[string], `SELECT similarity FROM hold WHERE tenant = ? AND state = 'pending'
		ORDER BY created DESC, similarity DESC LIMIT ?`, tenant, sketchRecent)
	for _, g := range groups {
		if o, err := strconv.ParseUint(g, 16, 64); err == nil && bits.OnesCount64(uint64(s)^o) <= sketchLike {
			return g
		}
	}
	return s.String()
}

// sketchKey returns the key of sketches and of the hashes of retracted texts; nil
// without a vault. The key is created once and stored as a content, so that it survives
// a rotation of the vault's keys.
func (s *store) sketchKey(ctx context.Context) ([]byte, error) {
	if s.opt.Vault == nil {
		return nil, nil
	}
	if key := s.similar.Load(); key != nil {
		return *key, nil
	}
	key := make([]byte, keys.Size)
	_, _ = rand.Read(key) // never fails
	err := s.change(ctx, nil, func(t *transaction) { t.encrypt(refSimilar, "", key) })
	if err == nil {
		key, err = s.decrypt(ctx, refSimilar, "") // if two processes create a key, the first one's is stored
	}
	if err != nil {
		return nil, err
	}
	s.similar.Store(&key)
	return key, nil
}
