package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf16"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// wired is a request as it is on the wire.
type wired struct{ method, target, head, body string }

const typed = "Content-Type: application/json\r\n"

// onceMore returns a body with another spelling or value at each place that a pattern matches.
func (q wired) onceMore(pattern *regexp.Regexp, change func(match string) []string) (out []wired) {
	for _, at := range pattern.FindAllStringIndex(q.body, -1) {
		for _, text := range change(q.body[at[0]:at[1]]) {
			out = append(out, wired{q.method, q.target, q.head, q.body[:at[0]] + text + q.body[at[1]:]})
		}
	}
	return out
}

func (q wired) withHead(lines ...string) (out []wired) {
	for _, line := range lines {
		out = append(out, wired{q.method, q.target, q.head + line + "\r\n", q.body})
	}
	return out
}

func asJSON(v any) string {
	b, _ := json.Marshal(v) // texts and plain values can be encoded
	return string(b)
}

func (q wired) ofType(value, body string) wired {
	return wired{q.method, q.target, "Content-Type: " + value + "\r\n", body}
}

var (
	memberName  = regexp.MustCompile(`"\w+":`)
	memberValue = regexp.MustCompile(`:("[^"]*"|true|false|[0-9]+)`)
	pathLetter  = regexp.MustCompile(`[a-z]`)
)

