package adaptertest

import (
	"strings"
	"testing"

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
	c := must.Get(ParseCase([]byte(whole)))(t)
	r := c.Request
	if r.Method != "POST" || r.EscapedPath != "/a%20b" || r.Path != "/a b" || r.Query != "x=1" || len(r.Header.Values("X-Two")) != 2 {
		t.Errorf("request %+v", r)
	}
	if string(c.Body) != "{\"a\":\n1}" || c.Reply.Status != 404 || string(c.Reply.Body) != "\xff\n" {
		t.Errorf("body %q, reply %+v", c.Body, c.Reply)
	}
	expect.Equal(t, string(c.format()), whole, "printed as")
	asked := c.asked()
	asked.set("route", "none\n")
	expect.Equal(t, string(asked.format()), whole, "filled in again as")
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
		expect.Error(t, expect.Err(ParseCase([]byte(bad))), name, "accepted")
	}
}
