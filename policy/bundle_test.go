package policy_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

const permit = "@id(\"own\")\npermit (principal, action, resource);\n"

func dir(t testing.TB, files map[string]string) string {
	t.Helper()
	d := t.TempDir()
	for name, text := range files {
		put(t, filepath.Join(d, name), text)
	}
	return d
}

func put(t testing.TB, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}

func load(t testing.TB, d string) policy.Bundle {
	t.Helper()
	return must.Get(policy.Load(d))(t)
}

func names(b policy.Bundle) string {
	var out []string
	for _, s := range b.Policies {
		out = append(out, filepath.Base(s.Name))
	}
	return strings.Join(out, " ")
}

func TestLoad(t *testing.T) {
	const builtins = "access.cedar authority.cedar content.cedar fields.cedar layers.cedar screening.cedar surfaces.cedar synapse.cedar"
	for _, tc := range []struct {
		name     string
		files    map[string]string
		policies string
	}{
		{"beside the built-in ones", map[string]string{"own.cedar": permit}, "own.cedar " + builtins},
		{"without the built-in ones", map[string]string{"own.cedar": permit, "bundle.yaml": "builtin: false\n"}, "own.cedar"},
		{"settings only", map[string]string{"bundle.yaml": "disable: [surface.bulk]\n"}, builtins},
		{"settings of comments", map[string]string{"bundle.yaml": "# nothing\n"}, builtins},
		{"hidden and other files are not read", map[string]string{"own.cedar": permit, ".own.cedar": "x", "own.cedar~": "x", "#own.cedar#": "x", "README.md": "x", "4913": "x"}, "own.cedar " + builtins},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := load(t, dir(t, tc.files))
			expect.Equal(t, names(b), tc.policies)
			expect.Equal(t, b.Schema.Name, "builtin/memory.cedarschema", "schema")
		})
	}
	b := load(t, dir(t, map[string]string{"s.cedarschema": "entity X;", "bundle.yaml": "disable: [a]\nshadow: [b, c]\n"}))
	if b.Schema.Text != "entity X;" || !slices.Equal(b.Disabled, []string{"a"}) || !slices.Equal(b.Shadowed, []string{"b", "c"}) {
		t.Errorf("got %s, %v, %v", b.Schema.Text, b.Disabled, b.Shadowed)
	}
}

