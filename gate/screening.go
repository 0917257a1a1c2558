package gate

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/content"
	"github.com/memproxy/memproxy/gate/limits"
	"github.com/memproxy/memproxy/gate/verdict"
	"github.com/memproxy/memproxy/redaction"
)

// maxNamed bounds the findings in a refusal, and maxRecorded those in a record.
const (
	maxNamed    = 8
	maxRecorded = 64
)

// screen asks the screener for findings in the texts that the operation writes or puts in
// front of an agent. The policy decides on them. A write that a budget refuses is not
// screened.
func screen(ctx context.Context, r *evaluation) error {
	if err := refuseOverdrawn(ctx, r); err != nil || r.verdict.Worst.Stops() && r.enforced() {
		return err
	}
	asked := r.screening()
	asked.Operation.Items = content.Screened(r.op, attachedTargets(r.call, r.op))
	findings, err := r.rules.Screener.Screen(ctx, asked)
	if crowded, is := errors.AsType[*memproxy.Flaw](err); is {
		r.verdict.Malformed(crowded)
		return nil
	}
	r.findings, r.configured = splitConfiguration(r, asked.Operation.Items, findings)
	r.q.Findings = r.findings
	for _, f := range r.configured {
		why := memproxy.Reason{Code: memproxy.ScreenConfigured, Pointer: asked.Operation.Items[f.Item].Pointer, Detail: "screening reported findings in owner-configured or approved content"}
		if !slices.Contains(r.verdict.Notes, why) {
			r.verdict.Note(why)
		}
	}
	return err
}

// mayConfigure reports whether the caller may configure agents: by its roles, which come
// from the identity configuration and never from a payload. Anonymous callers have
// no such role.
func (a *Admission) mayConfigure() bool {
	p := &a.Principal
	return p.Trust != "" && p.Trust != memproxy.TrustAnonymous && p.Kind != memproxy.KindAnonymous &&
		(slices.Contains(p.Roles, memproxy.RoleOwner) || slices.Contains(p.Roles, memproxy.RoleAdmin))
}

// splitConfiguration separates the findings in an owner's configuration, in texts on the allow list,
// and in texts that a change leaves as a reviewer approved them, from all others. Such
// texts often look dangerous: a system prompt instructs, a tool's description contains
// markup, and instructions to an extractor name the secrets that it must not keep. The
// screening rules are made for planted texts, so in these texts their findings are
// recorded and reported but refuse nothing. They excuse nothing either: extracted
// memories are compared with the other findings only.
func splitConfiguration(r *evaluation, screened []memproxy.Item, findings []memproxy.Finding) (count, configured []memproxy.Finding) {
	owns := r.mayConfigure()
	configured, count = verdict.Split(findings, func(f memproxy.Finding) bool {
		if f.Item < 0 || f.Item >= len(screened) {
			return false
		}
		return f.Item < len(r.op.Items) && isConfiguration(r, &screened[f.Item], owns) || keepsApprovedText(r, &screened[f.Item])
	})
	return count, configured
}

// keepsApprovedText reports whether an item is the present text of a memory that is changed
// in another way, such as its metadata, and a reviewer approved this text. The decision is
// kept until the text changes, or is written to another field.
func keepsApprovedText(r *evaluation, it *memproxy.Item) bool {
	m := r.op.Current[it.Target]
	st := r.known.of(r.op.TargetKind, cmp.Or(m.ID, it.Target)).Status
	was := (&memproxy.Item{Field: m.Field, OtherFields: m.OtherFields}).Written()
	return r.op.Kind == memproxy.Correct && it.Text != "" && it.Text == m.Text && !slices.Contains(attachedTargets(r.call, r.op), it.Target) &&
		st.State == memproxy.StateValidated && st.Reviewed == memproxy.TextSHA256(it.Text) &&
		!slices.ContainsFunc(it.Written(), func(f string) bool { return !containsField(was, f) })
}

