package memproxy

import (
	"fmt"
	"slices"
	"strings"
)

// Verdict is what is done with an operation. Verdicts are ordered: a stronger
// one wins over a weaker one.
type Verdict uint8

// The verdicts, weakest first.
const (
	Allow Verdict = iota // forwarded unchanged
	Amend                // forwarded with changes
	Hold                 // stored by the proxy and not forwarded
	Deny                 // refused
)

var verdictNames = [...]string{"allow", "amend", "hold", "deny"}

// String returns the verdict's fixed name.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// MarshalText writes the verdict's name.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText reads a verdict's name.
func (v *Verdict) UnmarshalText(b []byte) error {
	i := slices.Index(verdictNames[:], string(b))
	if i < 0 {
		return fmt.Errorf("memproxy: unknown verdict %q", b)
	}
	*v = Verdict(i)
	return nil
}

// Stops reports whether the operation is not forwarded to the backend.
func (v Verdict) Stops() bool { return v >= Hold }

// Reason is one reason for a verdict other than Allow. Code is from the closed vocabulary
// in reasons.go.
type Reason struct {
	Code ReasonCode `json:"code"`
	// Rule is the policy or screening rule that matched, or "".
	Rule string `json:"rule,omitempty"`
	// Detail is one sentence for a person. It never quotes content.
	Detail string `json:"detail,omitempty"`
	// Pointer is the JSON pointer of the position in the payload, or "".
	Pointer string `json:"pointer,omitempty"`
}

// NotReached is the detail of an UpstreamUnavailable for a request that was certainly not
// sent. The same request may be sent again.
const NotReached = "the request did not reach the backend"

// Codes returns the distinct codes of reasons, in their order.
func Codes(reasons []Reason) []string {
	codes := make([]string, 0, len(reasons))
	for i := range reasons {
		if code := string(reasons[i].Code); !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
	}
	return codes
}

// Ruling is the policy's answer to a question.
type Ruling struct {
	Verdict Verdict
	Reasons []Reason
	// Led is the number of Reasons, from the first, that led to the verdict. The others are the
	// reasons of weaker verdicts. Zero means all.
	Led int
	// Shadow are the reasons of policies in shadow mode, which are not enforced. They
	// would have led to ShadowVerdict.
	Shadow        []Reason
	ShadowVerdict Verdict
	// Marks are the reasons for which the written memories are marked if the write is made.
	// They refuse nothing.
	Marks []Reason
}

// Decision is the outcome of all controls of the gate for one request.
type Decision struct {
	// ID links the response header, log line, span, metric exemplar and audit record.
	ID string
	// Verdict is what was done, ShadowVerdict what full enforcement would have done. They
	// differ only in shadow mode.
	Verdict       Verdict
	ShadowVerdict Verdict
	// Reasons led to the verdict or to a weaker one, the decisive ones first; each group
	// is sorted by code, rule and pointer. The caller sees them in a refusal.
	Reasons []Reason
	// Notes are for the record only. They may contain what the caller must not learn,
	// such as whether another tenant has an object of that name. Nothing that a caller
	// receives may depend on them.
	Notes  []Reason
	Policy string // version of the pinned rules
	// Status is the HTTP status of the refusal: 400, 401, 403, 404, 413, 415, 422, 429 or
	// 503. Zero if nothing is refused.
	Status int
	// Allowance is set if a write budget was charged or refused.
	Allowance *Allowance
}

// Refuse turns a decision into a refusal, in shadow mode as well.
func (d *Decision) Refuse(status int, reasons ...Reason) {
	d.Verdict, d.ShadowVerdict, d.Status, d.Reasons = Deny, Deny, status, reasons
}

// Recorded returns the reasons and the notes, for the record.
func (d Decision) Recorded() []Reason { return slices.Concat(d.Reasons, d.Notes) }

// Shown returns the decision without its notes, as a refusal may show it.
func (d Decision) Shown() Decision {
	d.Notes = nil
	return d
}

// Finding is one thing that screening found in an item.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity string   `json:"severity"` // low, medium, high, critical
	Item     int      `json:"item"`     // index in Operation.Items
	Start    int      `json:"start"`    // byte span in the item's original text
	End      int      `json:"end"`
	Score    PerMille `json:"score"`
}

// IsSecret reports whether a finding is a credential. It has no score: the policy
// decides whether it is stored.
func (f Finding) IsSecret() bool { return strings.HasPrefix(f.Rule, "secret.") }

// Dangerous returns the findings with a position for which a text is flagged. It leaves
// out the total over the text, which has none.
func Dangerous(findings []Finding) (spans []Finding) {
	for _, f := range findings {
		if f.Score > 0 && f.Rule != string(ScreenRisk) {
			spans = append(spans, f)
		}
	}
	return spans
}

// Question is the input of a policy.
type Question struct {
	Principal Principal
	Operation *Operation
	// AttachedItems is existing content that the operation places in an agent's context
	// without repeating it, such as an attached block. The rules of fields and sizes apply
	// to it as to written content.
	AttachedItems []Item
	Findings      []Finding
	// AuthorTrust is the trust, per mille, of the most trusted other author or corrector
	// of the targets; zero if there is none or none is known.
	AuthorTrust PerMille
	// Others is set if another principal is the original author of a target.
	// AuthorAttestation is the best attestation of a target's source; "" if unknown.
	Others            bool
	AuthorAttestation Attestation
	// Attestation is how well the source of the written content is known. Track is the
	// factor of the principal's track record.
	Attestation Attestation
	Track       PerMille
	// Confidence is the effective confidence of the write. Claimed is the one that the
	// caller asked for, or Confidence if it asked for none.
	Confidence, Claimed PerMille
	// Ceiling is the highest confidence of the principal's tier.
	Ceiling PerMille
	// Profile is "development" or "production".
	Profile string
	// Governance is the rules of layers and keys.
	Governance Governance
	// Recorded are the facts of a question that is asked again, of whose operation only the
	// record is left; else nil.
	Recorded *Facts
}

// Content returns the items of the operation and those in AttachedItems.
func (q *Question) Content() []Item {
	if len(q.AttachedItems) == 0 {
		return q.Operation.Items
	}
	return slices.Concat(q.Operation.Items, q.AttachedItems)
}

// Flaw is why a request, or the answer to it, is not processed: a payload that cannot or must
// not be read, a protocol or a limit that it violates, or a backend that did not answer.
type Flaw struct {
	Code    ReasonCode
	Status  int    // that it is answered with
	Detail  string // for a person; never quotes content
	Pointer string
}

// Error makes Flaw an error.
func (m *Flaw) Error() string {
	if m.Pointer == "" {
		return fmt.Sprintf("%s: %s", m.Code, m.Detail)
	}
	return fmt.Sprintf("%s at %s: %s", m.Code, m.Pointer, m.Detail)
}

// Screening is the input of a screener: an operation and its principal.
type Screening struct {
	Principal Principal
	// Session is the caller's session, from a header or the run; "" if none.
	Session string
	// Decision is the id of the decision on the operation.
	Decision  string
	Operation *Operation
	// FromBackend is set for a backend's answer, whose content was written earlier, possibly
	// by another principal.
	FromBackend bool
}
