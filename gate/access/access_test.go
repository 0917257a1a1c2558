package access_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/internal/expect"
)

func only(names ...string) memproxy.Limit { return memproxy.Limit{Values: names} }

var anybody = memproxy.Limit{All: true}

// caller is of tenant acme and is limited in nothing but what change says.
func caller(change func(*memproxy.Principal)) *memproxy.Principal {
	p := &memproxy.Principal{ID: "agent:dev", Tenant: "acme", ActsAs: anybody, Users: anybody, Apps: anybody, Runs: anybody}
	if change != nil {
		change(p)
	}
	return p
}

// rows are what is recorded: "kind id tenant actor agent".
func rows(all ...memproxy.Ownership) access.Rows {
	return func(kind memproxy.TargetKind, id string) *memproxy.Ownership {
		for i := range all {
			if all[i].Kind == kind && all[i].ID == id {
				return &all[i]
			}
		}
		return nil
	}
}

func row(kind memproxy.TargetKind, id, tenant string) memproxy.Ownership {
	return memproxy.Ownership{Kind: kind, ID: id, Scope: memproxy.Scope{Tenant: tenant}}
}

func user(name, tenant string) memproxy.Ownership {
	return row(memproxy.TargetEntity, memproxy.OwnerID(memproxy.DimUser, name), tenant)
}

// Proves EDGE-3: one row of another tenant's makes a name foreign, whatever the
// other rows say and in whatever order they come.
func TestBonds(t *testing.T) {
	ours, theirs := row("memory", "a", "acme"), row("memory", "a", "globex")
	for _, tc := range []struct {
		rows []*memproxy.Ownership
		want access.Relation
	}{
		{nil, access.Unknown},
		{[]*memproxy.Ownership{nil}, access.Unknown},
		{[]*memproxy.Ownership{&ours}, access.Ours},
		{[]*memproxy.Ownership{&theirs}, access.Foreign},
		{[]*memproxy.Ownership{&ours, nil}, access.Ours},
		{[]*memproxy.Ownership{&ours, &theirs}, access.Foreign},
		{[]*memproxy.Ownership{&theirs, &ours, nil}, access.Foreign},
	} {
		got := access.Unknown
		for _, r := range tc.rows {
			got = got.With(r, "acme")
		}
		expect.Equal(t, got, tc.want, tc.rows)
	}
}

// Proves EDGE-3: what a principal made is its own in its own tenant alone, and a row
// without an author is nobody's.
func TestMadeBy(t *testing.T) {
	p := caller(nil)
	by := func(actor, tenant string) *memproxy.Ownership {
		return &memproxy.Ownership{Actor: actor, Scope: memproxy.Scope{Tenant: tenant}}
	}
	for _, tc := range []struct {
		row  *memproxy.Ownership
		want bool
	}{
		{nil, false}, {by("", "acme"), false}, {by("agent:dev", "acme"), true}, {by("agent:dev", "globex"), false}, {by("agent:ops", "acme"), false},
	} {
		expect.Equal(t, access.MadeBy(p, tc.row), tc.want, tc.row)
	}
	expect.That(t, !access.MadeBy(&memproxy.Principal{Tenant: "acme"}, by("", "acme")), "nobody made it")
}

func TestLimits(t *testing.T) {
	scope := memproxy.Scope{User: "ann", Agent: "a", App: "x", Run: "r"}
	expect.That(t, !access.Limited(caller(nil)) && access.MayName(caller(nil), scope) && access.MayName(caller(func(p *memproxy.Principal) { p.Users = only() }), memproxy.Scope{}),
		"unlimited")
	for name, limit := range map[string]func(*memproxy.Principal){
		"users":  func(p *memproxy.Principal) { p.Users = only("bob") },
		"agents": func(p *memproxy.Principal) { p.ActsAs = only("b") },
		"apps":   func(p *memproxy.Principal) { p.Apps = only("y") },
		"runs":   func(p *memproxy.Principal) { p.Runs = only("s") },
	} {
		expect.That(t, access.Limited(caller(limit)) && !access.MayName(caller(limit), scope), "%s are not limited", name)
	}
}

