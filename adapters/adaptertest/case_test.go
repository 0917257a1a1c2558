package adaptertest_test

import (
	"flag"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/memproxy/memproxy/adapters/adaptertest"
	"github.com/memproxy/memproxy/adapters/mem0"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

const whole = `What it shows.
-- request --
POST /a%20b?x=1
Content-Type: application/json
X-Two: 1
X-Two: 2

{"a":
1}
-- route --
none
-- gate --
confidence 700
stamp
current m {"a":1}
-- reply quoted --
404

"\xff\n"
`

func TestParseCase(t *testing.T) {
	c := must.Get(adaptertest.ParseCase([]byte(whole)))(t)
	r := c.Request
	if r.Method != "POST" || r.EscapedPath != "/a%20b" || r.Query != "x=1" || len(r.Header.Values("X-Two")) != 2 {
		t.Errorf("request %+v", r)
	}
	if string(c.Body) != "{\"a\":\n1}" || c.Reply.Status != 404 || string(c.Reply.Body) != "\xff\n" {
		t.Errorf("body %q, reply %+v", c.Body, c.Reply)
	}
}

// With -update a case is written with the adapter's results, and otherwise as it was read.
func TestUpdate(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Do(t, os.Mkdir("testdata", 0o755))
	must.Do(t, flag.Set("update", "true"))
	defer flag.Set("update", "false")
	a := must.Get(mem0.New(mem0.Options{}))(t)
	stale := strings.Replace(whole, "none", "other", 1)
	adaptertest.Run(t, a, fstest.MapFS{"stale.txtar": {Data: []byte(stale)}, "whole.txtar": {Data: []byte(whole)}})
	for _, name := range []string{"stale", "whole"} {
		expect.Equal(t, string(must.Get(os.ReadFile("testdata/"+name+".txtar"))(t)), whole, name)
	}
}

func TestParseCaseRefuses(t *testing.T) {
	for name, bad := range map[string]string{
		"no request":         "nothing",
		"an unknown section": "-- request --\nGET /\n-- wish --\n",
		"no request line":    "-- request --\nGET\n",
		"no header":          "-- request --\nGET /\nhello\n",
		"no status":          strings.Replace(whole, "404", "ok", 1),
		"not quoted":         strings.Replace(whole, `"\xff\n"`, `\xff`, 1),
		"an empty request":   "-- request --\n",
	} {
		expect.Error(t, expect.Err(adaptertest.ParseCase([]byte(bad))), name, "accepted")
	}
}
