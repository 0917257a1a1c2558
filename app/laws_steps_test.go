package app_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// lawStep is a step of a sequence: its row in the table, and the seed of its arguments.
type lawStep struct {
	kind int
	seed uint64
}

// lawStepKind is a kind of step and how often it is drawn.
type lawStepKind struct {
	name   string
	weight int
	do     func(*lawWorld)
}

var mem0Steps = []lawStepKind{
	{"add", 6, (*lawWorld).add},
	{"update", 4, (*lawWorld).update},
	{"change metadata", 2, (*lawWorld).changeMetadata},
	{"delete", 2, (*lawWorld).delete},
	{"clear a user", 2, (*lawWorld).clear},
	{"send the last write again", 2, (*lawWorld).retry},
	{"give feedback", 2, (*lawWorld).giveFeedback},
	{"settle a held write", 5, (*lawWorld).settleHold},
	{"roll back", 2, (*lawWorld).rollBack},
	{"promote", 2, (*lawWorld).promote},
	{"run a job", 4, (*lawWorld).runJob},
	{"let time pass", 2, (*lawWorld).passTime},
	{"restart", 2, (*lawWorld).restart},
	{"narrow a caller", 1, (*lawWorld).narrow},
	{"provoke a lock", 1, (*lawWorld).provokeLock},
	{"fault in a write", 3, (*lawWorld).failWrite},
	{"crash in a write", 2, (*lawWorld).crash},
	{"read", 4, (*lawWorld).read},
}

func (w *lawWorld) play(s lawStep) {
	w.note("%s", w.kind.steps[s.kind].name)
	w.away = max(0, w.away-1)
	w.kind.steps[s.kind].do(w)
	w.fault = noFault
}

func oneOf[T any](w *lawWorld, list ...T) T { return list[w.dice.IntN(len(list))] }

// someone is a caller, and a user whom it asks for: one of ten times another tenant's.
func (w *lawWorld) someone() (*lawCaller, string) {
	p := &w.callers[w.dice.IntN(len(w.callers))]
	tenant := p.tenant
	if w.dice.IntN(10) == 0 {
		tenant = map[string]string{"acme": "globex", "globex": "acme"}[tenant]
	}
	return p, oneOf(w, lawUsers[tenant]...)
}

// some is a memory of either tenant, which may be deleted; nil: there is none yet.
func (w *lawWorld) some() *lawMemory {
	if len(w.ids) == 0 {
		return nil
	}
	return w.memories[oneOf(w, w.ids...)]
}

func (w *lawWorld) someKind() textKind {
	return oneOf(w, kindHarmless, kindHarmless, kindHarmless, kindHarmless, kindHarmless, kindSuspicious, kindSuspicious, kindPoison)
}

// someMetadata are metadata of a write, with the source and the confidence that it claims.
func (w *lawWorld) someMetadata() (text, source string) {
	source = oneOf(w, "", "", "", "web", "chat")
	text = `"metadata":{"k":1` + oneOf(w, "", `,"confidence":0.95`, `,"confidence":0.2`)
	if source != "" {
		text += `,"source":"` + source + `"`
	}
	return text + "}", source
}

// writes sends a caller's write and checks what became of it.
func (w *lawWorld) writes(p *lawCaller, method, path, body string, may permit) got {
	again := may
	w.last = func() { w.writes(p, method, path, body, again) }
	before, fault, unsent := w.kind.stored(w), w.fault, w.away > 0 || w.fault == refusedFault
	a := w.ask(p, method, path, body)
	may.by, may.answer = p, a
	verdict, id := lawDecision(a)
	w.note("%s: %s %s %s -> %d %s %s %s", p.id, method, path, body, a.status, verdict, id, fault)
	switch {
	case verdict == "deny", verdict == "hold":
		may.nothing = true
	case unsent, fault == noFault && slices.Contains([]int{400, 429, 503}, a.status), fault == noFault && a.status == 404 && verdict == "":
		may.nothing = true
	}
	if len(may.words) > 0 && (a.status >= 500 && !unsent || strings.Contains(body, `"infer":true`)) { // a restart ends the following of an extraction
		w.unknown[p.key]++
	}
	if verdict == "deny" {
		w.rejected[p.key]++
		if a.status/100 == 2 {
			w.breaks("refused, and answered %d", a.status)
		}
	}
	if verdict == "hold" && w.holds[id] == nil {
		h := &lawHold{id: id, by: p, user: may.user, source: may.source}
		if len(may.words) == 1 {
			h.word = may.words[0]
		}
		if len(may.targets) == 1 {
			h.target = may.targets[0]
		}
		w.holds[id], w.holdIDs = h, append(w.holdIDs, id)
	}
	if m := w.memories[strings.Join(may.targets, "")]; m != nil && m.tenant != p.tenant && a.status != 404 && w.away == 0 {
		w.breaks("another tenant's memory: %d %s", a.status, a.body)
	}
	w.obey(before, may)
	return a
}

