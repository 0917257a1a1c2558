// Package examples holds configurations that can be copied. Each is tested.
package examples

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
	"github.com/memproxy/memproxy/policy/cedar"
)

func getenv(name string) string {
	return map[string]string{"MEM0_API_KEY": "m0-example", "REDIS_URL": "rediss://:example@redis:6379/0"}[name]
}

// read loads an example from its own directory, as its README says.
func read(t *testing.T, name string) (*config.Config, *cedar.Policy) {
	t.Helper()
	t.Chdir(name)
	cfg := must.Get(config.Load("memproxy.yaml", getenv))(t)
	b := policy.Builtin()
	if cfg.Policy.Dir != "" {
		b = must.Get(policy.Load(cfg.Policy.Dir))(t)
	}
	p := must.Get(cedar.Compile(b))(t)
	return cfg, p
}

// Proves CARD-3, TRL-10
func TestEveryExampleLoads(t *testing.T) {
	warnings := map[string]int{"own-policies": 1} // a default principal in production
	dirs, err := filepath.Glob("*/memproxy.yaml")
	if err != nil || len(dirs) < 3 {
		t.Fatal(dirs, err)
	}
	for _, path := range dirs {
		name := filepath.Dir(path)
		t.Run(name, func(t *testing.T) {
			cfg, _ := read(t, name)
			expect.Len(t, cfg.Warnings(), warnings[name], "warnings")
			readme, err := os.ReadFile("README.md")
			if n := strings.Count(string(readme), "\n"); err != nil || n > 15 {
				t.Errorf("README.md: %d lines, %v", n, err)
			}
		})
	}
}

// Proves TRL-1, TRL-6
func TestProductionIsWhatItSays(t *testing.T) {
	cfg, _ := read(t, "production")
	if !*cfg.Identity.Require || cfg.Identity.Default != nil || !*cfg.Enforce {
		t.Error("callers that present nothing are let in")
	}
	agent := cfg.Identity.Keys[0].ToPrincipal()
	if agent.ActsAs.Allows("sales") || !agent.ActsAs.Allows("support") || agent.Users.Allows("eve") {
		t.Errorf("the agent may name %+v", agent)
	}
	if cfg.Budgets.Redis == nil || !strings.HasPrefix(cfg.Budgets.Redis.URL.Reveal(), "rediss://") || cfg.Telemetry.OTLP == "" {
		t.Error("Redis or the collector is missing")
	}
}

// question is a row of cases.txt as the gate would ask it.
func question(who, roles, action, field string, size, items int) memproxy.Question {
	none := func(s string) string { return strings.TrimPrefix(s, "-") }
	p := memproxy.Principal{ID: who, Kind: memproxy.PrincipalKind(who), Tenant: "acme", Trust: memproxy.TrustAuthenticated, Method: "key"}
	if who == "human" {
		p.Trust = memproxy.TrustHuman
	}
	if none(roles) != "" {
		p.Roles = strings.Split(roles, ",")
	}
	op := &memproxy.Operation{Kind: memproxy.Kind(action), Backend: "mem0", Route: "mem0.v3.add"}
	for i := range items {
		it := memproxy.Item{Kind: memproxy.ItemContent, Field: none(field)}
		if i == 0 {
			it.Text = strings.Repeat("x", size)
		}
		op.Items = append(op.Items, it)
	}
	return memproxy.Question{Principal: p, Operation: op, Profile: "production", Ceiling: memproxy.DefaultCeilings().Ceiling(p.Trust, "")}
}

// Proves CARD-3, SYN-1
func TestOwnPolicies(t *testing.T) {
	_, p := read(t, "own-policies")
	f := must.Get(os.Open("cases.txt"))(t)
	defer f.Close()
	fired, n := map[string]bool{}, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		c := strings.Fields(sc.Text())
		must.Len(t, c, 9, sc.Text())
		size, sizeErr := strconv.Atoi(c[4])
		items, itemsErr := strconv.Atoi(c[5])
		must.Do(t, sizeErr, sc.Text())
		must.Do(t, itemsErr, sc.Text())
		n++
		got := must.Get(p.Rule(t.Context(), question(c[0], c[1], c[2], c[3], size, items)))(t)
		rule := "-"
		for _, r := range got.Reasons {
			fired[r.Rule] = true
			if rule == "-" {
				rule = r.Rule
			}
		}
		for _, r := range got.Shadow {
			fired[r.Rule] = true
		}
		expect.Equal(t, fmt.Sprintf("%s %s %s", got.Verdict, got.ShadowVerdict, rule), strings.Join(c[6:], " "), sc.Text())
	}
	for _, id := range p.IDs() {
		if strings.HasPrefix(id, "acme.") && !fired[id] {
			t.Errorf("no case of the %d shows %s", n, id)
		}
	}
}