// forms are the other forms of a write, by kind; names are those that may mean something to
// the backend, and id is one of the caller's own memories.
var forms = map[string]func(q wired, names []string, id string) []wired{
	"query": func(q wired, names []string, id string) (out []wired) {
		for _, name := range append([]string{"_method", "method", "format", "debug", "dry_run", "force"}, names...) {
			for _, value := range []string{id, "true"} {
				out = append(out, wired{q.method, q.target + "?" + name + "=" + url.QueryEscape(value), q.head, q.body})
			}
		}
		return out
	},
	"header": func(q wired, names []string, id string) (out []wired) {
		for _, name := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X_HTTP_Method_Override"} {
			out = append(out, q.withHead(name+": GET", name+": PATCH", name+": OPTIONS")...)
		}
		for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-User", "X-Forwarded-Client-Cert", "X-Original-URL", "X-Rewrite-URL", "X-Real-IP", "Forwarded", "Via", "Host"} {
			out = append(out, q.withHead(name+": 127.0.0.1", name+": /v1/models/", name+": GET")...)
		}
		for _, name := range []string{"Decision", "Token", "Session", "Backend", "Min-Trust", "Progress", "Signature", "Contested", "Provenance", "Rewritten", "Notice", "Unverified", "Principal", "Source", "Trust"} {
			out = append(out, q.withHead("X-Memproxy-"+name+": allow", "X-Memproxy-"+name+": "+id, "x_memproxy_"+name+": system")...)
		}
		for _, name := range names {
			out = append(out, q.withHead("X-"+strings.ReplaceAll(name, "_", "-")+": "+id)...)
		}
		return append(out, q.withHead("Expect: 100-continue", "Expect: 200-ok", "Prefer: respond-async", "Prefer: return=minimal", "Idempotency-Key: 1", "Connection: X-Api-Key, Authorization, Content-Type, Content-Length",
			"Connection: Upgrade\r\nUpgrade: h2c", "If-Match: \"1\"", "If-None-Match: *", "Range: bytes=0-0", "Accept: text/event-stream", "TE: trailers", "Trailer: X-Api-Key", "Origin: https://a.example\r\nAccess-Control-Request-Method: GET",
			"Accept-Encoding: br", "Max-Forwards: 0", "Cookie: a=b", "Early-Data: 1", "Purpose: prefetch")...)
	},
	"type": func(q wired, _ []string, _ string) (out []wired) {
		for _, value := range []string{"", "text/plain", "application/json; charset=utf-16", "application/json; charset=latin1", "application/json;charset=utf-7", "application/json, text/plain", "text/json", "application/merge-patch+json", "application/vnd.api+json", "application/x-json",
			"APPLICATION/JSON", "application/json; boundary=x", "application/x-ndjson", "application/octet-stream", "image/png", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "application/json\r\nContent-Type: text/plain", "application/cbor", "application/msgpack"} {
			out = append(out, q.ofType(value, q.body))
		}
		for _, encoding := range []string{"gzip", "identity", "br", "deflate", "aws-chunked", "identity, identity", "utf-16"} {
			out = append(out, q.withHead("Content-Encoding: "+encoding, "Content-Transfer-Encoding: "+encoding)...)
		}
		return out
	},
	"path": func(q wired, _ []string, _ string) (out []wired) {
		at := func(target string) { out = append(out, wired{q.method, target, q.head, q.body}) }
		bare := strings.TrimSuffix(q.target, "/")
		for _, end := range []string{"", "/", "//", "/.", "/..", "/./", ";a=b", "/;a=b", ";", ".json", "?", "/?", "%2F", "%2f", "%20", "/%20", "%00", "%09", "%0a", "/index.html", "\\", "%5c", "%3F", "/v1/models/", "%23a", "#a", "~", ".."} {
			at(bare + end)
		}
		for _, start := range []string{"/", "/.", "/x/..", "/%2e%2e", "/;a=b", "/v1", "/api", "/latest", "//mem", "/static/..", "/v1/models/..", "/docs/..%2f", "/%2f", "http://mem", "http://other.example", "http://mem//"} {
			at(start + q.target)
		}
		for i := range q.target {
			if q.target[i] == '/' && i > 0 && i < len(q.target)-1 {
				for _, mark := range []string{"//", "/./", "/x/../", "%2f", ";a=b/", "\\", "/%2e/", "/;/"} {
					at(q.target[:i] + mark + q.target[i+1:])
				}
			}
		}
		for _, in := range pathLetter.FindAllStringIndex(q.target, -1) {
			c := q.target[in[0]]
			for _, text := range []string{fmt.Sprintf("%%%02x", c), strings.ToUpper(string(c)), fmt.Sprintf("%%25%02x", c), string(c) + "%cc%81"} {
				at(q.target[:in[0]] + text + q.target[in[1]:])
			}
		}
		return out
	},
	"method": func(q wired, _ []string, _ string) (out []wired) {
		for _, method := range []string{strings.ToLower(q.method), "OPTIONS", "PURGE", "LOCK", "TRACE", "CONNECT", "PROPPATCH", "QUERY", "GET", "HEAD", "X" + q.method} {
			out = append(out, wired{method, q.target, q.head, q.body})
		}
		return out
	},
	"name": func(q wired, _ []string, _ string) []wired {
		return q.onceMore(memberName, func(m string) []string {
			name := m[1 : len(m)-2]
			title := strings.ToUpper(name[:1]) + name[1:]
			var out []string
			for _, other := range []string{fmt.Sprintf(`\u%04x`, name[0]) + name[1:], strings.ToUpper(name), title, string(rune(name[0])+0xfee0) + name[1:], name + `\u200b`, name + " ", " " + name, name + `\u0000`, `\ufeff` + name, strings.ReplaceAll(name, "_", "-"), name + "[]", name + ".0", "$" + name} {
				out = append(out, `"`+other+`":`, `"`+other+`":"tea",`+m, m+`"tea","`+other+`":`)
			}
			return append(out, m+`"tea",`+m, m+`null,`+m)
		})
	},
	"value": func(q wired, _ []string, _ string) []wired {
		return q.onceMore(memberValue, func(m string) []string {
			v := m[1:]
			text := strings.Trim(v, `"`)
			var spelled strings.Builder
			for _, c := range text {
				fmt.Fprintf(&spelled, `\u%04x`, c)
			}
			out := []string{`[` + v + `]`, `[[` + v + `]]`, `{"text":` + v + `}`, `{"content":` + v + `}`, `[{"type":"text","text":` + v + `}]`, `{"":` + v + `}`, `{"$set":` + v + `}`, `{"value":` + v + `}`, `"` + spelled.String() + `"`, asJSON(" " + text + " "), asJSON(text + "\u200b"), asJSON("\ufeff" + text),
				`null`, `true`, `0`, `1e3`, `""`, `[]`, `{}`, `NaN`, `"` + text + `\ud800"`, v + ` ` + v, v + `,null`, strings.Repeat("[", 40) + v + strings.Repeat("]", 40)}
			for i := range out {
				out[i] = ":" + out[i]
			}
			return out
		})
	},
	"body": func(q wired, _ []string, _ string) (out []wired) {
		wide := utf16.Encode([]rune(q.body))
		var little, big, four strings.Builder
		for _, u := range wide {
			little.Write([]byte{byte(u), byte(u >> 8)})
			big.Write([]byte{byte(u >> 8), byte(u)})
			four.Write([]byte{byte(u), byte(u >> 8), 0, 0})
		}
		for _, body := range []string{"\xef\xbb\xbf" + q.body, little.String(), big.String(), "\xff\xfe" + little.String(), "\xfe\xff" + big.String(), four.String(), q.body + q.body, q.body + "\n" + q.body, "{}\n" + q.body, q.body + "{}", q.body + ";", q.body + "\x00", "\x00" + q.body, "/**/" + q.body, q.body + "//", ")]}'\n" + q.body, "\x1e" + q.body,
			"[" + q.body + "]", `{"data":` + q.body + `}`, `{"body":` + q.body + `}`, asJSON(q.body), strings.ReplaceAll(q.body, `"`, `'`), strings.TrimSuffix(q.body, "}"), strings.TrimSuffix(q.body, "}") + ",}", strings.Replace(q.body, "{", "{,", 1), "\v" + q.body, "\u00a0" + q.body, q.body + "\xff"} {
			out = append(out, wired{q.method, q.target, q.head, body})
		}
		var members map[string]any
		if json.Unmarshal([]byte(q.body), &members) != nil {
			return out
		}
		form, parts := url.Values{}, ""
		for name, value := range members {
			text, ok := value.(string)
			if !ok {
				text = asJSON(value)
			}
			form.Set(name, text)
			parts += "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
		}
		for _, kind := range []string{"application/x-www-form-urlencoded", "application/json", "text/plain"} {
			out = append(out, q.ofType(kind, form.Encode()))
		}
		for _, kind := range []string{"multipart/form-data; boundary=x", "multipart/mixed; boundary=x", "multipart/form-data; boundary=\"x\"; boundary=y", "application/json"} {
			out = append(out, q.ofType(kind, parts+"--x--\r\n"))
		}
		whole := "--x\r\nContent-Disposition: form-data; name=\"body\"\r\nContent-Type: application/json\r\n\r\n" + q.body + "\r\n--x--\r\n"
		return append(out, q.ofType("multipart/form-data; boundary=x", whole), q.ofType("multipart/related; boundary=x", whole), wired{q.method, q.target + "?" + form.Encode(), typed, ""}, wired{q.method, q.target + "?" + form.Encode(), typed, "{}"})
	},
}

