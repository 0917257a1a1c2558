package app_test

import (
	"cmp"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	lettaback "github.com/memproxy/memproxy/adapters/letta/embedded"
	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// ordinaryCall is one request of an application, the role or setting that it needs (""
// for none), and the name by which later requests use the id in its answer.
type ordinaryCall struct{ name, opens, method, path, body, id string }

func ordinaryCalls(t *testing.T, backend string) (calls []ordinaryCall) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "applications", backend+".txt")))(t)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		part := append(strings.SplitN(strings.TrimSpace(line), " | ", 4), "")
		c := ordinaryCall{opens: strings.TrimPrefix(part[1], "-"), body: part[3]}
		c.name, c.id, _ = strings.Cut(part[0], " > ")
		c.method, c.path, _ = strings.Cut(part[2], " ")
		calls = append(calls, c)
	}
	return calls
}

// opened reports whether the given setting is enough for a call.
func (c *ordinaryCall) opened(opens string) bool {
	return c.opens == "" || c.opens == opens || opens == "memproxy-admin" && strings.HasPrefix(c.opens, "memproxy-")
}

var firstID = regexp.MustCompile(`"id": ?"([^"]+)"`)

// makeCalls makes the calls that the given setting permits, and passes the answers of
// the others to refused unless it is nil.
func makeCalls(t *testing.T, calls []ordinaryCall, opens string, do func(method, path, body string) got, refused func(ordinaryCall, got)) map[string]got {
	t.Helper()
	answers, ids := map[string]got{}, []string{"{", "{"}
	for _, c := range calls {
		enough := c.opened(opens)
		if !enough && refused == nil {
			continue
		}
		in := strings.NewReplacer(ids...)
		a := do(c.method, in.Replace(c.path), in.Replace(c.body))
		if !enough {
			refused(c, a)
			continue
		}
		answers[c.name] = a
		if id := firstID.FindStringSubmatch(a.body); c.id != "" && id != nil {
			ids = append([]string{"{" + c.id + "}", id[1]}, ids...)
		}
	}
	return answers
}

// Proves EDGE-18, CARD-1: with the file written by init, each request of an ordinary
// application gets the backend's answer, or is refused with one sentence that names the
// role or setting that permits it; with that one line it is answered. No refusal locks
// the application.
func TestOrdinaryApplications(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ backend, header, key string }{
		{"mem0", "Authorization", "Token " + devToken},
		{"mem0-server", "X-API-Key", devToken},
		{"letta", "Authorization", "Bearer " + devToken},
	} {
		calls := ordinaryCalls(t, tc.backend)
		openings := []string{""}
		seen := map[string]bool{"": true}
		for _, c := range calls {
			if !seen[c.opens] {
				seen[c.opens] = true
				openings = append(openings, c.opens)
			}
		}
		for _, opens := range openings {
			t.Run(tc.backend+" "+cmp.Or(opens, "as it is"), func(t *testing.T) {
				t.Parallel()
				do := openedWith(t, tc.backend, opens)
				through := makeCalls(t, calls, opens, func(method, path, body string) got {
					return do(method, path, body, tc.header, tc.key)
				}, func(c ordinaryCall, a got) {
					var body struct{ Detail string }
					err := json.Unmarshal([]byte(a.body), &body)
					expect.Equal(t, err == nil && a.status == http.StatusForbidden && strings.Contains(body.Detail, c.opens), true, c.name, a.status, a.body, "want a refusal that names", c.opens)
					for other := range seen {
						if strings.HasPrefix(other, "memproxy-") && other != c.opens && !strings.Contains(body.Detail, other) && strings.Contains(a.body, other) {
							t.Errorf("%s: beside %s it names %s, which does not open it: %s", c.name, c.opens, other, a.body)
						}
					}
				})
				bare := &rig{t: t, base: bareBackend(t, tc.backend)}
				for name, want := range makeCalls(t, calls, opens, func(method, path, body string) got {
					return bare.do(method, path, body, tc.header, tc.key)
				}, nil) {
					if a := through[name]; a.status != want.status {
						t.Errorf("%s: %d %s; the backend alone answers %d %s", name, a.status, a.body, want.status, want.body)
					} else if a.status >= 400 && strings.Contains(a.body, "withholds") {
						t.Errorf("%s: %s; the backend alone says %s", name, a.body, want.body)
					}
				}
			})
		}
	}
}

