package config_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/face"
	"github.com/memproxy/memproxy/proxy"
)

// row is one key with its whole path.
type row struct {
	config.Field
	path string
}

// rows lists every key that holds a value, "backends[].limits.body".
func rows(t reflect.Type, prefix string) []row {
	var out []row
	for _, f := range config.Fields(t) {
		path, typ := strings.TrimPrefix(prefix+"."+f.Key, "."), f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case typ == reflect.TypeFor[config.Secret](), typ == reflect.TypeFor[config.Names]():
			out = append(out, row{f, path})
		case typ == reflect.TypeFor[config.WriteLimit]():
			limit := memproxy.DefaultLimits().Default
			if f.Key == "anonymous" {
				limit = memproxy.DefaultLimits().Anonymous
			}
			for i, r := range rows(typ, path) {
				r.Doc, r.Default = f.Doc+": "+r.Doc, fmt.Sprint([]int64{limit.PerHour, limit.Total}[i])
				out = append(out, r)
			}
		case typ.Kind() == reflect.Struct:
			out = append(out, rows(typ, path)...)
		case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
			out = append(out, rows(typ.Elem(), path+"[]")...)
		case typ.Kind() == reflect.Map && typ.Elem() == reflect.TypeFor[config.WriteLimit]():
			for _, r := range rows(typ.Elem(), path+".*") {
				r.Doc = f.Doc + ": " + r.Doc
				out = append(out, r)
			}
		case typ.Kind() == reflect.Map:
			out = append(out, row{f, path + ".*"})
		default:
			out = append(out, row{f, path})
		}
	}
	return out
}

// typeName is a type in the document's words.
func typeName(f config.Field) string {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Map {
		t = t.Elem()
	}
	bounds := ""
	if f.Max != "" {
		bounds = ", " + f.Min + " to " + f.Max
	} else if f.Min != "" && t != reflect.TypeFor[config.Duration]() {
		bounds = ", at least " + f.Min
	}
	switch {
	case f.Enum != nil:
		return "`" + strings.Join(f.Enum, "`, `") + "`"
	case t == reflect.TypeFor[config.Duration]():
		return "duration"
	case t == reflect.TypeFor[config.Secret]():
		return "secret"
	case t == reflect.TypeFor[config.Names]():
		return "name or names"
	case t.Kind() == reflect.Slice:
		return "list of text"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Int, t.Kind() == reflect.Int64:
		return "whole number" + bounds
	case t.Kind() == reflect.Float64:
		return "number" + bounds
	}
	return "text"
}

const configurationDoc = "../docs/configuration.md"

