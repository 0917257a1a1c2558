//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// client is a row of the table of addresses in docs/clients.md: released packages,
// where memproxy's address goes, and what opens what they ask for.
type client struct {
	name, packages, address string
	backend, script         string // what runs it in e2e/clients; without, a test of its own does
	opens                   []string
	attack                  string // default: plantedInFile
	venv                    string // its own environment, made by e2e/clients/install.sh
	direct                  bool   // a run without memproxy must print the same
}

const (
	awsKey   = "My AWS key is AKIAIOSFODNN7EXAMPLQ."
	twoLines = "[two lines](#frameworks-without-a-setting)"
)

var clients = []client{
	{name: "Mem0, Python", packages: "mem0ai 2.2.1", address: "`MemoryClient(host=\"http://127.0.0.1:8081\")`"},
	{name: "Mem0, TypeScript", packages: "mem0ai 3.3.1", address: "`new MemoryClient({ apiKey, host: \"http://127.0.0.1:8081\" })`"},
	{name: "Mem0 command line, Python", packages: "mem0-cli 0.2.13", address: "`MEM0_BASE_URL`", backend: "mem0", script: "cli.py"},
	{name: "Mem0 command line, Node", packages: "@mem0/cli 0.2.13", address: "`MEM0_BASE_URL`", backend: "mem0", script: "mem0_cli.mjs"},
	{name: "Mem0 for the Vercel AI SDK", packages: "@mem0/vercel-ai-provider 3.0.2", address: "`host`, with `mem0ApiKey`", backend: "mem0", script: "mem0_vercel.mjs"},
	{name: "Mem0's MCP server", packages: "mem0-mcp-server 0.2.1", address: twoLines, backend: "mem0", script: "mcp_server.py"},
	{name: "OpenClaw", packages: "@mem0/openclaw-mem0 1.0.16", address: "`baseUrl` of the plugin", backend: "mem0", script: "openclaw.mjs", opens: []string{"memproxy-owner"}, attack: awsKey},
	{name: "n8n", packages: "@mem0/n8n-nodes-mem0 0.1.4", address: "`Base URL` of the credential", backend: "mem0", script: "n8n.mjs"},
	{name: "Mastra", packages: "@mastra/mem0 0.1.4", address: "`host` in `config`", backend: "mem0", script: "mastra.mjs"},
	{name: "LlamaIndex", packages: "llama-index-memory-mem0 2.1.0", address: "`Mem0Memory(client=MemoryClient(host=…), …)`", backend: "mem0", script: "llama_index.py"},
	{name: "Haystack", packages: "mem0-haystack 1.0.0", address: twoLines, backend: "mem0", script: "haystack.py"},
	{name: "Strands", packages: "mem0-strands 0.1.1", address: "`Mem0MemoryStore(host=…)`", backend: "mem0", script: "strands.py"},
	{name: "Microsoft Agent Framework", packages: "agent-framework-mem0 1.0.0b261015", address: "`Mem0ContextProvider(mem0_client=AsyncMemoryClient(host=…))`", backend: "mem0", script: "agent_framework.py"},
	{name: "NVIDIA NeMo Agent Toolkit", packages: "nvidia-nat-mem0ai 1.9.0", address: "`host` of the memory's configuration", backend: "mem0", script: "nemo.py", opens: []string{"memproxy-forget"}, venv: "clients-nemo", direct: true},
	{name: "Letta, Python", packages: "letta-client 1.12.1", address: "`LETTA_BASE_URL`, or `Letta(base_url=\"http://127.0.0.1:8281\")`"},
	{name: "Letta, TypeScript", packages: "@letta-ai/letta-client 1.12.1", address: "`LETTA_BASE_URL`, or `new Letta({ baseURL })`"},
	{name: "Letta Code", packages: "@letta-ai/letta-code 0.25.9, letta 0.34.12", address: "`LETTA_BASE_URL`; see [below](#letta-code)", opens: []string{"memproxy-owner"}},
	{name: "Letta Code SDK", packages: "@letta-ai/letta-code-sdk 0.1.14", address: "`LETTA_BASE_URL`; as Letta Code", backend: "letta", script: "letta_code_sdk.mjs", opens: []string{"memproxy-owner"}},
	{name: "Letta for the Vercel AI SDK", packages: "@letta-ai/vercel-ai-sdk-provider 1.4.0", address: "`LETTA_BASE_URL`, or `createLetta({ baseUrl })`", backend: "letta", script: "letta_vercel.mjs"},
	{name: "OpenAI, on Letta's gateway", packages: "openai 3.52.0", address: "`OpenAI(base_url=\"http://127.0.0.1:8281/v1\")`", backend: "letta", script: "openai_gateway.py", opens: []string{"ungated: compensate"}, direct: true},
	{name: "Letta's memory SDK", packages: "letta-memory 0.1.5", address: "[a line](#frameworks-without-a-setting)", backend: "letta", script: "letta_memory.py", opens: []string{"ungated: compensate", "memproxy-forget"}},
	{name: "letta-evals", packages: "letta-evals 0.26.0", address: "`LETTA_BASE_URL`", backend: "letta", script: "letta_evals.py", opens: []string{"memproxy-owner", "memproxy-forget"}, venv: "clients-letta-evals", direct: true},
}

