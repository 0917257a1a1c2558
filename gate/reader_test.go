package gate_test

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// reading is a read of one memory, of the caller's tenant unless a row says otherwise.
type reading struct {
	*rig
	call   *gate.Call
	ledger *fakeLedger
	memory *memproxy.Memory
	late   func() // between the request and its answer
}

func (r *reading) row(change func(*memproxy.Ownership)) {
	row := owned("m", "acme", "dev")
	row.Confidence, row.SHA256 = 700, memproxy.TextSHA256("likes tea")
	change(&row)
	r.ledger.rows["m"] = row
}

func (r *reading) ours() { r.row(func(*memproxy.Ownership) {}) }

// isOf ties the memory to the write "d-other" by a stamp, and gives both a status.
func (r *reading) isOf(write, own memproxy.Status) {
	r.ours()
	stamp := fakeSigner{}.Sign(memproxy.Stamp{ID: "d-other", Tenant: "acme"})
	r.memory.Stamp = &stamp
	write.Tenant, write.Decision = "acme", "d-other"
	if r.ledger.statuses["d-other"] = write; own.State != "" {
		own.Tenant, own.Decision = "acme", "d-own"
		r.ledger.statuses["m"] = own
	}
}

// rated gives the memory a status and leaves its owner alone.
func (r *reading) rated(s memproxy.MemoryState) { r.ledger.statuses["m"] = memproxy.Status{State: s} }

// foreign makes the memory another tenant's.
func (r *reading) foreign() { r.row(func(row *memproxy.Ownership) { row.Scope.Tenant = "globex" }) }