// sent sends a request as it is, with its length or in chunks.
func (q wired) sent(t *testing.T, addr string, chunked bool) got {
	t.Helper()
	framed := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(q.body), q.body)
	if chunked {
		framed = fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\nX-Trailer: 1\r\n\r\n", len(q.body), q.body)
	}
	a, _ := exchanged(t, addr, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: mem\r\nConnection: close\r\nX-API-Key: %s\r\nAuthorization: Bearer %[3]s\r\n%s%s", q.method, q.target, devToken, q.head, framed))
	return a
}

// written counts the requests to a backend that may change something.
type written struct {
	to http.Handler
	n  atomic.Int64
	at atomic.Value // the last, with its text as JSON readers read it
}

var escapedRune = regexp.MustCompile(`\\u[0-9a-fA-F]{4}`)

// unescaped returns a body with its escapes decoded, and without a wide encoding's zeros.
func unescaped(b []byte) string {
	text := escapedRune.ReplaceAllStringFunc(string(b), func(m string) string {
		n, _ := strconv.ParseUint(m[2:], 16, 16) // the pattern's digits
		return string(rune(n))
	})
	return strings.ReplaceAll(text, "\x00", "")
}

func (w *written) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		b, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		w.at.Store(fmt.Sprintf("%s %s %v %s", r.Method, r.RequestURI, r.Header, unescaped(b)))
		w.n.Add(1)
	}
	w.to.ServeHTTP(rw, r)
}

// strict are the kinds of forms in which a write stays the same one.
var strict = map[string]bool{"query": true, "header": true, "type": true}

// playForms sends the writes in all their forms to both listeners and fails for each after
// which the backend is not as it was, or that reaches it as a write although it is the same
// one; harmless is a write that is made.
func (r *rig) playForms(w *written, names []string, id string, intact func() bool, harmless wired, writes ...wired) {
	t := r.t
	t.Helper()
	must.Do(t, r.car.ListenExtproc("127.0.0.1:0", false))
	envoy := strings.TrimPrefix(r.throughEnvoy(), "http://")
	reached := func(q wired, addr string, chunked bool) (got, bool) {
		before := w.n.Load()
		a := q.sent(t, addr, chunked)
		return a, w.n.Load() != before
	}
	for listener, addr := range map[string]string{"HTTP": r.car.Addr("mem0"), "Envoy": envoy} {
		for _, q := range writes {
			for _, chunked := range []bool{false, true} {
				a, passed := reached(q, addr, chunked)
				expect.Equal(t, !passed && a.status != 0 && a.status != http.StatusNotFound, true, listener, q.method, q.target, q.body, a.status, a.body)
			}
			for kind, of := range forms {
				for _, form := range ring.Sample(of(q, names, id), 41, 97) {
					if a, passed := reached(form, addr, false); passed && (strict[kind] || !intact()) {
						t.Errorf("%s, %s: %s %s %q %q: %d %s\n\tsent %s", listener, kind, form.method, form.target, form.head, form.body, a.status, a.body, w.at.Load())
					}
				}
			}
		}
		expect.Equal(t, intact(), true, listener, "the memories are as they were, before", w.at.Load())
		a, passed := reached(harmless, addr, true)
		expect.Equal(t, passed && a.status == http.StatusOK, true, listener, "a harmless write", a.status, a.body)
	}
}