func (w *lawWorld) add() { p, user := w.someone(); w.kind.adds(w, p, user, w.someKind()) }

func (w *lawWorld) update() {
	p, _ := w.someone()
	if m := w.some(); m != nil {
		word, text := w.says(p, m.user, w.someKind())
		may := permit{words: []string{word}, targets: []string{m.id}, user: m.user}
		switch w.dice.IntN(3) {
		case 0:
			w.writes(p, "PUT", "/memories/"+m.id, fmt.Sprintf(`{"text":%q}`, text), may)
		case 1:
			var metadata string
			metadata, may.source = w.someMetadata()
			w.writes(p, "PUT", "/v1/memories/"+m.id+"/", fmt.Sprintf(`{"text":%q,%s}`, text, metadata), may)
		case 2:
			w.writes(p, "PUT", "/v1/batch/", fmt.Sprintf(`{"memories":[{"memory_id":%q,"text":%q}]}`, m.id, text), may)
		}
	}
}

func (w *lawWorld) changeMetadata() {
	p, _ := w.someone()
	if m := w.some(); m != nil {
		metadata, source := w.someMetadata()
		w.writes(p, "PUT", "/v1/memories/"+m.id+"/", "{"+metadata+"}", permit{words: []string{m.word}, targets: []string{m.id}, metadataOnly: true, source: source, user: m.user})
	}
}

func (w *lawWorld) delete() {
	p, _ := w.someone()
	if m := w.some(); m != nil {
		may := permit{targets: []string{m.id}, user: m.user}
		switch w.dice.IntN(3) {
		case 0:
			w.writes(p, "DELETE", "/memories/"+m.id, "", may)
		case 1:
			w.writes(p, "DELETE", "/v1/memories/"+m.id+"/", "", may)
		case 2:
			w.writes(p, "DELETE", "/v1/batch/", fmt.Sprintf(`{"memories":[{"memory_id":%q}]}`, m.id), may)
		}
	}
}

// clear deletes all of a user's memories: two of three times by a person who may.
func (w *lawWorld) clear() {
	p, user := w.someone()
	if w.dice.IntN(3) != 0 {
		p = w.caller(map[string]string{"acme": "human", "globex": "boss"}[p.tenant])
	}
	may := permit{user: user}
	for _, id := range w.ids {
		if m := w.memories[id]; !m.gone && m.user == user && m.tenant == p.tenant {
			may.targets = append(may.targets, id)
		}
	}
	w.writes(p, "DELETE", "/memories?user_id="+user, "", may)
}

func (w *lawWorld) retry() {
	if w.last != nil {
		w.last()
	}
}

func (w *lawWorld) giveFeedback() {
	p, _ := w.someone()
	if m := w.some(); m != nil {
		w.writes(p, "POST", "/v1/feedback/", fmt.Sprintf(`{"memory_id":%q,"feedback":"NEGATIVE"}`, m.id), permit{nothing: true, targets: []string{m.id}})
	}
}

// settleHold has a reviewer approve or reject a held write: only of the reviewer's
// tenants, and nobody its own.
func (w *lawWorld) settleHold() {
	if len(w.holdIDs) == 0 {
		return
	}
	h, reviewer, approves := w.holds[oneOf(w, w.holdIDs...)], w.dice.IntN(len(lawReviewers)), w.dice.IntN(3) != 0
	r := lawReviewers[reviewer]
	before, fault := w.kind.stored(w), w.fault
	a := w.review(reviewer, "/v1/holds/"+h.id+"/"+map[bool]string{true: "approve", false: "reject"}[approves], `{"reason":"so"}`)
	_ = w.job("replays") // which an outage may fail
	w.note("%s settles %+v, approves: %v -> %d %s", r.id, *h, approves, a.status, a.body)
	done := a.status/100 == 2
	if done && (!slices.Contains(r.tenants, h.by.tenant) || r.id == h.by.id) {
		w.breaks("a reviewer settles what is not its own to settle: %s, by %s", r.id, h.by.id)
	}
	may := w.approved() // what was interrupted earlier is sent, too
	may.by, may.answer, may.source, may.user, may.nothing = h.by, a, h.source, h.user, len(may.words) == 0
	if done && !approves {
		h.settled = true
	}
	if done && approves && !h.settled {
		if !slices.Contains(h.approvers, r.id) {
			h.approvers = append(h.approvers, r.id)
		}
		if len(h.approvers) >= max(1, w.settings.approvals) {
			h.settled, may.nothing = true, false
			if fault != noFault {
				w.unknown[h.by.key]++
			}
			may.words, may.targets = append(may.words, h.word), append(may.targets, h.target)
		}
	}
	w.obey(before, may)
}