// isConfiguration reports whether findings in a text refuse nothing. Clients also send
// approved reminders among the messages of a run. There the approval applies to owners
// only, because end users write messages too.
func isConfiguration(r *evaluation, it *memproxy.Item, owns bool) bool {
	steers := it.Kind == memproxy.ItemSteering
	reminds := it.Kind == memproxy.ItemContent && r.op.Kind == memproxy.Run && owns
	return steers && owns && it.Configures || (steers || reminds) && r.rules.Approved[memproxy.TextSHA256(it.Text)]
}

func hasSystemMessages(r *evaluation) bool {
	return r.op != nil && slices.ContainsFunc(r.op.Attributions, isInstruction)
}

func isInstruction(at memproxy.Attribution) bool { return at.Kind == memproxy.AttributesInstruction }

// roleSystem is the role of messages that the model reads like the system prompt, and
// memberSystem is their content in policies and budgets.
const (
	roleSystem   = "system"
	memberSystem = "message.system"
)

// instruct asks the policy whether the caller may instruct the model by system messages,
// which act like a change of the system prompt. If it may not, they are screened and
// forwarded as user messages.
func instruct(ctx context.Context, r *evaluation) error {
	op := *r.op
	op.Steering, op.Items = true, nil
	for _, it := range r.op.Items {
		if it.Role == roleSystem {
			it.Member = memberSystem
			op.Items = append(op.Items, it)
		}
	}
	ruling, err := r.rules.Policy.Rule(ctx, r.asking(&op))
	if err != nil {
		return err
	}
	role, member := "user", ""
	if !ruling.Verdict.Stops() {
		role, member = roleSystem, memberSystem
	}
	for i := range r.op.Items {
		if it := &r.op.Items[i]; it.Role == roleSystem {
			it.Role, it.Member = role, cmp.Or(member, it.Member)
		}
	}
	for i := range r.op.Attributions {
		if at := &r.op.Attributions[i]; isInstruction(*at) && role != roleSystem {
			at.Removed = true
			r.verdict.Add(memproxy.Amend, memproxy.Reason{
				Code: memproxy.TrustAttribution, Rule: string(memproxy.PolicySteering), Pointer: at.Pointer,
				Detail: "this caller may not give system instructions; the message is sent with the role user",
			})
		}
	}
	return nil
}

// screening returns the operation for a screener: a copy, which rewording does not change, whose
// claimed source is limited to what the caller's tier may claim.
func (a *Admission) screening() memproxy.Screening {
	op := *a.op
	op.SourceClaim = a.Principal.Trust.Screened(op.SourceClaim)
	return memproxy.Screening{Principal: a.Principal, Session: a.namedSession(), Decision: a.Decision.ID, Operation: &op}
}

// explainFindings adds the findings behind a ruling of the policy to the reasons: rules
// and pointers, never the content.
func explainFindings(r *evaluation, reasons []memproxy.Reason) {
	if len(r.q.Findings) == 0 || !aboutScreening(reasons) {
		return
	}
	for _, at := range foundAt(r, limits.Worst(r.q.Findings, maxNamed)) {
		why := memproxy.Reason{Code: memproxy.ScreenFinding, Rule: at.Rule, Pointer: at.Pointer}
		if !slices.Contains(r.verdict.Notes, why) {
			r.verdict.Reasons = append(r.verdict.Reasons, why)
		}
	}
}

func aboutScreening(reasons []memproxy.Reason) bool {
	return slices.ContainsFunc(reasons, func(why memproxy.Reason) bool { return strings.HasPrefix(string(why.Code), "screen.") })
}

type reworded struct {
	op     *memproxy.Operation
	body   []byte
	texts  map[string]string // by pointer
	before []memproxy.HeldText
	// waits is set if a person has to approve the rewriting.
	waits bool
}

// toSend returns the payload to encode: the rewritten one, unless it waits for approval.
func (w *reworded) toSend(body []byte) []byte {
	if w != nil && !w.waits {
		return w.body
	}
	return body
}

