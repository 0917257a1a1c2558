package extproctest

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"
)

// Case is one txtar file. Its comment describes it. Its sections are:
//
//	settings      "name: value" lines that differ from Settings' defaults
//	request       request line, headers, an empty line, the body; several are
//	              sent in order, and "{decision}" in the first line is the id
//	              of the previous decision
//	METHOD /path  the backend's answer to it: status, headers, an empty line,
//	              the body. The default is 200 and {}.
//	want          the summary: a line for each request with status, verdict and
//	              reasons, and below it the requests that reached the backend
//
// An answer that contains "canary" is an error.
//
// The last newline of a section is not part of the body.
type Case struct {
	Settings Settings
	Requests []Request
	Answers  map[string]Answer
	Want     string

	archive *txtar.Archive
}

// Settings are the settings of a case, for the configuration of a sidecar.
type Settings map[string]string

// Request is one request, sent as written.
type Request struct {
	Line    string
	Headers []string
	Body    string
}

// Answer is the backend's answer.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// defaults of Settings: a production sidecar in front of Mem0.
var defaults = Settings{
	"profile": "production", "enforce": "true", "kind": "mem0", "credential": "", "writes_per_hour": "100", "body": "1048576",
	"tenants": "one", "eves_roles": "",
}

// Config returns the configuration of a sidecar for a case. The agent's key is
// "m0sk_dev"; the agent acts as dev for ann. If there are two tenants, "m0sk_mal" is the
// key of the other tenant's agent, which may act as every agent.
func (s Settings) Config(listen, admin, upstream, state string) string {
	other := ""
	if s["tenants"] == "two" {
		other = fmt.Sprintf(`
    - {sha256: "%s", id: "agent:mal", kind: agent, trust: authenticated, tenant: globex, acts_as: ["*"]}`, malKey)
	}
	return fmt.Sprintf(`profile: %s
enforce: %s
state: %s
admin: {listen: "%s"}
backends:
  - name: %s
    kind: %s
    listen: "%s"
    upstream: "%s"
    credential: "%s"
    passthrough: ["GET /custom/*"]
    limits: {body: %s}
identity:
  keys:
    - {sha256: "%s", id: "agent:dev", kind: agent, trust: authenticated, tenant: acme, roles: [dev], acts_as: [dev], users: [ann]}
    - {sha256: "%s", id: "human:eve", kind: human, trust: human, tenant: acme, acts_as: ["*"], roles: [%s]}%s
  spiffe:
    trust_domain: example.org
    rules: [{path: /agent/dev, id: "workload:dev", tenant: acme, acts_as: [dev], users: [ann]}]
budgets:
  default: {writes_per_hour: %s, writes_total: 10000}
log: {level: info}
`, s["profile"], s["enforce"], state, admin, s["kind"], s["kind"], listen, upstream, s["credential"], s["body"], devKey, eveKey, s["eves_roles"], other, s["writes_per_hour"])
}

// SHA-256 of "m0sk_dev", "m0sk_eve" and "m0sk_mal".
const (
	malKey = "970e4076f32ae4a8e5e7b089a55c9e5b0bdf3dbd4d982f94ab5afdc23d8a5704"
	devKey = "cdb54f5d88b4d9046c7923acfca2e0d8a71483fbedb5f33cd05d7f7a49919979"
	eveKey = "a0ca246382b31f704d065ebb088350d8fc3ee12430c6c82a46a01c94b0fe9f29"
)

// ParseCase reads a case.
func ParseCase(data []byte) (*Case, error) {
	c := &Case{Settings: maps.Clone(defaults), Answers: map[string]Answer{}, archive: txtar.Parse(data)}
	for _, f := range c.archive.Files {
		switch {
		case f.Name == "settings":
			for line := range strings.Lines(string(f.Data)) {
				k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
				if _, known := defaults[k]; !known {
					return nil, fmt.Errorf("no setting is called %q", k)
				}
				c.Settings[k] = v
			}
		case f.Name == "request":
			line, headers, body := message(f.Data)
			c.Requests = append(c.Requests, Request{line, headers, body})
		case f.Name == "want":
			c.Want = string(f.Data)
		case strings.Contains(f.Name, " /"):
			line, headers, body := message(f.Data)
			status, err := strconv.Atoi(line)
			if err != nil {
				return nil, fmt.Errorf("%s: status %q", f.Name, line)
			}
			a := Answer{Status: status, Header: http.Header{}, Body: body}
			for _, h := range headers {
				k, v, _ := strings.Cut(h, ": ")
				a.Header.Add(k, v)
			}
			c.Answers[f.Name] = a
		default:
			return nil, fmt.Errorf("unknown section %q", f.Name)
		}
	}
	if len(c.Requests) == 0 {
		return nil, fmt.Errorf("no request")
	}
	return c, nil
}

func message(data []byte) (first string, headers []string, body string) {
	head, rest, _ := strings.Cut(string(data), "\n\n")
	lines := strings.Split(strings.TrimSuffix(head, "\n"), "\n")
	return lines[0], lines[1:], strings.TrimSuffix(rest, "\n")
}

// Updated returns the case's file with a new want section.
func (c *Case) Updated(want string) []byte {
	others := slices.DeleteFunc(slices.Clone(c.archive.Files), func(f txtar.File) bool { return f.Name == "want" })
	return txtar.Format(&txtar.Archive{Comment: c.archive.Comment, Files: append(others, txtar.File{Name: "want", Data: []byte(want)})})
}

func (r Request) after(decision string) Request {
	r.Line = strings.ReplaceAll(r.Line, "{decision}", decision)
	return r
}

func (r Request) bytes() []byte {
	var b bytes.Buffer
	method, target, _ := strings.Cut(r.Line, " ")
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: mem.example\r\nConnection: close\r\n", method, target)
	for _, h := range r.Headers {
		b.WriteString(h + "\r\n")
	}
	if slices.Contains(r.Headers, "Transfer-Encoding: chunked") {
		fmt.Fprintf(&b, "\r\n%x\r\n%s\r\n0\r\n\r\n", len(r.Body), r.Body)
		return b.Bytes()
	}
	if r.Body != "" || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(r.Body))
	}
	b.WriteString("\r\n" + r.Body)
	return b.Bytes()
}