// Each error names the file, and the line if there is one. A directory that looks like
// an unfinished edit is refused.
// Proves CARD-3
func TestLoadErrors(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files map[string]string
		want  string // after the directory
	}{
		{"an empty directory", nil, ": no *.cedar"},
		{"nothing of ours", map[string]string{"README.md": "x"}, ": no *.cedar"},
		{"a file without a byte", map[string]string{"own.cedar": ""}, "/own.cedar:1: the file is empty"},
		{"an empty schema", map[string]string{"s.cedarschema": ""}, "/s.cedarschema:1: the file is empty"},
		{"empty settings", map[string]string{"bundle.yaml": ""}, "/bundle.yaml:1: the file is empty"},
		{"two schemas", map[string]string{"a.cedarschema": "entity X;", "b.cedarschema": "entity X;"}, "/b.cedarschema:1: a second schema, in addition to "},
		{"not UTF-8", map[string]string{"own.cedar": "//\n//\n\xff"}, "/own.cedar:3: not UTF-8"},
		{"over the bound", map[string]string{"own.cedar": strings.Repeat("/", 1<<20+1)}, "/own.cedar: over 1048576 bytes"},
		{"an unknown key", map[string]string{"bundle.yaml": "builtin: true\ndisabled: [a]\n"}, "/bundle.yaml:2: unknown key \"disabled\"; did you mean \"disable\"?"},
		{"a key twice", map[string]string{"bundle.yaml": "disable: [a]\ndisable: [b]\n"}, "/bundle.yaml:2: key \"disable\" occurs twice; the first is on line 1"},
		{"a wrong type", map[string]string{"bundle.yaml": "\nbuiltin: 7\n"}, "/bundle.yaml:2: builtin must be true or false"},
		{"a text for a boolean", map[string]string{"bundle.yaml": "builtin: \"no\"\n"}, "/bundle.yaml:1: builtin must be true or false"},
		{"a word for a boolean", map[string]string{"bundle.yaml": "builtin: off\n"}, "/bundle.yaml:1: builtin must be true or false"},
		{"two documents", map[string]string{"bundle.yaml": "builtin: true\n---\nbuiltin: false\n"}, "/bundle.yaml:2: a second document"},
		{"an unknown key of a table", map[string]string{"bundle.yaml": "budgets:\n  default: {per_hour: 1}\n"}, "/bundle.yaml:2: unknown key \"per_hour\" in budgets.default"},
		{"a negative limit", map[string]string{"bundle.yaml": "budgets: {tenants: {acme: {writes_total: -1}}}\n"}, "/bundle.yaml:1: budgets.tenants.acme.writes_total is at least 1, not -1"},
		{"a limit of 0, which would be none", map[string]string{"bundle.yaml": "budgets:\n  namespaces:\n    food: {writes_total: 0}\n"}, "/bundle.yaml:3: budgets.namespaces.food.writes_total is at least 1, not 0"},
		{"a part of a memory", map[string]string{"bundle.yaml": "budgets: {default: {writes_per_hour: 0.5}}\n"}, "/bundle.yaml:1: budgets.default.writes_per_hour must be a whole number"},
		{"two spellings of a field", map[string]string{"bundle.yaml": "budgets: {namespaces: {gotchas: {writes_total: 5}, \" Gotchas\": {writes_total: 500}}}\n"}, "/bundle.yaml:1: key \" Gotchas\" occurs twice; the first is on line 1"},
		{"a ceiling over 1", map[string]string{"bundle.yaml": "confidence: {principal: {human: 1.1}}\n"}, "/bundle.yaml:1: confidence.principal.human is at most 1, not 1.1"},
		{"a tier that is none", map[string]string{"bundle.yaml": "confidence: {source: {friends: 1}}\n"}, "/bundle.yaml:1: unknown key \"friends\" in confidence.source"},
		{"a reference to a file", map[string]string{"bundle.yaml": "shadow:\n- file:/etc/hostname\n"}, "/bundle.yaml:2: references are not supported: write the value out"},
		{"a reference to a variable", map[string]string{"bundle.yaml": "disable: [\"${HOME}\"]\n"}, "/bundle.yaml:1: references are not supported: write the value out"},
		{"an empty pack", map[string]string{"screening.pack": ""}, "/screening.pack:1: the file is empty"},
		{"not YAML", map[string]string{"bundle.yaml": "disable: [\n"}, "/bundle.yaml:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := dir(t, tc.files)
			if _, err := policy.Load(d); err == nil || !strings.HasPrefix(err.Error(), "policy: "+d+tc.want) {
				t.Errorf("got %v, want %s%s", err, d, tc.want)
			}
		})
	}
	t.Run("no directory", func(t *testing.T) {
		expect.ErrorHas(t, expect.Err(policy.Load(filepath.Join(t.TempDir(), "absent"))), "absent")
	})
	t.Run("a dangling link", func(t *testing.T) {
		d := t.TempDir()
		if err := os.Symlink("absent", filepath.Join(d, "own.cedar")); err != nil {
			t.Skip(err)
		}
		expect.ErrorHas(t, expect.Err(policy.Load(d)), "own.cedar")
	})
	t.Run("a device", func(t *testing.T) {
		d := t.TempDir()
		if err := os.Symlink("/dev/zero", filepath.Join(d, "own.cedar")); err != nil {
			t.Skip(err)
		}
		if _, err := policy.Load(d); err == nil || !strings.HasSuffix(err.Error(), "own.cedar is not a file") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a file at the bound", func(t *testing.T) {
		load(t, dir(t, map[string]string{"own.cedar": strings.Repeat("/", 1<<20)}))
	})
}

// The version is a hash of the content: it is independent of order and directory, and
// changes with everything else.
// Proves CARD-3
func TestVersion(t *testing.T) {
	files := map[string]string{"a.cedar": permit, "b.cedar": "// b", "bundle.yaml": "disable: [x, y]\nshadow: [z]\n"}
	b := load(t, dir(t, files))
	want := b.Version()
	expect.Equal(t, load(t, dir(t, files)).Version(), want, "the directory's place changes the version")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		c := b
		c.Policies, c.Disabled = slices.Clone(b.Policies), slices.Clone(b.Disabled)
		rng.Shuffle(len(c.Policies), func(i, j int) { c.Policies[i], c.Policies[j] = c.Policies[j], c.Policies[i] })
		rng.Shuffle(len(c.Disabled), func(i, j int) { c.Disabled[i], c.Disabled[j] = c.Disabled[j], c.Disabled[i] })
		must.Equal(t, c.Version(), want, "order changes the version")
	}
	seen := map[string]string{want: "the bundle itself"}
	for name, change := range map[string]func(*policy.Bundle){
		"a policy's text":                func(b *policy.Bundle) { b.Policies[0].Text += " " },
		"a file's name":                  func(b *policy.Bundle) { b.Policies[0].Name = "z.cedar" },
		"a policy less":                  func(b *policy.Bundle) { b.Policies = b.Policies[1:] },
		"the schema":                     func(b *policy.Bundle) { b.Schema.Text += " " },
		"a disabled id less":             func(b *policy.Bundle) { b.Disabled = []string{"x"} },
		"a disabled id that is shadowed": func(b *policy.Bundle) { b.Disabled, b.Shadowed = []string{"x"}, []string{"y", "z"} },
		"the lists the other way":        func(b *policy.Bundle) { b.Disabled, b.Shadowed = b.Shadowed, b.Disabled },
		"a list's end elsewhere":         func(b *policy.Bundle) { b.Disabled, b.Shadowed = []string{"x", "y", "z"}, nil },
		"limits":                         func(b *policy.Bundle) { l := memproxy.DefaultLimits(); b.Limits = &l },
		"ceilings":                       func(b *policy.Bundle) { c := memproxy.DefaultCeilings(); b.Ceilings = &c },
		"a screening pack":               func(b *policy.Bundle) { b.Screening = []byte("p") },
		"two ids run together":           func(b *policy.Bundle) { b.Disabled = []string{"xy"} },
		"text moved from one file to another": func(b *policy.Bundle) {
			b.Policies[0].Text, b.Policies[1].Text = "", b.Policies[0].Text+b.Policies[1].Text
		},
	} {
		c := load(t, dir(t, files))
		change(&c)
		if other, same := seen[c.Version()]; same {
			t.Errorf("%s: the version is that of %s", name, other)
		}
		seen[c.Version()] = name
	}
	if v := policy.Builtin().Version(); len(v) != 64 || v != policy.Builtin().Version() {
		t.Errorf("the built-in bundle's version is %s", v)
	}
}