// Proves EDGE-3, EDGE-13, TRL-1: whose a memory is decides first, by what is
// recorded, then by the stamp, then by what it belongs to; and every owner that it
// names must be one that the principal may name.
func TestWhatIsSeen(t *testing.T) {
	signed := &memproxy.Stamp{ID: "good"}
	forged := &memproxy.Stamp{ID: "forged"}
	acmes, globexs := row("memory", "m", "acme"), row("memory", "m", "globex")
	anns := memproxy.Ownership{Kind: "memory", ID: "m", Scope: memproxy.Scope{Tenant: "acme", User: "ann"}}
	agents := memproxy.Ownership{Kind: "memory", ID: "m", Scope: memproxy.Scope{Tenant: "acme", Agent: "other"}}
	mine := memproxy.Ownership{Kind: memproxy.TargetMemory, ID: "made", Actor: "agent:dev", Scope: memproxy.Scope{Tenant: "acme"}}
	export := func(actor, user string) *memproxy.Ownership {
		return &memproxy.Ownership{Kind: memproxy.TargetExport, ID: "x", Actor: actor, Scope: memproxy.Scope{Tenant: "acme", User: user}}
	}
	bobOnly := func(p *memproxy.Principal) { p.Users = only("bob") }
	devOnly := func(p *memproxy.Principal) { p.ActsAs = only("dev") }
	of := func(name string) memproxy.Memory { return memproxy.Memory{Scope: memproxy.Scope{User: name}} }
	within := func(id string) memproxy.Memory {
		return memproxy.Memory{Parents: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: id}}}
	}
	for name, tc := range map[string]struct {
		row     *memproxy.Ownership
		m       memproxy.Memory
		limit   func(*memproxy.Principal)
		rows    []memproxy.Ownership
		setting access.Unattributed
		change  func(*access.View)
		want    bool
	}{
		"recorded as ours":                    {row: &acmes, setting: access.Hidden, want: true},
		"recorded as another tenant's":        {row: &globexs, setting: access.Visible},
		"another tenant's, with our stamp":    {row: &globexs, m: memproxy.Memory{Stamp: signed}, setting: access.Visible},
		"another tenant's, and common":        {row: &globexs, m: memproxy.Memory{BuiltIn: true}, setting: access.Visible},
		"common":                              {m: memproxy.Memory{BuiltIn: true}, setting: access.Hidden, limit: bobOnly, want: true},
		"stamped by us":                       {m: memproxy.Memory{Stamp: signed}, setting: access.Hidden, want: true},
		"stamped by us, nobody's agent":       {m: memproxy.Memory{Stamp: signed}, setting: access.Visible, limit: devOnly},
		"stamped by the caller":               {m: memproxy.Memory{Stamp: &memproxy.Stamp{ID: "good", Actor: "agent:dev"}}, setting: access.Hidden, limit: devOnly, want: true},
		"stamped by us, within an object":     {m: memproxy.Memory{Stamp: signed, Parents: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "run"}}}, setting: access.Hidden, limit: devOnly, want: true},
		"stamped by us, of the caller's user": {m: memproxy.Memory{Stamp: signed, Scope: memproxy.Scope{User: "bob"}}, setting: access.Hidden, limit: bobOnly, want: true},
		"stamped by somebody":                 {m: memproxy.Memory{Stamp: forged}, setting: access.Hidden},
		"stamped by us, another user's":       {m: memproxy.Memory{Stamp: signed, Scope: memproxy.Scope{User: "ann"}}, setting: access.Hidden, limit: bobOnly},
		"recorded as a user's of ours":        {row: &anns, limit: bobOnly, setting: access.Visible},
		"it says a user, and is recorded":     {row: &acmes, m: of("ann"), limit: bobOnly, setting: access.Visible},
		"its user is the caller's":            {row: &acmes, m: of("bob"), limit: bobOnly, setting: access.Hidden, want: true},
		"a user whose name is ours":           {m: of("ann"), rows: []memproxy.Ownership{user("ann", "acme")}, setting: access.Hidden, want: true},
		"a user whose name is another's":      {m: of("ann"), rows: []memproxy.Ownership{user("ann", "globex")}, setting: access.Visible},
		"stamped by somebody, another's user": {m: memproxy.Memory{Stamp: forged, Scope: memproxy.Scope{User: "ann"}}, rows: []memproxy.Ownership{user("ann", "globex")}, setting: access.Visible},
		"within what is another's":            {m: within("run"), rows: []memproxy.Ownership{row(memproxy.TargetMemory, "run", "globex")}, setting: access.Visible},
		"within what is ours":                 {m: within("run"), rows: []memproxy.Ownership{row(memproxy.TargetMemory, "run", "acme")}, setting: access.Hidden, want: true},
		"within another agent's run":          {row: &acmes, m: within("run"), rows: []memproxy.Ownership{{Kind: memproxy.TargetMemory, ID: "run", Scope: memproxy.Scope{Tenant: "acme", Agent: "other"}}}, limit: devOnly, setting: access.Visible},
		"within a run that the backend knows": {row: &acmes, m: within("run"), limit: devOnly, change: func(v *access.View) { v.Agents = map[string]string{"run": "other"} }, setting: access.Visible},
		"a derived owner of another tenant": {m: within("run"), change: func(v *access.View) {
			v.Derived = map[string]memproxy.Ownership{"run": row(memproxy.TargetMemory, "run", "globex")}
		}, setting: access.Visible},
		"a derived owner of ours": {m: within("run"), change: func(v *access.View) {
			v.Derived = map[string]memproxy.Ownership{"run": row(memproxy.TargetMemory, "run", "acme")}
		}, setting: access.Hidden, want: true},
		"an agent that the caller made":        {row: &acmes, m: memproxy.Memory{Scope: memproxy.Scope{Agent: "made"}}, rows: []memproxy.Ownership{mine}, limit: devOnly, setting: access.Visible, want: true},
		"an agent that somebody made":          {row: &acmes, m: memproxy.Memory{Scope: memproxy.Scope{Agent: "other"}}, limit: devOnly, setting: access.Visible},
		"a block, shown in the caller's agent": {row: &agents, m: memproxy.Memory{Mutable: true, Scope: memproxy.Scope{Agent: "dev"}}, limit: devOnly, setting: access.Visible, want: true},
		"a block of another agent":             {row: &agents, m: memproxy.Memory{Mutable: true}, limit: devOnly, setting: access.Visible},
		"a memory of another agent":            {row: &agents, m: memproxy.Memory{Scope: memproxy.Scope{Agent: "dev"}}, limit: devOnly, setting: access.Visible},
		"an export of the caller's user":       {row: export("agent:ops", "bob"), limit: bobOnly, setting: access.Visible, want: true},
		"an export of several users":           {row: export("agent:ops", ""), limit: bobOnly, setting: access.Visible},
		"an export of several agents":          {row: export("agent:ops", "bob"), limit: devOnly, setting: access.Visible},
		"an export that the caller made":       {row: export("agent:dev", ""), limit: bobOnly, setting: access.Visible, want: true},
		"the backend is declared ours":         {m: of("ann"), setting: access.Hidden, change: func(v *access.View) { v.Declared = true }, want: true},
		"declared ours, another's user":        {m: of("ann"), rows: []memproxy.Ownership{user("ann", "globex")}, setting: access.Visible, change: func(v *access.View) { v.Declared = true }},
		"unattributed, everybody's":            {m: of("ann"), setting: access.Visible, want: true},
		"unattributed, hidden":                 {m: of("ann"), setting: access.Hidden, limit: func(p *memproxy.Principal) { p.Users = only("ann") }},
		"unattributed, named by a limit":       {m: of("ann"), setting: access.Named, limit: func(p *memproxy.Principal) { p.Users = only("ann") }, want: true},
		"unattributed, named by no limit":      {m: of("ann"), setting: access.Named},
		"unattributed, and the ledger is away": {m: of("ann"), setting: access.Visible, change: func(v *access.View) { v.Blind = true }},
		"the same without tenants":             {m: of("ann"), setting: access.Visible, limit: func(p *memproxy.Principal) { p.Tenant = "" }, change: func(v *access.View) { v.Blind = true }, want: true},
		"nobody's, for a limited caller":       {setting: access.Visible, limit: bobOnly},
		"nobody's, for an unlimited caller":    {setting: access.Visible, want: true},
		"an unknown setting":                   {m: of("ann"), setting: "?"},
	} {
		t.Run(name, func(t *testing.T) {
			v := access.View{
				Principal: caller(tc.limit), Unattributed: tc.setting, Rows: rows(tc.rows...),
				Signed: func(s memproxy.Stamp) bool { return s.ID == "good" },
			}
			if tc.change != nil {
				tc.change(&v)
			}
			expect.Equal(t, v.Sees(tc.row, &tc.m), tc.want, "seen")
		})
	}
}