// Proves EDGE-18: docs/clients.md lists the calls that TestOrdinaryApplications makes,
// and what permits the others.
func TestClientsPageMatchesTheCalls(t *testing.T) {
	t.Parallel()
	const file = "../docs/clients.md"
	b := must.Get(os.ReadFile(file))(t)
	page := string(b)
	for _, backend := range []string{"mem0", "mem0-server", "letta"} {
		var openings []string
		names := map[string][]string{}
		for _, c := range ordinaryCalls(t, backend) {
			if names[c.opens] == nil {
				openings = append(openings, c.opens)
			}
			names[c.opens] = append(names[c.opens], c.name)
		}
		table := "| opened by | calls |\n|---|---|\n"
		for _, o := range openings {
			row := "nothing"
			if o != "" {
				row = "`" + o + "`"
			}
			table += "| " + row + " | " + strings.Join(names[o], "; ") + " |\n"
		}
		before, rest, ok := strings.Cut(page, "<!-- calls: "+backend+" -->\n")
		is, after, end := strings.Cut(rest, "<!-- end -->")
		must.Equal(t, ok && end, true, file, "has no place for the calls of", backend)
		expect.Equal(t, is, table, file, "lists other calls of", backend, "than the test makes: UPDATE=1 go test ./app -run Clients writes it")
		page = before + "<!-- calls: " + backend + " -->\n" + table + "<!-- end -->" + after
	}
	if os.Getenv("UPDATE") != "" {
		writeFile(t, file, page)
	}
}

// bareBackend is an embedded backend without memproxy.
func bareBackend(t *testing.T, backend string) string {
	t.Helper()
	var h http.Handler = lettaback.New()
	if backend != "letta" {
		b := must.Get(embedded.New(embedded.Options{}))(t)
		h = b
	}
	up := serving(t, h)
	return up.URL
}

// openedWith is memproxy with the file written by init and one more line.
func openedWith(t *testing.T, backend, opens string) func(method, path, body string, header ...string) got {
	t.Helper()
	conf := rigged(t, backend, "UPSTREAM")
	var before func()
	r := &rig{t: t}
	switch {
	case strings.HasPrefix(opens, "memproxy-"):
		conf = strings.Replace(conf, "# roles: [memproxy-forget]", "roles: ["+opens+"]", 1)
	case opens != "":
		conf += "policy: {dir: \"DIR/policies\"}\n"
		before = func() {
			must.Do(t, os.Mkdir(filepath.Join(r.dir, "policies"), 0o700))
			writeFile(t, filepath.Join(r.dir, "policies", "bundle.yaml"), opens+"\n")
		}
	}
	if opens != "" && opens != "memproxy-forget" && !strings.Contains(conf, opens) && before == nil {
		t.Fatalf("the file has no line for %s", opens)
	}
	r.before = before
	return startRig(r, conf, "UPSTREAM", bareBackend(t, backend)).do
}