// Any directory's files are a bundle or an error naming the file; parsing never panics.
func FuzzParse(f *testing.F) {
	f.Add([]byte("builtin: false\ndisable: [a]\nshadow: [b]\n"), []byte(permit))
	f.Add([]byte("disable: &a [*a]"), []byte("\xff"))
	f.Add([]byte("a: 1\n---\n"), []byte{})
	f.Add([]byte("builtin: {}\nbuiltin: 1"), []byte("//"))
	f.Add([]byte("<<: {builtin: false}"), []byte("@id"))
	d := f.TempDir()
	f.Fuzz(func(t *testing.T, set, text []byte) {
		put(t, filepath.Join(d, "bundle.yaml"), string(set))
		put(t, filepath.Join(d, "own.cedar"), string(text))
		b, err := policy.Load(d)
		if err != nil {
			if !strings.Contains(err.Error(), "bundle.yaml") && !strings.Contains(err.Error(), "own.cedar") {
				t.Errorf("an error without its file: %v", err)
			}
			return
		}
		again, err := policy.Load(d)
		must.Do(t, err, "read twice, two bundles")
		expect.Equal(t, again.Version(), b.Version(), "read twice, two bundles")
	})
}

// Proves EDGE-9: a tenant is compared by the row that applies to it, its own or that of
// all others, and a version that reports rapid writes later, or never, is looser.
func TestRowsOfTenantsAreCompared(t *testing.T) {
	of := func(rows map[string]memproxy.WriteLimit, rapid int64) policy.Bundle {
		l := memproxy.DefaultLimits()
		l.Tenants, l.RapidPerMinute = rows, rapid
		return policy.Bundle{Limits: &l}
	}
	all, more, less := memproxy.WriteLimit{PerHour: 300}, memproxy.WriteLimit{PerHour: 1000}, memproxy.WriteLimit{PerHour: 100}
	type rows = map[string]memproxy.WriteLimit
	for _, c := range []struct {
		from, to policy.Bundle
		want     []string
	}{
		{of(rows{"*": all}, 30), of(rows{"*": all, "acme": more}, 30), []string{"budgets.tenants.acme.writes_per_hour rises from 300 to 1000"}},
		{of(rows{"*": all}, 30), of(rows{"*": all, "acme": less}, 30), nil},
		{of(rows{"*": less, "acme": more}, 30), of(rows{"*": less}, 30), nil},
		{of(rows{"acme": less}, 30), of(nil, 30), []string{"budgets.tenants.acme.writes_per_hour rises from 100 to no limit"}},
		{of(nil, 30), of(rows{"acme": less}, 30), nil},
		{of(nil, 30), of(nil, 60), []string{"budgets.rapid_per_minute rises from 30 to 60"}},
		{of(nil, 30), of(nil, 0), []string{"budgets.rapid_per_minute rises from 30 to no limit"}},
		{of(nil, 30), of(nil, 20), nil},
		{of(nil, 0), of(nil, 30), nil},
	} {
		expect.List(t, policy.RaisedLimits(c.from, c.to), c.want, "from", c.from.Limits, "to", c.to.Limits)
	}
}

// An id in both lists has one position, whenever the file is read.
//
// Proves CARD-3
func TestPositionOfAnIDInBothLists(t *testing.T) {
	d := dir(t, map[string]string{"bundle.yaml": "shadow:\n- a\ndisable: [b, a]\n"})
	for range 20 {
		b := load(t, d)
		expect.Equal(t, b.Position("a")+" "+b.Position("b"), d+"/bundle.yaml:2 "+d+"/bundle.yaml:3")
	}
}