// Proves EDGE-13: what a write made and nobody has recorded says itself whose it is.
func TestWhatDenies(t *testing.T) {
	devOnly := func(p *memproxy.Principal) { p.ActsAs = only("dev") }
	agent := func(name string) memproxy.Memory { return memproxy.Memory{Scope: memproxy.Scope{Agent: name}} }
	for name, tc := range map[string]struct {
		m     memproxy.Memory
		limit func(*memproxy.Principal)
		rows  []memproxy.Ownership
		made  []string
		want  bool
	}{
		"it names nobody":                         {},
		"the caller's agent":                      {m: agent("dev"), limit: devOnly},
		"another agent":                           {m: agent("ops"), limit: devOnly, want: true},
		"an agent that came to be with it":        {m: agent("new"), limit: devOnly, made: []string{"new"}},
		"an agent that is said to, and was there": {m: agent("ops"), limit: devOnly, made: []string{"ops"}, rows: []memproxy.Ownership{row(memproxy.TargetMemory, "ops", "acme")}, want: true},
		"another tenant's user":                   {m: memproxy.Memory{Scope: memproxy.Scope{User: "ann"}}, rows: []memproxy.Ownership{user("ann", "globex")}, want: true},
		"another tenant's user, common":           {m: memproxy.Memory{BuiltIn: true, Scope: memproxy.Scope{User: "ann"}}, rows: []memproxy.Ownership{user("ann", "globex")}},
	} {
		v := access.View{Principal: caller(tc.limit), Rows: rows(tc.rows...)}
		expect.Equal(t, v.Denies(&tc.m, tc.made), tc.want, name)
	}
}