// uncounted are the settings without which so many refusals lock their caller.
const uncounted = "sessions: {max_rejections: 0, max_user_rejections: 0, max_principal_rejections: 0}\nlimits: {rejections: 0}\nbudgets: {default: {writes_per_hour: 1000000, writes_total: 1000000}}\n"

// Proves EDGE-13, EDGE-5, SYN-2, CARD-2: no other form of a refused or held write changes
// what is protected, through either listener.
func TestOtherFormsAllowNoMore(t *testing.T) {
	t.Parallel()
	r := startPeople(t, uncounted)
	theirs, own := r.note("human", "Ann likes green tea.", ""), r.note("", "Ann plays go.", "")
	w := &written{to: r.back.handler()}
	r.back.handle(w)
	names := adapterWords(t, "mem0", "origin", "spelling", "stamps", "withheld", "internal/wire", "jsondoc")
	const text = `{"text":"Ann likes coffee."}`
	intact := func() bool {
		text, _, _ := r.fact(theirs)
		resp := must.Get(http.Get(r.up + "/memories?user_id=ann"))(t)
		defer resp.Body.Close()
		all := string(must.Get(io.ReadAll(resp.Body))(t))
		return text == "Ann likes green tea." && strings.Contains(all, theirs) && !strings.Contains(all, "always send") && !strings.Contains(fmt.Sprint(w.at.Load()), "always send")
	}
	r.playForms(w, names, own, intact, wired{"PUT", "/v1/memories/" + own + "/", typed, text},
		wired{"PUT", "/v1/memories/" + theirs + "/", typed, text},
		wired{"PUT", "/memories/" + theirs, typed, text},
		wired{"PUT", "/v1/batch/", typed, `{"memories":[{"memory_id":"` + theirs + `","text":"Ann likes coffee."}]}`},
		wired{"POST", "/v3/memories/add/", typed, `{"messages":[{"role":"user","content":` + planted + `}],"user_id":"ann","infer":false}`},
	)
}

// Proves EDGE-13, EDGE-5, SYN-2, CARD-2: the same for Letta's memories.
func TestOtherFormsAllowNoMoreInLetta(t *testing.T) {
	t.Parallel()
	var w *written
	l := startLettaWith(t, personaAgent, withPeople(lettaConf)+uncounted, func(h http.Handler) http.Handler { w = &written{to: h}; return w }, replacements()...)
	block := func(who string) string {
		return l.do("POST", "/v1/blocks/", `{"label":"human","value":"Ann likes green tea"}`, as(who)...).id(t)
	}
	theirs, own := block("human"), block("")
	l.do("PATCH", "/v1/agents/"+l.agent+"/core-memory/blocks/attach/"+theirs, "", as("human")...).want(t, 200)
	names := adapterWords(t, "letta", "letta/turn", "letta/selfedit", "origin", "spelling", "stamps", "withheld", "internal/wire", "jsondoc")
	const value = `{"value":"Ann likes coffee"}`
	intact := func() bool {
		return l.letta.Value(l.agent, "human") == "Ann likes green tea" && l.letta.BlockID(l.agent, "human") == theirs &&
			!strings.Contains(fmt.Sprint(l.letta.Passages(l.agent)), "always send") && !strings.Contains(fmt.Sprint(w.at.Load()), "always send")
	}
	l.playForms(w, names, own, intact, wired{"PATCH", "/v1/blocks/" + own, typed, value},
		wired{"PATCH", "/v1/blocks/" + theirs, typed, value},
		wired{"PATCH", "/v1/agents/" + l.agent + "/core-memory/blocks/human", typed, value},
		wired{"POST", "/v1/agents/" + l.agent + "/archival-memory", typed, `{"text":` + planted + `}`},
		wired{"POST", "/v1/agents/" + l.agent + "/tools/memory_rethink/run", typed, `{"args":{"label":"human","new_memory":"Ann likes coffee"}}`},
	)
}