// reword removes the dangerous parts of a write that is refused or held for its content
// alone (GOV-5): sentences first, then, if the rules allow, lines. The result is
// decoded, screened and ruled on like any write, and used only if it is admitted.
// Otherwise the first ruling remains. In governed fields a person has to approve the
// result. In shadow mode nothing is rewritten.
func reword(ctx context.Context, r *evaluation, ruling *memproxy.Ruling) error {
	writes := r.op.Kind == memproxy.Learn || r.op.Kind == memproxy.Correct
	if !writes || !r.call.Known || r.mode == recheck || !r.enforced() || r.g.opt.Holds == nil || !ruling.Verdict.Stops() || r.verdict.Worst.Stops() || !aboutContent(ruling) {
		return nil
	}
	for _, change := range textEdits[r.rules.Rewrite] {
		texts := withoutFindings(r, change, has(ruling.Reasons, memproxy.ScreenPattern))
		if len(texts) == 0 {
			continue
		}
		next, again, err := tryRewritten(ctx, r, texts)
		if err != nil {
			return err
		}
		if next != nil && !again.Verdict.Stops() {
			acceptRewording(r, next, ruling, again)
			return nil
		}
	}
	return nil
}

// textEdit removes findings from a text.
type textEdit func(text string, findings []memproxy.Finding) string

// textEdits are tried in this order until the rules admit one.
var textEdits = map[memproxy.Rewriting][]textEdit{
	memproxy.RewriteSoft: {innermost(redactSentences), redactSentences},
	memproxy.RewriteHard: {innermost(redactSentences), redactSentences, innermost(redaction.RemoveLines), redaction.RemoveLines},
}

// innermost ignores findings that contain another one, such as a window or the whole
// text that is dangerous because of the inner finding. Ruling on the result shows
// whether removing the inner one is enough.
func innermost(do textEdit) textEdit {
	return func(text string, findings []memproxy.Finding) string {
		return do(text, slices.DeleteFunc(slices.Clone(findings), func(wide memproxy.Finding) bool {
			return slices.ContainsFunc(findings, func(f memproxy.Finding) bool {
				return f.Start >= wide.Start && f.End <= wide.End && f.End-f.Start < wide.End-wide.Start
			})
		}))
	}
}

func redactSentences(text string, findings []memproxy.Finding) string {
	text, _ = redaction.Redact(text, redaction.WidenToSentences(text, findings))
	return text
}

// aboutContent reports whether only the dangerous content of texts led to a ruling.
// Credentials are excluded, because the text around one reveals too much.
func aboutContent(ruling *memproxy.Ruling) bool {
	led := ruling.Reasons
	if ruling.Led > 0 {
		led = led[:ruling.Led]
	}
	return len(led) > 0 && !slices.ContainsFunc(led, func(why memproxy.Reason) bool {
		return why.Code != memproxy.ScreenRisk && why.Code != memproxy.ScreenPattern
	})
}

// withoutFindings returns the texts of the items without their findings, by pointer; nil if
// that is not possible, or if nothing is left of a text. With patterns, findings
// without a score are removed too: the patterns that a governed field refuses.
func withoutFindings(r *evaluation, change textEdit, patterns bool) map[string]string {
	found := map[int][]memproxy.Finding{}
	for _, f := range r.findings {
		if f.Rule == string(memproxy.ScreenRisk) || f.Score == 0 && !patterns {
			continue
		}
		if f.Item < 0 || f.Item >= len(r.op.Items) {
			return nil // a memory that the write attaches is not changed
		}
		found[f.Item] = append(found[f.Item], f)
	}
	texts := map[string]string{}
	for i, findings := range found {
		it := &r.op.Items[i]
		if it.Kind != memproxy.ItemContent && it.Kind != memproxy.ItemMetadata || it.Moved {
			return nil
		}
		text := change(it.Text, findings)
		if other, twice := texts[it.Pointer]; !redaction.HasContent(text) || twice && other != text {
			return nil
		}
		texts[it.Pointer] = text
	}
	return texts
}