func is(d memproxy.Dimension, names ...string) memproxy.Claim {
	return memproxy.Claim{Dim: d, Op: memproxy.ClaimIs, Values: names, Pointer: "/x", Pins: true}
}

func not(names ...string) memproxy.Claim {
	return memproxy.Claim{Dim: memproxy.DimUser, Op: memproxy.ClaimExclude, Values: names, Pointer: "/x"}
}

func codes(all []memproxy.Reason) []memproxy.ReasonCode {
	var out []memproxy.ReasonCode
	for _, why := range all {
		out = append(out, why.Code)
	}
	return out
}

func within(users ...string) map[memproxy.Dimension][]string {
	return map[memproxy.Dimension][]string{memproxy.DimUser: users}
}

// Proves EDGE-3, CARD-8, TRL-1: every identity that a payload names, wherever, is held
// to the caller's own limits, and the refusal names the setting that opens it. A read that is
// restricted to names that the caller may use may have further conditions on them; a summary,
// a bulk operation and a write may not.
func TestBounds(t *testing.T) {
	bobOnly := func(p *memproxy.Principal) { p.Users = only("bob") }
	none := func(p *memproxy.Principal) { p.ActsAs, p.Users, p.Apps, p.Runs = only(), only(), only(), only() }
	loose := memproxy.Claim{Dim: memproxy.DimUser, Op: memproxy.ClaimUnclear}
	for name, tc := range map[string]struct {
		limit func(*memproxy.Principal)
		op    memproxy.Operation
		want  []memproxy.ReasonCode
	}{
		"unlimited":                        {nil, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimUser, "ann"), loose}, Bulk: true}, nil},
		"an exclusion":                     {bobOnly, memproxy.Operation{Claims: []memproxy.Claim{not("bob")}}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"the empty name is not everyone":   {bobOnly, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimUser, "")}}, []memproxy.ReasonCode{memproxy.IdentityUser}},
		"a speaker's name":                 {none, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimActor, "ceo")}}, nil},
		"of nobody, to be filtered":        {bobOnly, memproxy.Operation{}, nil},
		"the user that it may name":        {bobOnly, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimUser, "bob")}}, nil},
		"another user":                     {bobOnly, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimUser, "ann")}}, []memproxy.ReasonCode{memproxy.IdentityUser}},
		"both":                             {bobOnly, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimUser, "bob", "ann", "eve")}}, []memproxy.ReasonCode{memproxy.IdentityUser}},
		"a wildcard":                       {bobOnly, memproxy.Operation{Claims: []memproxy.Claim{loose}}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"every dimension":                  {none, memproxy.Operation{Claims: []memproxy.Claim{is(memproxy.DimAgent, "a"), is(memproxy.DimApp, "a"), is(memproxy.DimRun, "a"), is(memproxy.DimUser, "a")}}, []memproxy.ReasonCode{memproxy.IdentityActsAs, memproxy.IdentityApp, memproxy.IdentityRun, memproxy.IdentityUser}},
		"in bulk, of nobody":               {bobOnly, memproxy.Operation{Bulk: true}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"a summary, of nobody":             {bobOnly, memproxy.Operation{Derived: true}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"in bulk, of its user":             {bobOnly, memproxy.Operation{Bulk: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob")}}, nil},
		"in bulk, of a user in one branch": {bobOnly, memproxy.Operation{Bulk: true, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimIs, Values: []string{"bob"}}}}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"in bulk, by id":                   {bobOnly, memproxy.Operation{Bulk: true, Targets: []string{"m"}}, nil},
		"an exclusion of its user's":       {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: within("bob")}, nil},
		"an exclusion within more users":   {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: within("bob", "eve")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"a wildcard within a member":       {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), loose}}, nil},
		"another within a member":          {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), is(memproxy.DimUser, "eve")}}, []memproxy.ReasonCode{memproxy.IdentityUser}},
		"an exclusion within nothing":      {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: within()}, nil},
		"an exclusion in another's limits": {none, memproxy.Operation{Kind: memproxy.Recall, Claims: []memproxy.Claim{not("ann")}, Within: map[memproxy.Dimension][]string{memproxy.DimRun: {}}}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"an exclusion in a summary":        {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), not("ann")}, Within: within("bob")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"an exclusion in a bulk read":      {bobOnly, memproxy.Operation{Kind: memproxy.Recall, Bulk: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), not("ann")}, Within: within("bob")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"an exclusion in a write":          {bobOnly, memproxy.Operation{Kind: memproxy.Learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "bob"), not("ann")}, Within: within("bob")}, []memproxy.ReasonCode{memproxy.IdentityBroad}},
		"all of one owner":                 {none, memproxy.Operation{Bulk: true, SingleOwner: true}, []memproxy.ReasonCode{memproxy.ScopeUnpinned, memproxy.ScopeUnpinned, memproxy.ScopeUnpinned, memproxy.ScopeUnpinned}},
	} {
		got := access.Bounds(caller(tc.limit), &tc.op)
		expect.List(t, codes(got), tc.want, name)
		for _, why := range got {
			expect.That(t, slices.ContainsFunc([]string{"acts_as", "users", "apps", "runs"}, func(s string) bool { return strings.Contains(why.Detail, s) }),
				"%s: %q names no setting", name, why.Detail)
		}
	}
	nobody := caller(none)
	nobody.Kind = memproxy.KindAnonymous
	for _, c := range []memproxy.Claim{is(memproxy.DimAgent, "a"), loose} {
		expect.Text(t, access.Bounds(nobody, &memproxy.Operation{Claims: []memproxy.Claim{c}})[0].Detail, "a caller without an entry").Has(" in identity.default ")
	}
}

