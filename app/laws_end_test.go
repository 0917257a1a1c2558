package app_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy"
)

// recover ends a sequence: the backend is back, half an hour passes, and what was
// interrupted is completed. Then everybody reads everything.
func (w *lawWorld) recover() {
	w.away, w.passed = 0, w.passed+30*time.Minute
	w.note("recover")
	before := w.kind.stored(w)
	time.Sleep(time.Minute) // extractions are followed
	w.must(w.job("outcomes"))
	_, _ = w.job("replays"), w.job("replays")
	w.obey(before, w.approved())
	w.must(w.car.Ledger.Sync(w.t.Context()))
	synctest.Wait()
	for i := range w.callers {
		for _, user := range lawUsers[w.callers[i].tenant] {
			w.kind.reads(w, &w.callers[i], user)
		}
	}
	w.chargedIsStored()
	for line := range strings.Lines(w.log.String()) {
		if !w.faulty && !strings.Contains(line, "UNSAFE") && (strings.Contains(line, `"level":"ERROR"`) || strings.Contains(line, "panic")) {
			w.breaks("the log has an error: %s", line)
		}
	}
}

// chargedIsStored: each caller's total budget is charged for the memories that exist, and
// at most for additions and deletions of unknown outcome besides.
func (w *lawWorld) chargedIsStored() {
	made := map[string]int64{}
	for _, m := range w.memories {
		if !m.gone {
			made[m.author.key]++
		}
	}
	for _, p := range w.callers {
		who := memproxy.Principal{ID: p.id, Tenant: p.tenant}
		a, err := w.car.Budget.Charge(context.Background(), memproxy.Charge{ID: "peek", Tenant: p.tenant, Cost: 1, Peek: true, Time: w.now(), Lines: []memproxy.Line{
			{Reason: memproxy.BudgetTotal, Key: "principal/" + who.Account(), Window: memproxy.WindowTotal, Limit: 1 << 30},
		}})
		w.must(err)
		if n, has := a.Lines[0].Used, made[p.key]; n < has || n > has+w.unknown[p.key] {
			w.breaks("a budget is not charged for what exists: %s is charged %d, has %d, and %d unknown", p.id, n, has, w.unknown[p.key])
		}
	}
}

// checkFiles checks what the stopped sidecar left: a sweep reports nothing, the audit log
// verifies, and each decision that was answered is recorded once with its verdict. A held
// write that was approved is recorded again whenever it is sent.
func (w *lawWorld) checkFiles() {
	conf, dir := writeFile(w.t, filepath.Join(w.dir, "memproxy.yaml"), w.config()), filepath.Join(w.state(), "audit")
	command := func(args ...string) string {
		code, out, errs := invoke(w.t, args...)
		if code != 0 {
			w.breaks("%s fails: %s %s", strings.Join(args[:2], " "), out, errs)
		}
		return out
	}
	command("ledger", "sweep", "--config", conf)
	command("audit", "verify", "--dir", dir)
	recorded := map[string]string{}
	for line := range strings.Lines(command("audit", "query", "--dir", dir, "--json")) {
		rec := decoded[struct{ Type, Decision, Verdict string }](w.t, line)
		if rec.Type != "decision" {
			continue
		}
		if was, twice := recorded[rec.Decision]; twice && (was != "hold" || w.holds[rec.Decision] == nil || !w.holds[rec.Decision].settled) {
			w.breaks("a decision is recorded twice: %s as %s and %s", rec.Decision, was, rec.Verdict)
		} else if !twice {
			recorded[rec.Decision] = rec.Verdict
		}
	}
	for id, verdict := range w.answered {
		if recorded[id] != verdict {
			w.breaks("a decision is answered and not recorded: %s as %s, recorded as %q", id, verdict, recorded[id])
		}
	}
}

// response is an answer of the backend's own to a request.
func response(q *http.Request, status int) *http.Response {
	rec := httptest.NewRecorder()
	rec.Header().Set("Content-Type", "application/json")
	rec.WriteHeader(status)
	_, _ = rec.WriteString(`{"detail":"broken"}`)
	out := rec.Result()
	out.Request = q
	return out
}

// must breaks the sequence if something fails that has to work.
func (w *lawWorld) must(err error) {
	if err != nil {
		w.breaks("an error: %v", err)
	}
}

// job runs a background job once and waits for all that it starts.
func (w *lawWorld) job(name string) error {
	err := w.car.Once(context.Background(), name, w.now())
	synctest.Wait()
	return err
}

// approved is what replays of approved writes may do at any time.
func (w *lawWorld) approved() (out permit) {
	out.approved = true
	for _, id := range slices.Sorted(maps.Keys(w.holds)) {
		if h := w.holds[id]; h.settled {
			out.words, out.targets = append(out.words, h.word), append(out.targets, h.target)
		}
	}
	return out
}
