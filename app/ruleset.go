package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/fleet"
	"github.com/memproxy/memproxy/gate"
	"github.com/memproxy/memproxy/gate/access"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/screen"
	"github.com/memproxy/memproxy/screen/approved"
	"github.com/memproxy/memproxy/upkeep"
)

// ruleSources are the sources from which rules are compiled.
type ruleSources struct {
	bundle policy.Bundle
	pack   *screen.Pack   // the sidecar's own pack; the bundle may contain another
	cfg    *config.Config // settings that need a restart have their old values
	// restart lists the settings of the newest edit of the configuration that need one.
	restart []string
}

// The sources that can be edited at run time.
const (
	fromPolicies      = "policies" // the policy directory, or a release of the fleet
	fromPack          = "pack"
	fromConfiguration = "the configuration"
)

// ruleset compiles bundles into rules and remembers the outcome of the last attempt.
type ruleset struct {
	screeners *screeners
	allowed   []string         // settings that may weaken production
	follower  *follow.Follower // follows the fleet's releases; nil if there is no fleet
	// changed is sent whenever other rules come into force, whatever the source: the
	// policy directory, a pack, a release of the fleet, a start.
	changed upkeep.Signal

	// swap is held from reading the rules in force until they are replaced, so that a
	// bundle and a pack that arrive at the same time do not undo each other.
	swap sync.Mutex
	now  atomic.Pointer[compiledRules] // in force

	broken sync.Map // error by source: why the newest edit is not in force
}

// compiledRules is a set of rules and the sources that it was compiled from.
type compiledRules struct {
	ruleSources
	rules  *gate.Rules
	cedar  *cedar.Policy
	looser []string // what the last edit loosened
}

// newRuleset returns the rules with which a sidecar starts. connect, if not nil, adds the
// options of the follower that need a running sidecar.
func newRuleset(cfg *config.Config, allowed []string, connect func(*follow.Options) error, log *slog.Logger, clock func() time.Time, begin begin) (*ruleset, error) {
	d, err := newScreeners(cfg.Screening, log, clock, begin)
	if err != nil {
		return nil, cfg.Fault(err, "screening")
	}
	r := &ruleset{screeners: d, allowed: allowed, changed: upkeep.NewSignal()}
	pack, err := d.pack()
	if err != nil {
		return nil, cfg.Fault(err, "screening", "pack")
	}
	r.now.Store(&compiledRules{ruleSources: ruleSources{pack: pack, cfg: cfg}})
	if r.follower, err = newFollower(cfg, log, connect); err != nil {
		return nil, err
	}
	b, err := firstBundle(cfg, r.follower, log)
	if err != nil {
		return nil, err
	}
	return r, r.useBundle(b, func(*gate.Rules) error { return nil })
}

// useBundle is edit with another bundle.
func (r *ruleset) useBundle(b policy.Bundle, use func(*gate.Rules) error) error {
	return r.edit(fromPolicies, func(in *ruleSources) { in.bundle = b }, use)
}

// edit replaces one source of the rules in force, compiles the rules and puts them in
// force with use. If they do not compile, or use refuses them, nothing changes. The same
// applies to rules without the built-in policies, unless production was started with that
// explicitly allowed. Errors of other sources remain recorded.
func (r *ruleset) edit(what string, change func(*ruleSources), use func(*gate.Rules) error) error {
	r.swap.Lock()
	defer r.swap.Unlock()
	in := r.now.Load().ruleSources
	change(&in)
	b, cfg := in.bundle, in.cfg
	if b.BuiltinOff() != "" && cfg.Profile == "production" && !slices.Contains(r.allowed, config.BuiltinPolicies) {
		return fmt.Errorf("%s: builtin: false leaves the built-in policies out, which weakens production: restart with %s in %s", b.BuiltinOff(), config.BuiltinPolicies, config.UnsafeEnv)
	}
	compiled, err := cedar.Compile(b)
	if err != nil {
		return err
	}
	pack := in.pack
	if b.Screening != nil {
		if pack, err = fleet.OpenPack(b.Screening); err != nil {
			return err
		}
	}
	screener, err := r.screeners.screener(pack)
	if err != nil {
		return err
	}
	limits, ceilings, err := tablesOf(b, cfg)
	if err != nil {
		return err
	}
	enforced := *cfg.Budgets.Enforce
	rules := &gate.Rules{
		Version: versionOf(b, pack, cfg), Profile: gate.Profile(cfg.Profile), Policy: compiled, Ceilings: ceilings,
		Lines: func(p memproxy.Principal, kind memproxy.Kind, user string, fields []string) []memproxy.Line {
			lines := budgets.Lines(limits, p, kind, user, fields)
			for i := range lines {
				lines[i].Soft = lines[i].Soft || !enforced
			}
			return lines
		},
		Enforce: *cfg.Enforce, Unattributed: access.Unattributed(cfg.Ownership.Unattributed), OneTenant: cfg.SingleTenant(),
		Changed:           gate.Changed(cfg.Ownership.Changed),
		Unclaimed:         gate.Unclaimed(cfg.Answers.Unclaimed),
		Headers:           gate.Unclaimed(cfg.Answers.Headers),
		NeverRefuse:       cfg.Memories.NeverRefuse,
		Rewrite:           memproxy.Rewriting(cfg.Memories.Rewrite),
		WithholdUntrusted: cfg.Memories.Untrusted == "withhold", Pending: cfg.NeedsReview(),
		Promotion: cfg.Identity.Established.PromotionRule(), TTL: cfg.Memories.Lifetime,
		Governance: cfg.Memories.Governance(),
		Screener:   screener, Approved: approved.Texts(cfg.Screening.Approved),
		Withhold: memproxy.FromFraction(*cfg.Screening.Withhold),
	}
	if *cfg.Screening.Withhold > 0 { // otherwise reads are not screened
		rules.Sanitise = screen.HoldThreshold // the risk from which a write would have been held
	}
	if err := use(rules); err != nil {
		return err
	}
	next := &compiledRules{ruleSources: in, rules: rules, cedar: compiled}
	if was := r.now.Load(); was.cedar != nil && len(was.cedar.Rules()) > 0 { // the first release of a fleet replaces no rules
		next.looser = append(cedar.Loosened(was.cedar, compiled), policy.RaisedLimits(was.bundle, b)...)
	}
	r.now.Store(next)
	r.changed.Send()
	r.fail(what, nil)
	return nil
}