// says is what the client's script prints: it writes a text, finds it, deletes it if
// it can, and writes the attack.
func (c client) says(t *testing.T, base string) string {
	t.Helper()
	name, _, _ := strings.Cut(c.script, ".")
	env := []string{"HOME=" + t.TempDir(), "MEM0_TELEMETRY=false", "ANONYMIZED_TELEMETRY=false", "HAYSTACK_TELEMETRY_ENABLED=false",
		"LETTA_CODE_TELEM=0", "DISABLE_AUTOUPDATER=1", "MEM0_API_KEY=" + clientKey, "MEM0_HOST=" + base, "LETTA_API_KEY=" + clientKey, "LETTA_BASE_URL=" + base,
		"PATH=" + part(t, "clients-js", "node_modules", ".bin") + ":" + os.Getenv("PATH"), // letta-evals starts Letta Code
		"PYTHONPYCACHEPREFIX=" + part(t, "pycache")}
	if c.venv == "" {
		env = append(env, "PYTHONPATH="+part(t, "clients-frameworks"))
	}
	args := []string{"node", filepath.Join("clients", "frameworks.mjs"), part(t, "clients-js", "node_modules")}
	if strings.HasSuffix(c.script, ".py") {
		args = []string{part(t, cmp.Or(c.venv, "mem0-py"), "bin", "python"), filepath.Join("clients", "frameworks.py")}
	}
	out, _ := run(t, env, args[0], append(args[1:], name, "I like oolong tea of "+name, cmp.Or(c.attack, plantedInFile))...)
	return out
}

// use is what came of each step.
func (c client) use(t *testing.T, base string) (found, left, refused string) {
	t.Helper()
	out := c.says(t, base)
	said := regexp.MustCompile(`(?s)(?:found: (.*)\n)?(?:left: (.*)\n)?(?:not )?refused: (.*)`).FindStringSubmatch(out)
	must.That(t, said != nil, "it said:\n%s", tail(out, 3000))
	return said[1], said[2], said[3]
}

// Proves EDGE-18, CARD-1, CARD-8: released clients of the field, unmodified, with the
// starter file and the backends' own engines. What they write is found and deleted; an
// attack is refused, does not reach the backend, and the client shows the reason if it
// shows the body of an answer. The first refusal of what the file does not open names
// the setting that opens it. docs/clients.md has the table (UPDATE=1 writes it).
func TestClientsWithTheStarterFile(t *testing.T) {
	t.Parallel()
	real := map[string]string{"mem0": startEngine(t).base, "letta": lettaServer(t)}
	all := true
	table := "| client | package | address | opened by | shows why it was refused |\n|---|---|---|---|---|\n"
	for _, c := range clients {
		shows := "yes"
		if c.script != "" {
			ran := false
			t.Run(c.script, func(t *testing.T) {
				ran = true
				for i, setting := range c.opens {
					closed := starter(t, c.backend, real[c.backend], c.opens[:i]...)
					_, _, why := c.use(t, closed.base)
					expect.That(t, strings.Contains(why+closed.audit(t, "--verdict", "deny"), setting), "without %s: %s", setting, tail(why, 2000))
					closed.stop()
				}
				car := starter(t, c.backend, real[c.backend], c.opens...)
				defer car.stop()
				server := engine{base: real[c.backend]}
				server.forget(t)
				name, _, _ := strings.Cut(c.script, ".")
				found, left, why := c.use(t, car.base)
				expect.Text(t, found, "found").Has(name)
				expect.Text(t, left, "found").Lacks(name)
				for _, r := range server.requests(t) {
					expect.That(t, !bytes.Contains(r.Body, []byte("evil.example")) && !bytes.Contains(r.Body, []byte("AKIA")), "the attack reached %s %s", r.Method, r.Path)
				}
				if c.direct {
					harmless := c
					harmless.attack = "I like black tea."
					f, l, _ := harmless.use(t, real[c.backend])
					expect.That(t, f == found && l == left, "without memproxy: found %s, and when it was deleted %s\nwith it: %s, %s", f, l, found, left)
				}
				switch {
				case strings.Contains(why, "looks like an attack"), strings.Contains(why, "memories may not contain credentials"):
				case strings.Contains(why, "403"):
					shows = "the status only"
					expect.Text(t, car.audit(t, "--verdict", "deny"), "the audit log does not have the reason either").Has("looks like an attack")
				default:
					t.Errorf("refused with %s", tail(why, 2000))
				}
			})
			all = all && ran
		}
		opened := "nothing"
		if c.opens != nil {
			opened = "`" + strings.Join(c.opens, "`, `") + "`"
		}
		table += "| " + strings.Join([]string{c.name, c.packages, c.address, opened, shows}, " | ") + " |\n"
	}
	if !all {
		t.Log("-run left clients out: the table is not compared")
		return
	}
	const file = "../docs/clients.md"
	page := must.Get(os.ReadFile(file))(t)
	before, rest, ok := strings.Cut(string(page), "<!-- clients -->\n")
	is, after, end := strings.Cut(rest, "<!-- end -->")
	expect.That(t, ok && end && is == table, "%s has another table than this run made: UPDATE=1 writes it", file)
	if ok && end && os.Getenv("UPDATE") != "" {
		writeFile(t, file, []byte(before+"<!-- clients -->\n"+table+"<!-- end -->"+after))
	}
}