// Proves EDGE-1, EDGE-3, EDGE-4, EDGE-13, EDGE-15, CARD-1, CARD-3, CARD-4, DOL-1, DOL-2, DOL-3, DOL-4, DOL-5, MFW-7,
// MFW-8: what a reader is shown of a memory, by what the ledger, its stamp and screening say of
// it: as an element of a list, as a member, and as the whole answer, of a read and of a write.
func TestWhatAReaderIsShown(t *testing.T) {
	status := func(s memproxy.MemoryState) memproxy.Status { return memproxy.Status{State: s} }
	person := func(age time.Duration) memproxy.Status {
		return memproxy.Status{State: memproxy.StateValidated, Attestation: memproxy.HumanConfirmed, Reviewed: "a text", Changed: noon.Add(-age)}
	}
	gone := func(change func(*memproxy.Memory)) func(*reading) {
		return func(r *reading) {
			r.row(func(row *memproxy.Ownership) { row.Deleted = true })
			r.memory.Text, r.memory.Event = "", "DELETE"
			change(r.memory)
		}
	}
	// asked is a read of the memory by an agent that may name ann alone, and whose the answer says it is.
	asked := func(user string) func(*reading) {
		return func(r *reading) {
			r.ours()
			r.fake.op.Targets, r.who.Users, r.memory.Scope.User = []string{"m"}, only("ann"), user
			r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Scope: memproxy.Scope{User: "ann"}}}
		}
	}
	// itself is a read of the memory, whose answer is what says whose it is.
	itself := func(change func(*reading)) func(*reading) {
		return func(r *reading) {
			change(r)
			r.fake.op.Targets, r.memory.Pointer = []string{"m"}, ""
			r.call.Request = memproxy.Request{Method: "GET", EscapedPath: "/m"}
		}
	}
	// writes is the answer to a write that changed the memory.
	writes := func(before string) func(*reading) {
		return func(r *reading) {
			r.ours()
			r.fake.op, r.call.Route.Kind = learn("likes tea"), memproxy.Learn
			r.memory.Event, r.memory.Before = "UPDATE", before
		}
	}
	least := func(change func(*reading)) func(*reading) {
		return func(r *reading) { r.call.ReadOptions.MinTrust = 500; change(r) }
	}
	stamped := func(signature string) func(*reading) {
		return func(r *reading) {
			r.memory.Stamp = &memproxy.Stamp{ID: "d9", Tenant: "acme", Confidence: 900, Signature: signature}
		}
	}
	// confirmed is an attack by its words that a person confirmed.
	confirmed := func(change func(*reading, *memproxy.Status)) func(*reading) {
		return func(r *reading) {
			r.memory.Text = "evil evil"
			r.row(func(row *memproxy.Ownership) { row.SHA256 = memproxy.TextSHA256("evil evil") })
			st := memproxy.Status{State: memproxy.StateValidated, Attestation: memproxy.HumanConfirmed}
			change(r, &st)
			r.ledger.statuses["m"] = st
		}
	}
	untrusted := func(change func(*reading)) func(*reading) {
		return func(r *reading) { r.rules.WithholdUntrusted = true; change(r) }
	}
	strict := func(change func(*reading)) func(*reading) {
		return func(r *reading) { r.rules.Changed = gate.ChangedWithhold; change(r) }
	}
	owned := func(s memproxy.MemoryState) func(*reading) { return func(r *reading) { r.ours(); r.rated(s) } }
	// away is a ledger that fails after the request was admitted; the memory is everybody's.
	away := func(change func(*reading)) func(*reading) {
		return func(r *reading) { change(r); r.memory.BuiltIn, r.late = true, func() { r.ledger.err = errBroken } }
	}
	at := func(pointer string, change func(*reading)) func(*reading) {
		return func(r *reading) { change(r); r.memory.Pointer = pointer }
	}
	placeless := func(change func(*reading)) func(*reading) {
		return func(r *reading) { change(r); r.memory.TextAt = "" }
	}
	// wrote is the answer to a write of "likes tea" that names a memory with another text.
	wrote := func(change func(*reading)) func(*reading) {
		return func(r *reading) { writes("")(r); r.memory.Event, r.memory.Text = "NONE", "likes rum"; change(r) }
	}
	// changes is the answer to a change of another memory.
	changes := func(change func(*reading)) func(*reading) {
		return func(r *reading) {
			r.fake.op, r.call.Route.Kind = correct("likes tea", "x"), memproxy.Correct
			r.fake.located = map[string]memproxy.Memory{"x": {ID: "x", Text: "likes rum"}}
			change(r)
		}
	}
	// summary is made of ann's memories while one of a user's is quarantined.
	summary := func(user string) func(*reading) {
		return func(r *reading) {
			r.ours()
			r.memory.Compiled, r.fake.op.Claims = true, []memproxy.Claim{pinned(memproxy.DimUser, "ann")}
			bad := r.ledger.rows["m"]
			bad.ID, bad.Scope.User = "bad", user
			key := memproxy.MemoryKey{Backend: "mem", Kind: memproxy.TargetMemory, ID: "bad"}
			r.ledger.rows["bad"], r.ledger.statuses["bad"] = bad, memproxy.Status{MemoryKey: key, State: memproxy.StateQuarantined}
		}
	}
	// within is a memory of the caller's agent in a run of an agent.
	within := func(agent string) func(*reading) {
		return func(r *reading) {
			r.who.ActsAs, r.memory.Scope.Agent, r.fetch.status = only("dev"), "dev", 200
			r.memory.Parents = []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "run-1"}}
			r.fake.located = map[string]memproxy.Memory{"run-1": {ID: "run-1", Scope: memproxy.Scope{Agent: agent}}}
		}
	}
	quarantined := func(r *reading) { r.rated(memproxy.StateQuarantined) }
	const show, leave, part, blank = "shown", "left out", "in part", "without its text"
	refused := func(code memproxy.ReasonCode) string { return "refused: " + string(code) }
	for name, tc := range map[string]struct {
		set  func(*reading)
		want string
	}{
		"of nobody":    {func(*reading) {}, show},
		"the caller's": {(*reading).ours, show},

		"deleted":                                 {func(r *reading) { r.row(func(row *memproxy.Ownership) { row.Deleted = true }) }, leave},
		"an event says that it was deleted":       {gone(func(*memproxy.Memory) {}), show},
		"an event with a deleted text":            {gone(func(m *memproxy.Memory) { m.Text = "likes tea" }), leave},
		"an event with an earlier deleted text":   {gone(func(m *memproxy.Memory) { m.Before = "likes tea" }), leave},
		"an event with a text next to it":         {gone(func(m *memproxy.Memory) { m.OtherTexts = []string{"likes tea"} }), leave},
		"an event with the metadata of a memory":  {gone(func(m *memproxy.Memory) { m.Metadata = []byte(`{"a":1}`) }), leave},
		"deleted, and an event says it was added": {gone(func(m *memproxy.Memory) { m.Event, m.Text = "ADD", "likes tea" }), leave},
		"deleted, and nothing is shown of it":     {gone(func(m *memproxy.Memory) { m.Event = "" }), leave},
		"deleted, in the answer to a write":       {func(r *reading) { writes("")(r); r.row(func(row *memproxy.Ownership) { row.Deleted = true }) }, show},
		"unknown, and the backend lacks it": {func(r *reading) {
			r.rules.OneTenant, r.fake.op.Targets = true, []string{"m"}
			r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Missing: true}}
		}, leave},
		"deleted, the whole answer":               {at("", gone(func(m *memproxy.Memory) { m.Event = "" })), refused(memproxy.OwnerForeign)},
		"its agent's, within a run":               {within("dev"), show},
		"its agent's, within another agent's run": {within("other"), leave},
		"its agent's, in the run of one it made": {func(r *reading) {
			within("made")(r)
			r.ledger.rows["agent:made"] = memproxy.Ownership{Kind: memproxy.TargetEntity, ID: "agent:made", Actor: "agent:dev", Scope: memproxy.Scope{Tenant: "acme", Agent: "made"}}
		}, show},
		"missing": {func(r *reading) { r.foreign(); r.memory.Text, r.memory.Missing = "", true }, show},

		"asked for, and another user's in the answer": {asked("bob"), leave},
		"asked for, and its own user's in the answer": {asked("ann"), show},
		"next to what was asked for, another user's":  {func(r *reading) { asked("bob")(r); r.memory.ID = "m2" }, leave},
		"next to what was asked for, its own user's":  {func(r *reading) { asked("ann")(r); r.memory.ID = "m2" }, show},

		"asked for itself, and nobody knows whose": {itself(func(r *reading) { r.rules.OneTenant, r.rules.Unattributed = false, access.Hidden }), refused(memproxy.OwnerForeign)},
		"asked for itself, and another agent's":    {itself(func(r *reading) { r.who.ActsAs, r.memory.Scope.Agent = only("dev"), "ceo" }), refused(memproxy.OwnerForeign)},
		"asked for itself, and its agent's":        {itself(func(r *reading) { r.who.ActsAs, r.memory.Scope.Agent = only("dev"), "dev" }), show},
		"another tenant's":                         {(*reading).foreign, leave},
		"another tenant's, a member":               {at("/memory", (*reading).foreign), leave},
		"another tenant's, the whole answer":       {at("", (*reading).foreign), refused(memproxy.OwnerForeign)},
		"a write's answer with another tenant's":   {changes((*reading).foreign), leave},
		"a write's answer, another's as a member":  {at("/memory", changes((*reading).foreign)), refused(memproxy.OwnerUnknown)},
		"a write's answer that is all another's":   {at("", changes((*reading).foreign)), refused(memproxy.OwnerUnknown)},
		"the target of a write, another's by then": {func(r *reading) {
			r.ours()
			r.fake.op, r.call.Route.Kind, r.late = correct("likes tea", "m"), memproxy.Correct, r.foreign
			r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Text: "likes rum"}}
		}, show},
		"a write's answer that names another tenant's user": {func(r *reading) {
			r.fake.op, r.call.Route.Kind, r.rules.OneTenant = learn("likes tea"), memproxy.Learn, false
			r.ledger.rows["user:bob"] = memproxy.Ownership{Kind: memproxy.TargetEntity, ID: "user:bob", Scope: memproxy.Scope{Tenant: "globex"}}
			r.memory.Event, r.memory.Scope.User = "ADD", "bob"
		}, leave},

		"enough confidence":                            {least((*reading).ours), show},
		"too little confidence":                        {least(func(r *reading) { r.row(func(row *memproxy.Ownership) { row.Confidence = 499 }) }), leave},
		"no known confidence":                          {least(func(*reading) {}), leave},
		"enough confidence for another text":           {least(func(r *reading) { r.ours(); r.memory.Text = "likes rum" }), leave},
		"a stamp says enough confidence":               {least(stamped("signed for acme")), show},
		"a forged stamp says enough":                   {least(stamped("mine")), leave},
		"a forged stamp says enough, and nobody looks": {least(func(r *reading) { stamped("mine")(r); r.rules.Changed = gate.ChangedIgnore }), leave},
		"enough confidence, and the stamp was copied": {least(func(r *reading) {
			stamped("signed for acme")(r)
			r.ledger.statuses["m"] = memproxy.Status{State: memproxy.StateUntrusted, Unverified: memproxy.IntegrityForged}
		}), leave},
		"too little confidence, the whole answer": {at("", least(func(*reading) {})), refused(memproxy.TrustBelow)},
		"made of what may lack confidence":        {least(func(r *reading) { r.ours(); r.memory.Compiled = true }), leave},
		"a message has no confidence":             {least(func(r *reading) { r.memory.Layer = memproxy.Episodic }), show},
		"what holds memories has no own":          {least(func(r *reading) { r.memory.IsContainer = true }), show},
		"made of what is shown":                   {func(r *reading) { r.ours(); r.memory.Compiled = true }, show},
		"made of what may be quarantined": {func(r *reading) {
			r.memory.Compiled, r.ledger.statuses["bad"] = true, status(memproxy.StateQuarantined)
		}, leave},
		"made of ann's, and one of hers is quarantined": {summary("ann"), leave},
		"made of ann's, and one of bob's is":            {summary("bob"), show},
		"changed, and it is reported":                   {func(r *reading) { r.ours(); r.memory.Text = "likes rum" }, show},
		"changed, and it is withheld":                   {strict(func(r *reading) { r.ours(); r.memory.Text = "likes rum" }), leave},
		"changed, the whole answer":                     {at("", strict(func(r *reading) { r.ours(); r.memory.Text = "likes rum" })), refused(memproxy.IntegrityMismatch)},
		"changed by the backend's own agents":           {strict(func(r *reading) { r.ours(); r.memory.Text, r.memory.Mutable = "likes rum", true }), show},
		"of a text that nobody has a hash of":           {strict(func(r *reading) { r.row(func(row *memproxy.Ownership) { row.SHA256 = "" }) }), show},
		"with a forged stamp, and the ledger is away":   {strict(away(stamped("mine"))), leave},
		"a write's own text, found to have changed": {strict(func(r *reading) {
			writes("")(r)
			r.ledger.statuses["m"] = memproxy.Status{State: memproxy.StateValidated, Unverified: memproxy.IntegrityMetadata}
		}), show},

		"made of memories, and the ledger is away":         {away(func(r *reading) { r.memory.Compiled, r.memory.Layer = true, memproxy.Episodic }), show},
		"untrusted ones, made of them, the ledger is away": {untrusted(away(func(r *reading) { r.memory.Compiled, r.memory.Layer = true, memproxy.Episodic })), leave},
		"next to what is quarantined":                      {func(r *reading) { r.ledger.statuses["bad"] = status(memproxy.StateQuarantined) }, show},

		"confirmed by a person":                       {confirmed(func(*reading, *memproxy.Status) {}), show},
		"confirmed, and changed since":                {confirmed(func(r *reading, _ *memproxy.Status) { r.ours() }), leave},
		"confirmed, and flagged since":                {confirmed(func(_ *reading, st *memproxy.Status) { st.State = memproxy.StateFlagged }), leave},
		"validated, and not by a person":              {confirmed(func(_ *reading, st *memproxy.Status) { st.Attestation = memproxy.ToolObserved }), leave},
		"confirmed, and it changes by itself":         {confirmed(func(r *reading, _ *memproxy.Status) { r.memory.Mutable = true }), leave},
		"confirmed, and this is its history":          {confirmed(func(r *reading, _ *memproxy.Status) { r.memory.OtherTexts = []string{"fine"} }), leave},
		"confirmed, and danger next to its text":      {confirmed(func(r *reading, _ *memproxy.Status) { r.memory.Annotations = []string{"evil evil evil"} }), leave},
		"confirmed, and changes are not looked for":   {confirmed(func(r *reading, _ *memproxy.Status) { r.rules.Changed = gate.ChangedIgnore }), leave},
		"confirmed, and found to have changed before": {confirmed(func(_ *reading, st *memproxy.Status) { st.Unverified = memproxy.IntegrityMismatch }), leave},

		"its author's, and quarantined": {func(r *reading) {
			r.row(func(row *memproxy.Ownership) { row.Actor = "agent:dev" })
			r.ledger.statuses["m"] = status(memproxy.StateQuarantined)
		}, leave},
		"quarantined, and a reviewer reads": {func(r *reading) {
			r.who.Roles = []string{memproxy.RoleReviewer}
			r.ledger.statuses["m"] = status(memproxy.StateQuarantined)
		}, leave},

		"expired":                                  {owned(memproxy.StateExpired), leave},
		"superseded":                               {owned(memproxy.StateSuperseded), leave},
		"untrusted":                                {owned(memproxy.StateUntrusted), show},
		"flagged":                                  {owned(memproxy.StateFlagged), part},
		"flagged, and its text has no place":       {placeless(owned(memproxy.StateFlagged)), leave},
		"quarantined, a member":                    {at("/memory", quarantined), leave},
		"quarantined, the whole answer":            {at("", quarantined), refused(memproxy.StateWithheld)},
		"a write's own text, quarantined":          {func(r *reading) { writes("")(r); quarantined(r) }, show},
		"a write's answer with a quarantined one":  {wrote(quarantined), leave},
		"a write's answer, quarantined, a member":  {at("/memory", wrote(quarantined)), blank},
		"the same without a place for its text":    {placeless(at("/memory", wrote(quarantined))), refused(memproxy.StateWithheld)},
		"a write's answer that is all quarantined": {at("", wrote(quarantined)), blank},
		"that, without a place for its text":       {placeless(at("", wrote(quarantined))), refused(memproxy.StateWithheld)},
		"an attack, the whole answer":              {at("", func(r *reading) { r.memory.Text = "evil evil" }), refused(memproxy.ScreenWithheld)},
		"the text of a change, of which nothing is known": {untrusted(func(r *reading) {
			r.row(func(row *memproxy.Ownership) { row.Actor = "agent:dev" })
			r.fake.op, r.call.Route.Kind = correct("likes tea", "m"), memproxy.Correct
			r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Text: "likes rum"}}
		}), show},
		"the change of a message, of which nothing is known": {untrusted(func(r *reading) {
			r.ours()
			r.fake.op, r.call.Route.Kind = correct("likes tea", "m"), memproxy.Correct
			r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Text: "likes rum", Layer: memproxy.Episodic}}
		}), show},
		"the text of a change, an attack": {func(r *reading) {
			r.ours()
			r.fake.op, r.call.Route.Kind, r.memory.Text = correct("evil evil", "m"), memproxy.Correct, "evil evil"
			r.fake.located = map[string]memproxy.Memory{"m": {ID: "m", Text: "likes rum"}}
		}, show},

		"an earlier text in a read":                    {func(r *reading) { r.ours(); r.memory.Before = "likes rum" }, show},
		"a write's answer with what nobody wrote":      {func(r *reading) { writes("likes rum")(r); delete(r.ledger.rows, "m") }, show},
		"a write's answer with what was replaced":      {writes("likes rum"), show},
		"a write's answer with an attack in its place": {writes("evil evil"), "without what it was"},

		"untrusted ones are withheld":            {untrusted(func(r *reading) { r.ledger.statuses["m"] = status(memproxy.StateUntrusted) }), leave},
		"untrusted ones, and nothing is known":   {untrusted(func(*reading) {}), leave},
		"untrusted ones, and the ledger is away": {untrusted(away(func(*reading) {})), leave},
		"the ledger is away":                     {away(func(*reading) {}), show},
		"of nobody, and the ledger is away":      {func(r *reading) { r.late = func() { r.ledger.err = errBroken } }, leave},
		"its user's by name, the ledger is away": {func(r *reading) { r.who.Users, r.memory.Scope.User, r.ledger.err = only("ann"), "ann", errBroken }, show},
		"anybody's user's, the ledger is away":   {func(r *reading) { r.memory.Scope.User, r.ledger.err = "ann", errBroken }, leave},
		"untrusted ones, and a message":          {untrusted(func(r *reading) { r.memory.Layer = memproxy.Episodic }), show},
		"untrusted ones, and it is validated":    {untrusted(func(r *reading) { r.ours(); r.ledger.statuses["m"] = status(memproxy.StateValidated) }), show},
		"untrusted ones, and it was another text": {untrusted(func(r *reading) {
			r.ours()
			r.memory.Text = "likes rum"
			r.ledger.statuses["m"] = status(memproxy.StateValidated)
		}), leave},
		"another author's waits for a review": {func(r *reading) {
			r.row(func(row *memproxy.Ownership) { row.Actor = "agent:x" })
			r.ledger.statuses["m"] = status(memproxy.StatePending)
		}, leave},
		"another author's waits, and a reviewer reads": {func(r *reading) {
			r.row(func(row *memproxy.Ownership) { row.Actor = "agent:x" })
			r.who.Roles = []string{memproxy.RoleReviewer}
			r.ledger.statuses["m"] = status(memproxy.StatePending)
		}, show},

		"put there, an attack":                                    {func(r *reading) { r.memory.Text = "evil evil" }, leave},
		"put there, an attack in a message":                       {func(r *reading) { r.memory.Text, r.memory.Layer = "evil evil", memproxy.Episodic }, show},
		"put there, with danger, and no spans are hidden":         {func(r *reading) { r.rules.Sanitise, r.memory.Text = 0, "some evil" }, show},
		"put there, with danger":                                  {func(r *reading) { r.memory.Text = "some evil" }, part},
		"put there, with danger, and nothing but spans is hidden": {func(r *reading) { r.rules.Withhold, r.memory.Text = 0, "some evil" }, part},
		"put there, with danger that has no place":                {func(r *reading) { r.memory.Text, r.memory.TextAt = "some evil", "" }, leave},
		"danger in its history":                                   {func(r *reading) { r.ours(); r.memory.OtherTexts = []string{"evil evil"} }, leave},
		"danger in its metadata":                                  {func(r *reading) { r.ours(); r.memory.Annotations = []string{"evil evil"} }, leave},

		"a stamp's own words": {func(r *reading) {
			r.memory.Stamp, r.memory.Annotations = &memproxy.Stamp{ID: "d9", Flags: "evil evil", Signature: "signed for acme"}, []string{"evil evil"}
		}, show},
		"a forged stamp's words": {func(r *reading) {
			r.memory.Stamp, r.memory.Annotations = &memproxy.Stamp{ID: "d9", Flags: "evil evil", Signature: "mine"}, []string{"evil evil"}
		}, leave},
		"its write is quarantined": {func(r *reading) { r.isOf(status(memproxy.StateQuarantined), memproxy.Status{}) }, leave},
		"its write is flagged":     {func(r *reading) { r.isOf(status(memproxy.StateFlagged), memproxy.Status{}) }, part},
		"its write is flagged, which cannot be recorded": {func(r *reading) {
			r.isOf(status(memproxy.StateFlagged), memproxy.Status{})
			r.ledger.full, r.rules.NeverRefuse = errBroken, true
		}, leave},
		"its write is flagged, as another process recorded": {func(r *reading) {
			r.isOf(status(memproxy.StateFlagged), memproxy.Status{})
			r.ledger.full, r.rules.NeverRefuse = memproxy.ErrStale, true
		}, part},
		"quarantined, and its write is flagged":            {func(r *reading) { r.isOf(status(memproxy.StateFlagged), status(memproxy.StateQuarantined)) }, leave},
		"quarantined, and its write is not trusted":        {func(r *reading) { r.isOf(status(memproxy.StateUntrusted), status(memproxy.StateExpired)) }, leave},
		"its write was approved":                           {untrusted(func(r *reading) { r.isOf(person(time.Hour), memproxy.Status{}) }), show},
		"expired, and its write was approved":              {func(r *reading) { r.isOf(person(time.Hour), status(memproxy.StateExpired)) }, show},
		"superseded, and its write was approved":           {func(r *reading) { r.isOf(person(time.Hour), status(memproxy.StateSuperseded)) }, leave},
		"its write was approved long before it was copied": {untrusted(func(r *reading) { r.isOf(person(48*time.Hour), memproxy.Status{}) }), leave},
	} {
		t.Run(name, func(t *testing.T) {
			b := &echoer{}
			m := memproxy.Memory{Pointer: "/0", ID: "m", Text: "likes tea", TextAt: "/0/text"}
			r := &reading{memory: &m}
			r.rig, r.ledger = anyAgent(t, func(r *rig) {
				r.adapter, r.fake = b, &b.fakeAdapter
				r.fake.op.Kind = memproxy.Recall
				r.rules.Screener, r.rules.Withhold, r.rules.Sanitise, r.rules.Changed = screener{}, 800, 400, gate.ChangedReport
			})
			r.call = r.rig.call(r.fake.op)
			tc.set(r)
			r.fake.memories = []memproxy.Memory{m}
			a := r.gate.Admit(t.Context(), r.call)
			must.Equal(t, a.Reply == nil, true, a.Decision)
			if r.call.Request.EscapedPath == "/m" {
				expect.Len(t, r.fetch.asked, 0, "the backend was asked twice")
			}
			if r.late != nil {
				r.late()
			}
			var got string
			if reply := r.gate.Return(t.Context(), a, memproxy.Reply{Status: 200, Body: []byte("[]")}); reply.Status == 200 {
				got = shown(r.fake.rd.Memories[0])
			} else {
				got = refused(a.Shown().Reasons[0].Code)
			}
			expect.Equal(t, got, tc.want)
			expect.Equal(t, len(r.checks) > 0, name == "changed by the backend's own agents", "the sweep is to check", r.checks)
		})
	}
}