// tryRewritten returns the rewritten write, as the backend will read it, and the ruling
// on it. The write is nil if it cannot be rewritten, or is not decoded to these texts.
func tryRewritten(ctx context.Context, r *evaluation, texts map[string]string) (*reworded, memproxy.Ruling, error) {
	c := r.call
	body, err := c.Backend.Adapter.Reword(c.Route, c.Request, c.Body, texts)
	if err != nil {
		return nil, memproxy.Ruling{}, nil //nolint:nilerr // the write and the ruling stay as they are
	}
	read, err := c.Backend.Adapter.Decode(c.Route, c.Request, body)
	if bad := (*memproxy.Flaw)(nil); errors.As(err, &bad) {
		return nil, memproxy.Ruling{}, nil
	}
	if err != nil {
		return nil, memproxy.Ruling{}, err
	}
	arrived := map[string]bool{}
	for i := range read.Items {
		if text, changed := texts[read.Items[i].Pointer]; changed {
			if read.Items[i].Text != text {
				return nil, memproxy.Ruling{}, nil
			}
			arrived[read.Items[i].Pointer] = true
		}
	}
	if len(arrived) != len(texts) {
		return nil, memproxy.Ruling{}, nil
	}
	next := *r.op
	next.Items, next.Parsed = slices.Clone(r.op.Items), read.Parsed
	for i := range next.Items {
		if text, changed := texts[next.Items[i].Pointer]; changed {
			next.Items[i].Text = text
		}
	}
	asked := r.screening()
	asked.Operation.Items, asked.Operation.Parsed = content.Screened(&next, attachedTargets(c, &next)), next.Parsed
	findings, err := r.rules.Screener.Screen(ctx, asked)
	if err != nil {
		return nil, memproxy.Ruling{}, err
	}
	q := r.q
	q.Operation = &next
	q.Findings, _ = splitConfiguration(r, asked.Operation.Items, findings) // the items correspond one to one
	again, err := r.rules.Policy.Rule(ctx, q)
	return &reworded{op: &next, body: body, texts: texts}, again, err
}

// acceptRewording replaces the write by its rewritten form, or holds it if a person has to decide.
func acceptRewording(r *evaluation, next *reworded, ruling *memproxy.Ruling, again memproxy.Ruling) {
	next.before = heldTexts(r.Admission)
	r.reworded = next
	why := memproxy.Reason{Code: memproxy.ScreenRewritten, Pointer: slices.Min(slices.Collect(maps.Keys(next.texts)))}
	next.waits = slices.ContainsFunc(r.op.Items, inGovernedField)
	if next.waits {
		why.Detail = "the dangerous parts can be removed, but in this field a reviewer must approve the result"
		ruling.Verdict, ruling.Led = memproxy.Hold, 0
		ruling.Reasons = append([]memproxy.Reason{why}, ruling.Reasons...)
		return
	}
	why.Detail = "the dangerous parts were removed before the write; reviewers can see the original"
	first := ruling.Reasons
	*ruling = again
	ruling.Verdict = max(ruling.Verdict, memproxy.Amend)
	ruling.Reasons = append([]memproxy.Reason{why}, slices.Concat(first, again.Reasons)...)
	ruling.Marks = append(ruling.Marks, why)
	ruling.Led = 1
	r.op, r.q.Operation = next.op, next.op
	r.Rewritten = slices.Sorted(maps.Keys(next.texts))
}

// inGovernedField reports whether an item is written to a governed field, which has
// its own writers and size limit.
func inGovernedField(it memproxy.Item) bool {
	return slices.ContainsFunc(it.Written(), func(f string) bool {
		return slices.Contains(memproxy.GovernedFields(), memproxy.Key(f))
	})
}

func isReworded(r *evaluation) bool { return r.reworded != nil && !r.Decision.Verdict.Stops() }

// storeEvidence stores the original of a rewritten write for reviewers. If that
// fails the write is refused.
func storeEvidence(ctx context.Context, r *evaluation) error {
	h, content := heldWriteOf(r.Admission, r.reworded)
	h.State = memproxy.HoldRewritten
	return storeHold(ctx, r.g, h, content)
}