// The document's tables are the structs' tags, key for key.
func TestDocumentListsEveryKey(t *testing.T) {
	tables, heads := map[string]string{}, []string{}
	for _, r := range rows(reflect.TypeFor[config.Config](), "") {
		head, _, _ := strings.Cut(strings.ReplaceAll(r.path, "[]", ""), ".")
		if typ := r.Type; !strings.Contains(r.path, ".") && typ.Kind() != reflect.Struct {
			head = "top"
		}
		if !slices.Contains(heads, head) {
			heads = append(heads, head)
			tables[head] = "| key | type | default | meaning |\n|---|---|---|---|\n"
		}
		def := r.Default
		switch {
		case r.Required:
			def = "required"
		case def != "" && !strings.ContainsAny(def, " "):
			def = "`" + def + "`"
		}
		tables[head] += fmt.Sprintf("| `%s` | %s | %s | %s |\n", r.path, typeName(r.Field), def, r.Doc)
	}
	b, err := os.ReadFile(configurationDoc)
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	for _, head := range heads {
		from, to := "<!-- keys: "+head+" -->\n", "<!-- end -->"
		before, rest, ok := strings.Cut(doc, from)
		have, after, closed := strings.Cut(rest, to)
		if !ok || !closed {
			t.Errorf("docs/configuration.md has no place for %s: %s", head, from)
			continue
		}
		if have != tables[head] && !*update {
			t.Errorf("docs/configuration.md, table %s, is stale: run go test ./config -update", head)
		}
		doc = before + from + tables[head] + to + after
	}
	if n := strings.Count(doc, "<!-- keys: "); n != len(heads) {
		t.Errorf("the document has %d tables, the structs %d", n, len(heads))
	}
	if *update {
		if err := os.WriteFile(configurationDoc, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The examples in the document are configurations.
func TestDocumentExamplesParse(t *testing.T) {
	b, err := os.ReadFile(configurationDoc)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, part := range strings.Split(string(b), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(part, "```")
		if !strings.Contains(text, "backends:") {
			text += backend
		}
		if _, err := config.Parse(fmt.Sprintf("example %d", i+1), []byte(strings.ReplaceAll(text, "file:/", "x:/")), env); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		n++
	}
	if n == 0 {
		t.Error("no examples")
	}
}

// every_key.yaml has every key, so that what is tried on it is tried on all.
func TestEveryKeyHasEveryKey(t *testing.T) {
	var root yaml.Node
	if err := yaml.Unmarshal(valid(t, "every_key"), &root); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	var visit func(n *yaml.Node, path string)
	visit = func(n *yaml.Node, path string) {
		have[path] = true
		for i, c := range n.Content {
			switch {
			case n.Kind == yaml.DocumentNode:
				visit(c, path)
			case n.Kind == yaml.SequenceNode:
				visit(c, path+"[]")
			case n.Kind == yaml.MappingNode && i%2 == 1:
				visit(c, strings.TrimPrefix(path+"."+n.Content[i-1].Value, "."))
				visit(c, path+".*")
			}
		}
	}
	visit(&root, "")
	for _, r := range rows(reflect.TypeFor[config.Config](), "") {
		if !have[r.path] {
			t.Errorf("every_key.yaml has no %s", r.path)
		}
		if r.Doc == "" {
			t.Errorf("%s has no description", r.path)
		}
	}
}

// What the tags call the default is the default, here or in the package that
// it is handed to.
func TestDefaultsAreAsDocumented(t *testing.T) {
	c := parse(t, backend)
	got := map[string]string{
		"profile": c.Profile, "enforce": fmt.Sprint(*c.Enforce), "state": c.State, "admin.listen": c.Admin.Listen,
		"backends[].credential_as":     c.Backends[0].CredentialAs,
		"backends[].limits.body":       fmt.Sprint(face.DefaultMaxBody),
		"backends[].limits.answer":     fmt.Sprint(face.DefaultMaxAnswer),
		"backends[].limits.depth":      fmt.Sprint(jsondoc.DefaultRequestDepth),
		"backends[].timeouts.body":     proxy.DefaultBodyTimeout.String(),
		"backends[].timeouts.upstream": proxy.DefaultUpstreamTimeout.String(),
		"backends[].timeouts.run":      proxy.DefaultRunTimeout.String(),
		"backends[].reconcile":         c.Backends[0].Reconcile.String(),
		"confidence.clamp":             fmt.Sprint(*c.Confidence.Clamp),
		"budgets.enforce":              fmt.Sprint(*c.Budgets.Enforce),
		"budgets.together":             fmt.Sprint(c.Budgets.Together),
		"policy.poll":                  c.Policy.Poll.String(),
		"budgets.rapid_per_minute":     fmt.Sprint(*c.Budgets.RapidPerMinute),
		"budgets.redis.timeout":        budgets.DefaultDeadline.String(),
		"budgets.redis.degraded_share": fmt.Sprint(float64(budgets.DefaultShare) / 1000),
		"ownership.changed":            c.Ownership.Changed,
		"review.answer":                c.Review.Answer, "review.need": fmt.Sprint(c.Review.Need), "review.age": c.Review.Age.String(), "review.idle": c.Review.Idle.String(),
		"review.reevaluate": c.Review.Reevaluate, "review.max_held": fmt.Sprint(c.Review.MaxHeld), "review.max_held_tenant": fmt.Sprint(c.Review.MaxHeldAll), "review.max_held_user": fmt.Sprint(c.Review.MaxHeldUser), "limits.connections": fmt.Sprint(face.DefaultConnections), "limits.connections_per_address": fmt.Sprint(face.DefaultConnectionsPeer), "limits.in_flight": fmt.Sprint(face.DefaultInFlight), "limits.in_flight_per_address": fmt.Sprint(face.DefaultInFlightPeer), "limits.write": face.DefaultWriteTimeout.String(), "limits.rejections": fmt.Sprint(*c.Limits.Rejections), "sessions.max_rejections": fmt.Sprint(*c.Sessions.MaxRejections), "sessions.max_user_rejections": fmt.Sprint(*c.Sessions.MaxUserRejections),
		"sessions.max_principal_rejections": fmt.Sprint(*c.Sessions.MaxPrincipalRejections), "sessions.lock_for": c.Sessions.LockFor.String(),
		"ledger.keep.holds": c.Ledger.Keep.Holds.String(), "ledger.keep.sessions": c.Ledger.Keep.Sessions.String(), "ledger.keep.deleted": c.Ledger.Keep.Deleted.String(), "ledger.keep.records": c.Ledger.Keep.Records.String(),
		"memories.new.accepted": fmt.Sprint(*c.Memories.New.Accepted), "memories.new.age": c.Memories.New.Age.String(), "memories.new.configured": fmt.Sprint(c.Memories.New.Configured),
		"identity.established.facts": fmt.Sprint(*c.Identity.Established.Facts), "identity.established.age": c.Identity.Established.Age.String(), "identity.established.corrected": fmt.Sprint(*c.Identity.Established.Corrected),
		"memories.never_refuse": fmt.Sprint(c.Memories.NeverRefuse), "memories.untrusted": c.Memories.Untrusted, "memories.rewrite": c.Memories.Rewrite, "memories.inferred": c.Memories.Inferred, "memories.quiet": c.Memories.Quiet.String(), "memories.archive": c.Memories.Archive.String(), "memories.deleted": c.Memories.Deleted.String(), "memories.validate": c.Memories.Validate.String(), "memories.sweep": c.Memories.Sweep.String(),
		"screening.enabled":     fmt.Sprint(*c.Screening.Enabled),
		"screening.sensitivity": c.Screening.Sensitivity,
		"screening.withhold":    fmt.Sprint(*c.Screening.Withhold),
		"audit.retention":       c.Audit.Retention.String(),
		"telemetry.service":     c.Telemetry.Service, "log.level": c.Log.Level,
	}
	o := parse(t, "identity: {oidc: {issuer: \"https://i.example\", audience: a}}\n"+backend).Identity.OIDC
	for name, w := range map[string]config.WriteLimit{"default": c.Budgets.Default, "anonymous": c.Budgets.Anonymous} {
		got["budgets."+name+".writes_per_hour"], got["budgets."+name+".writes_total"] = fmt.Sprint(w.PerHour), fmt.Sprint(w.Total)
	}
	got["identity.oidc.kind"], got["identity.oidc.trust"], got["identity.oidc.max_trust"] = o.Kind, o.Trust, o.MaxTrust
	// These are set where they are used, and their tests stand there.
	elsewhere := []string{"identity.oidc.prefix", "telemetry.sample", "confidence.unclaimed", "screening.baseline.learn", "screening.baseline.users", "screening.judge.timeout", "screening.judge.per_minute"}
	for _, r := range rows(reflect.TypeFor[config.Config](), "") {
		if r.Default == "" || strings.ContainsAny(r.Default, " ;") || slices.Contains(elsewhere, r.path) {
			continue // prose: TestProfiles and the others look at those
		}
		if got[r.path] != r.Default {
			t.Errorf("%s: documented %q, is %q", r.path, r.Default, got[r.path])
		}
	}
}
