package config

import (
	"time"

	"github.com/memproxy/memproxy"
)

// profile is what a profile's name stands for in this file. The policies see
// the name as context.profile and differ too: docs/configuration.md has both.
type profile struct {
	require   bool // callers must present something known
	format    string
	unclaimed string   // members and headers of answers that nobody claims
	ungated   string   // runs that cannot be gated call by call
	outside   string   // keys outside the namespaces
	unnamed   string   // sources whose names the table lacks; "" claim nothing
	waits     []string // tiers of sources whose memories wait for review
	seal      bool     // what backends hold at the first start is recorded
	sweep     time.Duration
}

func profileOf(name string) profile {
	if name == "production" {
		return profile{require: true, format: "json", ungated: "deny", unclaimed: "drop", outside: "mark", unnamed: string(memproxy.SourceUntrusted), waits: []string{string(memproxy.SourceHostile)}, seal: true, sweep: time.Hour}
	}
	return profile{require: false, format: "text", ungated: "compensate", unclaimed: "pass", outside: "allow"}
}

// reconcile is how long an agent may wait after its turn broke off where nothing
// else is said.
const reconcile = Duration(30 * time.Second)

// defaults writes out what the profile stands for, where the file says nothing.
func (c *Config) defaults() {
	yes := func(b bool) *bool { return &b }
	set := func(s *string, d string) {
		if *s == "" {
			*s = d
		}
	}
	set(&c.Profile, "development")
	set(&c.State, "./state")
	set(&c.Admin.Listen, "127.0.0.1:9901")
	if c.Enforce == nil {
		c.Enforce = yes(true)
	}
	if c.Budgets.Enforce == nil {
		c.Budgets.Enforce = yes(true)
	}
	if c.Confidence.Clamp == nil {
		c.Confidence.Clamp = yes(true)
	}
	stands := profileOf(c.Profile)
	if c.Identity.Require == nil {
		c.Identity.Require = yes(stands.require && c.Identity.Default == nil)
	}
	if !*c.Identity.Require && c.Identity.Default == nil {
		c.Identity.Default = &Principal{ID: "anonymous"}
	}
	if d := c.Identity.Default; d != nil {
		set(&d.Kind, "anonymous")
		set(&d.Trust, "anonymous")
	}
	for i := range c.Identity.Keys {
		set(&c.Identity.Keys[i].Kind, "agent")
		set(&c.Identity.Keys[i].Trust, "authenticated")
	}
	if s := c.Identity.SPIFFE; s != nil {
		for i := range s.Rules {
			set(&s.Rules[i].Kind, "agent")
			set(&s.Rules[i].Trust, "authenticated")
		}
	}
	if o := c.Identity.OIDC; o != nil {
		set(&o.Kind, "agent")
		set(&o.Trust, "authenticated")
		set(&o.MaxTrust, "human")
		for i := range o.Rules {
			set(&o.Rules[i].Kind, "agent")
			set(&o.Rules[i].Trust, "authenticated")
		}
	}
	if c.Ownership.Unattributed == "" {
		c.Ownership.Unattributed = "visible"
		if c.manyTenants() {
			c.Ownership.Unattributed = "named"
		}
	}
	set(&c.Answers.Unclaimed, stands.unclaimed)
	set(&c.Answers.Headers, stands.unclaimed)
	for i := range c.Backends {
		b := &c.Backends[i]
		set(&b.CredentialAs, "token")
		set(&b.Ungated, stands.ungated)
		if b.Reconcile == nil {
			every := reconcile
			b.Reconcile = &every
		}
	}
	if c.Policy.Poll == 0 {
		c.Policy.Poll = Duration(time.Second)
	}
	set(&c.Ownership.Changed, "report")
	set(&c.Review.Answer, "accept")
	set(&c.Review.Reevaluate, "note")
	c.Sessions.defaults()
	if c.Review.MaxHeld == 0 {
		c.Review.MaxHeld = 100
	}
	if c.Review.MaxHeldAll == 0 {
		c.Review.MaxHeldAll = 10000
	}
	if c.Review.MaxHeldUser == 0 {
		c.Review.MaxHeldUser = 50
	}
	if c.Review.Need == 0 {
		c.Review.Need = 1
	}
	for i := range c.Review.Reviewers {
		if r := &c.Review.Reviewers[i]; len(r.Roles) == 0 {
			r.Roles = []string{"view", "review"}
		}
	}
	set(&c.Memories.Untrusted, "show")
	c.Sources.defaults(stands)
	set(&c.Memories.Rewrite, string(memproxy.RewriteOff))
	c.Memories.ttlDefaults()
	if c.Memories.Pending == nil && c.Profile == "production" {
		c.Memories.Pending = []string{string(memproxy.TrustAnonymous), pendingNew}
	}
	if n := &c.Memories.New; n.Accepted == nil {
		accepted := int64(10)
		n.Accepted = &accepted
	}
	if c.Memories.Seal == nil {
		c.Memories.Seal = yes(stands.seal)
	}
	c.Identity.Established.defaults()
	c.Memories.governanceDefaults(stands.outside)
	for v, d := range map[**Duration]time.Duration{
		&c.Ledger.Keep.Holds: 90 * 24 * time.Hour, &c.Ledger.Keep.Sessions: 90 * 24 * time.Hour,
		&c.Ledger.Keep.Deleted: 180 * 24 * time.Hour, &c.Ledger.Keep.Records: 365 * 24 * time.Hour,
		&c.Review.Age: 24 * time.Hour, &c.Review.Idle: 30 * time.Minute,
		&c.Memories.Quiet: 7 * 24 * time.Hour, &c.Memories.Archive: 180 * 24 * time.Hour, &c.Memories.Deleted: 30 * 24 * time.Hour, &c.Memories.Validate: 5 * time.Minute, &c.Memories.Sweep: stands.sweep,
		&c.Memories.New.Age: 7 * 24 * time.Hour, &c.Identity.Established.Age: 30 * 24 * time.Hour,
	} {
		if *v == nil {
			own := Duration(d)
			*v = &own
		}
	}
	if c.Screening.Enabled == nil {
		on := true
		c.Screening.Enabled = &on
	}
	set(&c.Screening.Sensitivity, "medium")
	if c.Screening.Withhold == nil {
		most := 0.85
		c.Screening.Withhold = &most
	}
	if b := c.Screening.Baseline; b != nil {
		b.defaults()
	}
	if c.Policy.Control != nil {
		c.Policy.Control.defaults()
	}
	limits := memproxy.DefaultLimits()
	row := func(w *WriteLimit, d memproxy.WriteLimit) {
		if w.PerHour == 0 {
			w.PerHour = d.PerHour
		}
		if w.Total == 0 {
			w.Total = d.Total
		}
	}
	row(&c.Budgets.Default, limits.Default)
	row(&c.Budgets.Anonymous, limits.Anonymous)
	if c.Budgets.Together == 0 {
		c.Budgets.Together = limits.Together
	}
	if c.Budgets.RapidPerMinute == nil {
		c.Budgets.RapidPerMinute = &limits.RapidPerMinute
	}
	if c.Audit.Retention == 0 {
		c.Audit.Retention = retention
	}
	c.Limits.defaults()
	set(&c.Log.Level, "info")
	set(&c.Log.Format, stands.format)
	set(&c.Telemetry.Service, "memproxy")
}