func (w *lawWorld) rollBack() {
	if m := w.some(); m != nil {
		before, reviewer, version := w.kind.stored(w), w.dice.IntN(len(lawReviewers)), 1+w.dice.IntN(4)
		a := w.review(reviewer, "/v1/memories/mem0/"+m.id+"/rollback", fmt.Sprintf(`{"version":%d,"reason":"so"}`, version))
		w.note("%s rolls %s back to %d -> %d %s", lawReviewers[reviewer].id, m.id, version, a.status, a.body)
		mine := slices.Contains(lawReviewers[reviewer].tenants, m.tenant)
		if a.status/100 == 2 && (!mine || m.gone) {
			w.breaks("a reviewer rolls back %s of %s, deleted: %v", m.id, m.tenant, m.gone)
		}
		w.obey(before, permit{by: w.caller("human"), targets: []string{m.id}, words: m.words, rollback: true, nothing: !mine, answer: a, user: m.user})
	}
}

func (w *lawWorld) promote() {
	if m := w.some(); m != nil {
		before, reviewer := w.kind.stored(w), w.dice.IntN(len(lawReviewers))
		a := w.review(reviewer, "/v1/memories/mem0/"+m.id+"/promote", `{"reason":"so"}`)
		w.note("%s promotes %s -> %d %s", lawReviewers[reviewer].id, m.id, a.status, a.body)
		if a.status/100 == 2 && (!slices.Contains(lawReviewers[reviewer].tenants, m.tenant) || m.gone && !m.goneUnseen) {
			w.breaks("a reviewer promotes %s of %s, deleted: %v", m.id, m.tenant, m.gone)
		}
		w.obey(before, permit{nothing: true, answer: a})
	}
}

func (w *lawWorld) runJob() {
	name := oneOf(w, "upkeep", "retention", "reconsider", "replays", "ageing", "anchors", "outcomes")
	w.note("%s", name)
	before := w.kind.stored(w)
	if err := w.job(name); w.away == 0 && !(name == "replays" && w.faulty) {
		w.must(err)
	}
	may := w.approved()
	may.upkeep = name == "retention" || name == "upkeep"
	w.obey(before, may)
}

func (w *lawWorld) passTime() {
	d := oneOf(w, time.Minute, 11*time.Minute, time.Hour, 24*time.Hour, 6*24*time.Hour, 31*24*time.Hour, 61*24*time.Hour)
	w.note("%v", d)
	w.passed += d
}

func (w *lawWorld) restart() {
	before := w.kind.stored(w)
	w.stop()
	w.run()
	w.obey(before, w.approved())
}

// narrow edits the configuration: a caller may name one user only from now on.
func (w *lawWorld) narrow() {
	p := w.caller(oneOf(w, "dev", "peer", "better", "low", "rival"))
	p.users = []string{oneOf(w, lawUsers[p.tenant]...)}
	w.note("%s to %s", p.id, p.users)
	before := w.kind.stored(w)
	w.must(w.car.Take(w.t.Context(), w.parsed()))
	w.obey(before, w.approved())
}

// provokeLock has a caller's writes refused until they are locked.
func (w *lawWorld) provokeLock() {
	p, user := w.caller(oneOf(w, "dev", "rival")), ""
	if user = lawUsers[p.tenant][0]; p.users != nil {
		user = p.users[0]
	}
	for range w.settings.lock {
		w.kind.adds(w, p, user, kindPoison)
	}
	if w.settings.lock > 0 {
		if a := w.kind.adds(w, p, user, kindHarmless); a.status/100 == 2 {
			w.breaks("after %d rejections the writes of %s are not locked", w.settings.lock, p.id)
		}
	}
}

// failWrite plays a write or an approval in which something goes wrong.
func (w *lawWorld) failWrite() {
	w.fault, w.faulty = oneOf(w, refusedFault, brokenFault, badFault, lostFault, awayFault, awayFault), true
	w.note("%s", w.fault)
	oneOf(w, append(w.kind.changes, (*lawWorld).settleHold)...)(w)
}

// crash kills the process within a write or an approval.
func (w *lawWorld) crash() {
	w.fault, w.faulty, w.kept = oneOf(w, crashBefore, crashAfter), true, false
	w.note("%s", w.fault)
	oneOf(w, append(w.kind.changes, (*lawWorld).settleHold)...)(w)
	if !w.kept {
		return // nothing was sent
	}
	before := w.kind.stored(w)
	w.stop()
	w.run()
	w.obey(before, w.approved())
}

// read reads everything that a caller can ask for.
func (w *lawWorld) read() {
	p, _ := w.someone()
	w.kind.reads(w, p, oneOf(w, lawUsers[p.tenant]...))
}
