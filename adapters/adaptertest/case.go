package adaptertest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy"
)

// Case is one txtar file. The file's comment says what the case shows. Its sections:
//
//	request    request line, headers, an empty line, the body
//	route      id, kind and flags of the route, or "none"
//	operation  the result of Decode, one fact a line; or
//	malformed  the code, status and pointer with which Decode refuses
//	gate       decisions of the gate: "confidence 700", "stamp", "unattributed",
//	           "current ID JSON"
//	forward    the result of Encode; a changed query first, as "query: …"
//	reply      the backend's answer: status, headers, an empty line, the body
//	reading    the result of Read
//	drop       ids or pointers of the memories to remove
//	answer     the result of Rewrite, or "unchanged"
//
// A body ends before its section's last newline. In a section named "request quoted" or
// "reply quoted" the body is a Go string literal, for bytes that a text file cannot contain.
type Case struct {
	Request memproxy.Request
	Body    []byte
	Reply   memproxy.Reply
	name    string // of its file
	archive *txtar.Archive
}

// expectations are the sections with the adapter's results.
var expectations = []string{"route", "operation", "malformed", "forward", "reading", "answer"}

var order = []string{"request", "request quoted", "route", "operation", "malformed", "gate", "forward", "reply", "reply quoted", "reading", "drop", "answer"}

// ParseCase reads a case.
func ParseCase(data []byte) (*Case, error) {
	c := &Case{archive: txtar.Parse(data)}
	for _, f := range c.archive.Files {
		if !slices.Contains(order, f.Name) {
			return nil, fmt.Errorf("unknown section %q", f.Name)
		}
		if !strings.HasPrefix(f.Name, "request") && !strings.HasPrefix(f.Name, "reply") {
			continue
		}
		first, header, body, err := message(f.Data, strings.HasSuffix(f.Name, " quoted"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if strings.HasPrefix(f.Name, "reply") {
			status, err := strconv.Atoi(first)
			if err != nil {
				return nil, fmt.Errorf("reply: %w", err)
			}
			c.Reply = memproxy.Reply{Status: status, Header: header, Body: body}
			continue
		}
		method, target, ok := strings.Cut(first, " ")
		if !ok {
			return nil, fmt.Errorf("request: %q is not a request line", first)
		}
		escaped, query, _ := strings.Cut(target, "?")
		c.Request = memproxy.Request{Method: method, EscapedPath: escaped, Query: query, Header: header, Base: Base}
		c.Body = body
	}
	if c.Request.Method == "" {
		return nil, fmt.Errorf("no request")
	}
	return c, nil
}

// message reads a first line, headers and a body.
func message(data []byte, quoted bool) (first string, header memproxy.Header, body []byte, err error) {
	br := bufio.NewReader(bytes.NewReader(data))
	tp := textproto.NewReader(br)
	if first, err = tp.ReadLine(); err != nil {
		return "", nil, nil, err
	}
	lines, err := tp.ReadMIMEHeader()
	if err != nil && err != io.EOF {
		return "", nil, nil, err
	}
	body, err = io.ReadAll(br)
	body = bytes.TrimSuffix(body, []byte("\n"))
	if quoted && err == nil {
		var text string
		text, err = strconv.Unquote(string(body))
		body = []byte(text)
	}
	return first, memproxy.Header(lines), body, err
}

func (c *Case) section(name string) *txtar.File {
	for i := range c.archive.Files {
		if c.archive.Files[i].Name == name {
			return &c.archive.Files[i]
		}
	}
	return nil
}

func (c *Case) has(name string) bool { return c.section(name) != nil }

func (c *Case) hasReply() bool { return c.has("reply") || c.has("reply quoted") }

func (c *Case) text(name string) string {
	if f := c.section(name); f != nil {
		return string(f.Data)
	}
	return ""
}

// asked returns the case without its expectations.
func (c *Case) asked() *Case {
	out := &Case{archive: &txtar.Archive{Comment: c.archive.Comment}}
	for _, f := range c.archive.Files {
		if !slices.Contains(expectations, f.Name) {
			out.archive.Files = append(out.archive.Files, f)
		}
	}
	return out
}

func (c *Case) set(name, text string) {
	c.archive.Files = append(c.archive.Files, txtar.File{Name: name, Data: []byte(text)})
}

func (c *Case) format() []byte {
	slices.SortStableFunc(c.archive.Files, func(a, b txtar.File) int {
		return slices.Index(order, a.Name) - slices.Index(order, b.Name)
	})
	return txtar.Format(c.archive)
}

// rule applies the gate section to an operation, as the gate would.
func (c *Case) rule(op *memproxy.Operation) error {
	ceiling := memproxy.Full
	for line := range strings.Lines(c.text("gate")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "":
		case "confidence":
			n, err := strconv.Atoi(rest)
			if err != nil {
				return err
			}
			ceiling = memproxy.PerMille(n)
		case "stamp":
			op.Stamp = Stamp()
		case "unattributed":
			for i := range op.Attributions {
				op.Attributions[i].Removed = true
			}
		case "current":
			id, raw, _ := strings.Cut(rest, " ")
			if op.Current == nil {
				op.Current = map[string]memproxy.Memory{}
			}
			op.Current[id] = memproxy.Memory{ID: id, Metadata: []byte(raw)}
		default:
			return fmt.Errorf("gate: %q", line)
		}
	}
	for i := range op.ConfidenceClaims {
		op.ConfidenceClaims[i].Effective = min(op.ConfidenceClaims[i].Claimed, ceiling)
	}
	return nil
}

// drop marks the memories that the case removes.
func (c *Case) drop(rd *memproxy.Reading) {
	ids := strings.Fields(c.text("drop"))
	for i := range rd.Memories {
		m := &rd.Memories[i]
		m.Drop = slices.Contains(ids, m.ID) || slices.Contains(ids, m.Pointer)
	}
}

// Stamp returns the stamp of the cases.
func Stamp() *memproxy.Stamp {
	return &memproxy.Stamp{
		ID: "d-1", Actor: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated, Confidence: 700,
		Source: memproxy.SourceUnstated, Attestation: memproxy.SelfReported,
		Time: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC), SHA256: "00ff", Signature: "c2ln",
		Received: time.Date(2026, 9, 1, 11, 0, 0, 0, time.UTC), Session: "sha256:00112233445566778899aabbccddeeff",
		Trigger: "a.route", Score: 120, Flags: "a.rule",
	}
}