// manyTenants reports whether the configuration knows more than one tenant, or
// cannot know how many there are.
func (c *Config) manyTenants() bool {
	tenants, open := c.tenants()
	delete(tenants, "") // callers without a tenant share one space with nobody
	return open || len(tenants) > 1
}

// OneTenant reports whether all callers are of one tenant, or all of none.
// Callers without a tenant are another than those who have one.
func (c *Config) OneTenant() bool {
	tenants, open := c.tenants()
	return !open && len(tenants) <= 1
}

// tenants are those of the configured callers, and whether there may be others.
func (c *Config) tenants() (tenants map[string]bool, open bool) {
	tenants = map[string]bool{}
	for _, k := range c.Identity.Keys {
		tenants[k.Tenant] = true
	}
	switch {
	case c.Identity.Default != nil:
		tenants[c.Identity.Default.Tenant] = true
	case c.Identity.Require != nil && !*c.Identity.Require:
		tenants[""] = true
	}
	if s := c.Identity.SPIFFE; s != nil {
		for _, r := range s.Rules {
			tenants[r.Tenant] = true
		}
	}
	if o := c.Identity.OIDC; o != nil {
		if o.Claims["tenant"] != "" {
			return tenants, true
		}
		if len(o.Rules) == 0 {
			tenants[""] = true
		}
		for _, r := range o.Rules {
			tenants[r.Tenant] = true
		}
	}
	return tenants, false
}

// defaults also takes up what stands under the old names.
func (s *Sessions) defaults() {
	number := func(at **int, old, def int) {
		if *at == nil {
			*at = &def
			if old >= 0 {
				*at = &old
			}
		}
	}
	session, user := -1, -1
	if s.Strikes > 0 {
		session = s.Strikes
	}
	if s.PrincipalStrikes != nil {
		user = *s.PrincipalStrikes
	}
	number(&s.MaxRejections, session, 3)
	number(&s.MaxUserRejections, user, 10)
	number(&s.MaxPrincipalRejections, -1, 10**s.MaxUserRejections)
	if s.LockFor == nil {
		hour := Duration(time.Hour)
		s.LockFor = &hour
	}
}
