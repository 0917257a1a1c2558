package letta_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/letta"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func adapter(t testing.TB) *letta.Adapter {
	t.Helper()
	return must.Get(letta.New(letta.Options{}))(t)
}

// Proves CARD-2, TRL-2, TRL-3, SYN-1, EDGE-3: the cases of testdata, each named after
// what it shows.
func TestContract(t *testing.T) {
	adaptertest.Run(t, adapter(t), os.DirFS("testdata"))
}

// Proves CARD-2, EDGE-13: every text in the payload of a write is an item, on every
// route and at every place.
func TestEveryTextIsAnItem(t *testing.T) {
	adaptertest.RunTextsDecoded(t, adapter(t), os.DirFS("testdata"), func(pattern string) string {
		path, _ := filled(pattern)
		return path
	})
}

// Proves EDGE-13, EDGE-3: on every route a query that names an owner has one reading or
// is refused.
func TestOwnersHaveOneSpellingInQueries(t *testing.T) {
	for _, claim := range []string{"agent_id", "identity_id", "user_id", "conversation_id"} {
		adaptertest.RunSpelled(t, adapter(t), claim, func(pattern string) string {
			path, _ := filled(pattern)
			return path
		})
	}
}

// Proves EDGE-13, EDGE-3: the same in bodies, also if the other spelling is alone;
// unknown names and repeated equal values are accepted.
func TestOwnersHaveOneSpellingInBodies(t *testing.T) {
	const agent = `"agent-11111111-1111-4111-8111-111111111111"`
	for body, refused := range map[string]bool{
		`{"agentId":` + agent + `}`: true, `{"AGENT_ID":` + agent + `}`: true, `{"agent-id":` + agent + `}`: true, `{"identityIds":["x"]}`: true, `{"userId":"ann"}`: true,
		`{"manager_config":{"managerAgentId":` + agent + `}}`: true,
		`{"agentId":null}`: false,
		`{"agent_id":` + agent + `,"agentId":` + agent + `}`: false, `{"agentType":"x","userName":"ann"}`: false, `{"metadata":{"userId":"ann"}}`: false,
	} {
		for _, at := range []string{"POST /v1/agents/", "POST /v1/groups/", "POST /v1/archives/", "PATCH /v1/blocks/block-22222222-2222-4222-8222-222222222222"} {
			if strings.Contains(body, "manager_config") && !strings.Contains(at, "groups") {
				continue
			}
			expect.Equal(t, adaptertest.Malformed(t, adapter(t), at, body), refused, at, body, "refused is")
		}
	}
}

const formType = "multipart/form-data; boundary=b"

// form returns a form of the parts, each with its header.
func form(parts ...string) []byte {
	return []byte("--b\r\n" + strings.Join(parts, "\r\n--b\r\n") + "\r\n--b--\r\n")
}

// Proves EDGE-13: headers that name an identity, and fields of a form.
func TestOwnersHaveOneSpellingInHeadersAndForms(t *testing.T) {
	a := adapter(t)
	for name, refused := range map[string]bool{"User_id": false, "User-Id": true, "Userid": true, "X-Letta-Agent-Id": false, "X_letta_agent_id": true, "X-Request-Id": false, "X-User": false} {
		rt, req := route(t, "GET", "/v1/blocks/")
		req.Header[name] = []string{"x"}
		var bad *memproxy.Flaw
		if _, err := a.Decode(rt, req, nil); (errors.As(err, &bad) && bad.Status == 400) != refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	rt, req := route(t, "POST", "/v1/agents/import")
	req.Header["Content-Type"] = []string{formType}
	const file = "Content-Disposition: form-data; name=\"file\"; filename=\"a.json\"\r\nContent-Type: application/json\r\n\r\n{}"
	field := func(name string) string { return "Content-Disposition: form-data; name=\"" + name + "\"\r\n\r\nx" }
	for what, tc := range map[string]struct {
		parts   []string
		refused bool
	}{
		"a field":                {[]string{field("project_id"), file}, false},
		"two fields":             {[]string{field("project_id"), field("name"), file}, false},
		"one twice":              {[]string{field("project_id"), field("project_id"), file}, true},
		"two files":              {[]string{file, file}, true},
		"another spelling":       {[]string{field("userId"), file}, true},
		"upper case":             {[]string{field("USER_ID"), file}, true},
		"encoded":                {[]string{field("user%5Fid"), file}, true},
		"brackets":               {[]string{field("user_id[]"), file}, true},
		"a look-alike":           {[]string{field("ｕser_id"), file}, true},
		"a charset for the rest": {[]string{field("_charset_"), file}, true},
		"filename*":              {[]string{"Content-Disposition: form-data; name=\"file\"; filename*=utf-8''a.json\r\n\r\n{}"}, true},
		"name twice":             {[]string{"Content-Disposition: form-data; name=\"file\"; name=\"x\"\r\n\r\n{}"}, true},
		"another charset":        {[]string{"Content-Disposition: form-data; name=\"x\"\r\nContent-Type: text/plain; charset=utf-16\r\n\r\nx", file}, true},
		"utf-8":                  {[]string{"Content-Disposition: form-data; name=\"x\"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nx", file}, false},
		"a form in the form":     {[]string{"Content-Disposition: form-data; name=\"x\"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nx\r\n--c--", file}, true},
		"transfer encoding":      {[]string{"Content-Disposition: form-data; name=\"x\"\r\nContent-Transfer-Encoding: base64\r\n\r\neA==", file}, true},
	} {
		var bad *memproxy.Flaw
		if _, err := a.Decode(rt, req, form(tc.parts...)); (errors.As(err, &bad) && bad.Status == 400) != tc.refused {
			t.Errorf("%s: %v", what, err)
		}
	}
	op, err := a.Decode(rt, req, form("Content-Disposition: form-data; name=\"user_id\"\r\n\r\nann", file))
	if err != nil || len(op.Claims) != 1 || op.Claims[0].Values[0] != "ann" {
		t.Errorf("an owner in a form: %v %v", op, err)
	}
}