// versionOf hashes everything that decisions depend on: sidecars with the same version
// decide alike. It hashes whole sections, so that new settings are included, but leaves
// out the paths of files.
func versionOf(b policy.Bundle, pack *screen.Pack, cfg *config.Config) string {
	counted, judged := cfg.Budgets, cfg.Screening
	counted.Redis, judged.Approved, judged.Pack = nil, nil, pack.Version()
	rest, err := json.Marshal([]any{
		cfg.Profile, cfg.Enforce, cfg.SingleTenant(), cfg.Ownership, cfg.Answers, cfg.Confidence, cfg.Memories, cfg.Sources, cfg.Identity.Established,
		counted, judged, approved.Texts(cfg.Screening.Approved),
	})
	if err != nil {
		panic(err) // cannot fail: only plain numbers and strings
	}
	return memproxy.TextSHA256(b.Version() + string(rest))[:16]
}

func (r *ruleset) current() *gate.Rules { return r.now.Load().rules }

// fail records why an edit of a source is not in force; nil records that it is.
func (r *ruleset) fail(what string, err error) { r.broken.Store(what, err) }

// failure returns why the newest edit of a source is not in force, or nil.
func (r *ruleset) failure(what string) error {
	err, _ := r.broken.Load(what)
	why, _ := err.(error)
	return why
}

// relaxed lists the built-in policies that refuse, hold or mark but do not decide here,
// because the bundle leaves them out or shadows them. A bundle without policies permits
// nothing.
func (r *compiledRules) relaxed() (out []cedar.RuleInfo) {
	shipped, err := cedar.Compile(policy.Builtin())
	if err != nil {
		panic(err) // cannot fail: embedded at build time
	}
	inForce := r.cedar.Rules()
	for _, rule := range shipped.Rules() {
		at := slices.IndexFunc(inForce, func(in cedar.RuleInfo) bool { return in.ID == rule.ID })
		if rule.Effect != "permit" && len(inForce) > 0 && (at < 0 || inForce[at].Shadow) {
			rule.Shadow = at >= 0
			out = append(out, rule)
		}
	}
	return out
}

// settings returns the settings in force. The limits and ceilings of a bundle that has any
// replace those of the configuration.
func (r *compiledRules) settings() []config.Setting {
	cfg, limits, ceilings := *r.cfg, r.bundle.Limits, r.bundle.Ceilings
	if limits != nil {
		cfg.Budgets.BudgetTable = *limits.Table()
	}
	if ceilings != nil {
		cfg.Confidence.CeilingTable = *ceilings.Table()
	}
	list := cfg.Settings()
	for i := range list {
		switch section, key, _ := strings.Cut(list[i].Name, "."); {
		case limits != nil && section == "budgets" && key != "enforce" && !strings.HasPrefix(key, "redis"),
			ceilings != nil && section == "confidence" && key != "clamp":
			list[i].From, list[i].Line = "bundle.yaml: "+section, 1
		}
	}
	return list
}

// position returns the position of a policy, "file:line", or "".
func (r *ruleset) position(rule string) string {
	if file, line, ok := r.now.Load().cedar.Position(rule); ok {
		return fmt.Sprintf("%s:%d", file, line)
	}
	return ""
}