// Proves EDGE-18: a refusal for a budget or a lock states the limit, its end and the
// setting. Repeated refusals by policies lock nobody.
func TestRefusalsStateTheLimit(t *testing.T) {
	t.Parallel()
	said := regexp.MustCompile(`"detail":"([^"]*)"`)
	for _, tc := range ring.Sample([]struct {
		name, more, refused string
		times               int
		want                []string
	}{
		{"an hour's budget", "budgets: {default: {writes_per_hour: 1}}", note, 1, []string{
			"1 of 1 memories for this end user within an hour, and this request writes 1; there is room at 20", "Z; the limit is writes_per_hour in budgets.default or budgets.overrides for agent:app"}},
		{"a total", "budgets: {default: {writes_total: 1}}", note, 1, []string{"1 of 1 memories for this end user in all", "deletions make room; the limit is writes_total in budgets.default"}},
		{"a tenant's budget", "budgets: {tenants: {main: {writes_per_hour: 1}}}", note, 1, []string{"1 of 1 memories of this tenant", "writes_per_hour in budgets.tenants"}},
		{"a session's lock", "", noted(poison), 3, []string{"this session's writes are locked after 3 rejections, until 20", "the limit is sessions.max_rejections, and a reviewer can unlock earlier with memproxy sessions unlock: session:agent:app/ann/"}},
		{"what a policy closes", "", strings.Replace(note, `"infer"`, `"custom_instructions":"x","infer"`, 1), 20, nil},
		{"what cannot be seen", "", strings.Replace(note, `"likes tea"`, `{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}`, 1), 20, nil},
		{"what is filed under a trait", "", strings.Replace(note, `"infer"`, `"metadata":{"topic":"health"},"infer"`, 1), 20, nil},
	}, 1, 3) {
		r := start(t, rigged(t, "mem0-server", "UPSTREAM")+"sessions: {max_user_rejections: 10}\n"+tc.more+"\n")
		for range tc.times {
			r.do("POST", "/memories", tc.refused, "X-Memproxy-Session", "s1")
		}
		a := r.do("POST", "/memories", note, "X-Memproxy-Session", "s1")
		detail := said.FindString(a.body)
		for _, want := range tc.want {
			expect.Text(t, detail, tc.name, a.status, a.body).Has(want)
		}
		if tc.want == nil && a.status != http.StatusOK {
			t.Errorf("%s: then an ordinary write is answered %d %s", tc.name, a.status, a.body)
		}
		r.stop()
	}
}

// Proves EDGE-18: the refusal of a name that a caller may not use, or of an unknown
// key, names the setting, and with that setting the request is answered.
func TestIdentityRefusalsNameTheSetting(t *testing.T) {
	t.Parallel()
	narrow := [2]string{`acts_as: "*"`, `acts_as: [shop]`}
	users := [2]string{`# users: [ann, bob]`, `users: [ann]`}
	const bobs = `{"user_id":"bob","infer":false,"messages":[{"role":"user","content":"likes tea"}]}`
	for _, tc := range ring.Sample([]struct {
		name, method, path, body, key string
		change                        [2]string
		status                        int
		want                          string
	}{
		{"an agent", "POST", "/memories", note, devToken, narrow, 403, "acts_as in its entry under identity lists the permitted ones"},
		{"a user", "POST", "/memories", bobs, devToken, users, 403, "users in its entry under identity lists the permitted ones"},
		{"everybody", "POST", "/search", `{"query":"tea","filters":{"user_id":"*"}}`, devToken, users, 403, `users: \"*\" in its entry under identity allows it`},
		{"a key", "POST", "/memories", note, "another", [2]string{}, 401, "identity.keys lists the SHA-256 of those that are"},
		{"no key", "POST", "/memories", note, "", [2]string{}, 401, "identity says which are accepted"},
		{"another tenant", "POST", "/memories", note, devToken, [2]string{"      tenant: main\n", "      tenant: other\n"}, 403, "backends[].tenant and the tenant of its entry under identity differ"},
	}, 1, 3) {
		conf := rigged(t, "mem0-server", "UPSTREAM")
		expect.Text(t, conf, tc.name, "the file has no").Has(tc.change[0])
		r := start(t, conf, tc.change[0], tc.change[1])
		if tc.key != "" {
			r.key = tc.key
		}
		header := []string{}
		if tc.key == "" {
			header = []string{"X-API-Key", ""}
		}
		r.do(tc.method, tc.path, tc.body, header...).want(t, tc.status, tc.name).has(t, tc.want)
		r.stop()
		if tc.name == "everybody" {
			r = start(t, conf, users[0], `users: "*"`)
			r.do(tc.method, tc.path, tc.body).want(t, http.StatusOK, tc.name, "with it")
			r.stop()
		}
	}
}