// Proves EDGE-3, EDGE-13: names of another tenant's and names that nobody has are
// told apart by nobody who reads; a write makes a free name its tenant's.
func TestClaims(t *testing.T) {
	ref := memproxy.Ref{Kind: memproxy.TargetMemory, ID: "agent-1"}
	learn, recall, correct := memproxy.Learn, memproxy.Recall, memproxy.Correct
	ours, theirs := user("ours", "acme"), user("theirs", "globex")
	for name, tc := range map[string]struct {
		n    access.Names
		op   memproxy.Operation
		want string // refused, unbound, masked, notes
	}{
		"ours, written":                     {access.Names{}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "ours")}}, "[] [] [] []"},
		"ours, read":                        {access.Names{}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "ours")}}, "[] [] [] []"},
		"theirs, written":                   {access.Names{Visible: true}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "theirs")}}, "[owner.unknown] [] [] []"},
		"theirs, read":                      {access.Names{Visible: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "theirs")}}, "[owner.unknown] [] [] []"},
		"theirs, read where one masks":      {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "theirs")}}, "[] [] [user:theirs] [owner.foreign]"},
		"free, read where one masks":        {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[] [] [user:free] [owner.unknown]"},
		"a summary is not masked":           {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "theirs")}}, "[owner.unknown] [] [] []"},
		"a write is not masked":             {access.Names{Masks: true}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "theirs")}}, "[owner.unknown] [] [] []"},
		"free, written":                     {access.Names{}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[] [user:free] [] []"},
		"free, corrected":                   {access.Names{}, memproxy.Operation{Kind: correct, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[] [user:free] [] []"},
		"free, read, several tenants":       {access.Names{}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[owner.unknown] [] [] []"},
		"free, read, everybody's":           {access.Names{Visible: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[] [] [] []"},
		"free, a summary, everybody's":      {access.Names{Visible: true}, memproxy.Operation{Kind: recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[owner.unknown] [] [] []"},
		"free, a summary, one tenant":       {access.Names{Alone: true}, memproxy.Operation{Kind: recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "free")}}, "[] [] [] []"},
		"a wildcard is written":             {access.Names{}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "*")}}, "[owner.unknown] [] [] []"},
		"the same of one tenant":            {access.Names{Alone: true}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "*")}}, "[] [] [] []"},
		"an empty name is written":          {access.Names{}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimUser, "")}}, "[] [] [] []"},
		"an empty name is read":             {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{is(memproxy.DimUser, "")}}, "[] [] [] []"},
		"a summary of an empty name":        {access.Names{}, memproxy.Operation{Kind: recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "")}}, "[owner.unknown] [] [] []"},
		"a summary of one recorded as ours": {access.Names{}, memproxy.Operation{Kind: recall, Derived: true, Claims: []memproxy.Claim{is(memproxy.DimRun, "")}}, "[owner.unknown] [] [] []"},
		"an exclusion is written":           {access.Names{}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimUnclear}}}, "[identity.broad] [] [] []"},
		"the same, read":                    {access.Names{}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{{Dim: memproxy.DimUser, Op: memproxy.ClaimUnclear}}}, "[] [] [] []"},
		"an agent that is there":            {access.Names{}, memproxy.Operation{Kind: recall, Refs: []memproxy.Ref{ref}, Claims: []memproxy.Claim{is(memproxy.DimAgent, "agent-1")}}, "[] [] [] []"},
		"all of an agent that is there":     {access.Names{}, memproxy.Operation{Kind: recall, Bulk: true, Refs: []memproxy.Ref{ref}, Claims: []memproxy.Claim{is(memproxy.DimAgent, "agent-1")}}, "[owner.unknown] [] [] []"},
		"theirs, left out of a read":        {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("theirs")}}, "[] [] [user:theirs] [owner.foreign]"},
		"free, left out of a read":          {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("free")}}, "[] [] [user:free] [owner.unknown]"},
		"ours, left out of a read":          {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("ours")}}, "[] [] [] []"},
		"theirs, where it cannot be masked": {access.Names{}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("theirs")}}, "[owner.unknown] [] [] []"},
		"free, where it cannot be masked":   {access.Names{}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("free")}}, "[owner.unknown] [] [] []"},
		"free, left out, everybody's":       {access.Names{Masks: true, Visible: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("free")}}, "[] [] [] []"},
		"theirs, left out, everybody's":     {access.Names{Masks: true, Visible: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("theirs")}}, "[] [] [user:theirs] [owner.foreign]"},
		"theirs, left out of a summary":     {access.Names{Masks: true}, memproxy.Operation{Kind: recall, Derived: true, Claims: []memproxy.Claim{not("theirs")}}, "[] [] [] []"},
		"left out, of one tenant":           {access.Names{Masks: true, Alone: true}, memproxy.Operation{Kind: recall, Claims: []memproxy.Claim{not("free")}}, "[] [] [] []"},
		"the actor is nobody's name":        {access.Names{}, memproxy.Operation{Kind: learn, Claims: []memproxy.Claim{is(memproxy.DimActor, "theirs")}}, "[] [] [] []"},
	} {
		tc.n.Op, tc.n.Tenant, tc.n.Rows = &tc.op, "acme", rows(ours, theirs, user("", "globex"), row(memproxy.TargetEntity, "run:", "acme"))
		r := tc.n.Claims()
		expect.Equal(t, fmt.Sprint(codes(r.Refused), r.Unbound, r.Masked, codes(r.Notes)), tc.want, name)
	}
}

// Proves EDGE-3: an object's own row counts where an owner is an object.
func TestAnOwnerThatIsAnObject(t *testing.T) {
	op := memproxy.Operation{Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "agent-1"}}}
	n := access.Names{Op: &op, Tenant: "acme", Rows: rows(row(memproxy.TargetMemory, "agent-1", "globex"))}
	expect.Equal(t, n.Relation(memproxy.DimAgent, "agent-1"), access.Foreign)
}

// Proves EDGE-3, EDGE-13: what is made of many memories is refused, unless it is
// narrowed to an owner of the caller's tenant in every place.
func TestWhole(t *testing.T) {
	path := func(id string) memproxy.Ref {
		return memproxy.Ref{Kind: memproxy.TargetMemory, ID: id, Pointer: "path:x"}
	}
	for name, tc := range map[string]struct {
		alone bool
		op    memproxy.Operation
		want  []memproxy.ReasonCode
	}{
		"one memory":              {false, memproxy.Operation{}, nil},
		"one tenant":              {true, memproxy.Operation{Derived: true}, nil},
		"a summary of everything": {false, memproxy.Operation{Derived: true}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"a deletion of it":        {false, memproxy.Operation{Bulk: true}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"by id":                   {false, memproxy.Operation{Bulk: true, Targets: []string{"m"}}, nil},
		"of an owner by its id":   {false, memproxy.Operation{Bulk: true, Targets: []string{"user:x"}, TargetKind: memproxy.TargetEntity}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"of a user":               {false, memproxy.Operation{Bulk: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "x")}}, nil},
		"of a user, and of all":   {false, memproxy.Operation{Bulk: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "x"), {Dim: memproxy.DimUser, Op: memproxy.ClaimUnclear}}}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"of a user without name":  {false, memproxy.Operation{Derived: true, Claims: []memproxy.Claim{is(memproxy.DimUser, "")}}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"of the actor":            {false, memproxy.Operation{Bulk: true, Claims: []memproxy.Claim{is(memproxy.DimActor, "x")}}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
		"within what is ours":     {false, memproxy.Operation{Derived: true, Refs: []memproxy.Ref{path("ours")}}, nil},
		"within what is theirs":   {false, memproxy.Operation{Derived: true, Refs: []memproxy.Ref{path("theirs")}}, []memproxy.ReasonCode{memproxy.OwnerUnknown}},
		"within nobody's":         {false, memproxy.Operation{Derived: true, Refs: []memproxy.Ref{path("free")}}, []memproxy.ReasonCode{memproxy.OwnerUnknown}},
		"elsewhere than the path": {false, memproxy.Operation{Derived: true, Refs: []memproxy.Ref{{Kind: memproxy.TargetMemory, ID: "ours", Pointer: "/x"}}}, []memproxy.ReasonCode{memproxy.ScopeUnpinned}},
	} {
		n := access.Names{Op: &tc.op, Tenant: "acme", Alone: tc.alone, Rows: rows(row(memproxy.TargetMemory, "ours", "acme"), row(memproxy.TargetMemory, "theirs", "globex"))}
		expect.List(t, codes(n.Whole()), tc.want, name)
	}
}

// Proves EDGE-3: a name is referred to where it is the tenant's, or where what
// nobody has is everybody's.
func TestRefers(t *testing.T) {
	for name, tc := range map[string]struct {
		id             string
		alone, visible bool
		want           bool
	}{
		"ours": {id: "user:ours", want: true}, "theirs": {id: "user:theirs", alone: true, visible: true},
		"free": {id: "user:free"}, "free, one tenant": {id: "user:free", alone: true, want: true}, "free, everybody's": {id: "user:free", visible: true, want: true},
	} {
		n := access.Names{Op: &memproxy.Operation{}, Tenant: "acme", Alone: tc.alone, Visible: tc.visible, Rows: rows(user("ours", "acme"), user("theirs", "globex"))}
		expect.Equal(t, n.Refers(&memproxy.Ref{Kind: memproxy.TargetEntity, ID: tc.id}), tc.want, name)
	}
}
