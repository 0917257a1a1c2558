package review

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/internal/durable"
)

// SocketEnv is the environment variable with the local operator's socket, and
// DefaultSocket its path in the sample configuration. DefaultAdmin is the default address
// of a sidecar's admin listener.
const (
	SocketEnv     = "MEMPROXY_REVIEW_SOCKET"
	DefaultSocket = "state/review.sock"
	DefaultAdmin  = "http://127.0.0.1:9901"
)

// TokenEnv is the environment variable that holds a reviewer's token.
const TokenEnv = "MEMPROXY_REVIEW_TOKEN"

// CLI is the environment of the commands.
type CLI struct {
	Stdout io.Writer
	Getenv func(string) string
	Clock  func() time.Time
}

// Commands returns the commands holds, memory, sessions, upkeep and status.
func (c CLI) Commands() []*cobra.Command {
	var out []*cobra.Command
	for _, n := range nouns() {
		group := cli.Group(n.name, n.short, n.example)
		for _, v := range n.verbs {
			group.AddCommand(c.command(v))
		}
		out = append(out, group)
	}
	return append(out, c.command(verb{name: "status", short: "status of a running sidecar: decisions, held writes, locks, faults", example: "memproxy status", run: status}))
}

// command returns the command of a verb.
func (c CLI) command(v verb) *cobra.Command {
	in := &invocation{CLI: c, given: map[string]*pflag.Flag{}}
	out := cli.LeafArgs(strings.TrimSpace(v.name+" "+v.args), v.short, v.example, func(ctx context.Context, ids []string) error {
		in.ids = ids
		if err := in.connect(); err != nil {
			return err
		}
		return v.run(ctx, in)
	})
	words := strings.Fields(v.args)
	out.Args = func(_ *cobra.Command, ids []string) error {
		if !strings.HasSuffix(v.args, "...") && len(ids) != len(words) {
			return fmt.Errorf("needs %s; %d given", cmp.Or(v.args, "no argument"), len(ids))
		}
		return nil
	}
	fs := out.Flags()
	fs.StringVar(&in.admin, "admin", DefaultAdmin, "address of the admin listener, used with a token")
	in.named = func() bool { return fs.Changed("admin") }
	fs.StringVar(&in.socket, "socket", DefaultSocket, "socket of the local operator, used without a token; $"+SocketEnv)
	fs.StringVar(&in.tokenFile, "token-file", "", "file with the reviewer's token; else $"+TokenEnv)
	in.output = cli.OutputFlag(fs)
	var needed []string
	for _, op := range strings.Fields(v.ops) {
		row, err := routeOf(op)
		if err != nil {
			panic(err) // a bug in the table of verbs
		}
		in.rows = append(in.rows, row)
		needed = append(needed, in.define(fs, row)...)
	}
	switch reason := in.given["reason"]; {
	case reason != nil && v.why == "":
		needed = append(needed, "reason")
	case reason != nil:
		reason.DefValue = v.why
		_ = reason.Value.Set(v.why) // any text is valid
	}
	return cli.RequireFlags(out, needed...)
}

// Token returns a reviewer's token: from the file, if one is named, else from the
// environment.
func Token(file string, getenv func(string) string) (string, error) {
	if file == "" {
		return strings.TrimSpace(getenv(TokenEnv)), nil
	}
	b, err := durable.ReadInput(file)
	token := strings.TrimSpace(string(b))
	if err == nil && token == "" { // without a token the operator would act in the reviewer's place
		err = fmt.Errorf("%s is empty", file)
	}
	return token, err
}

func (in *invocation) connect() error {
	token, err := Token(in.tokenFile, in.Getenv)
	if err != nil {
		return cli.UsageError("the token cannot be read: " + err.Error())
	}
	opt := ClientOptions{URL: in.admin, Token: token}
	if opt.Token == "" && in.named() {
		return cli.UsageError("no token for --admin: give --token-file or set " + TokenEnv + ", or leave --admin out to use the operator's socket")
	} else if opt.Token == "" {
		opt.Socket = in.socket
		if named := in.Getenv(SocketEnv); named != "" && in.socket == DefaultSocket {
			opt.Socket = named
		}
		if info, err := os.Stat(opt.Socket); err != nil || info.Mode()&os.ModeSocket == 0 {
			return cli.UsageError("no token, and no socket at " + opt.Socket + ": memproxy is not running, or has another state directory; where it runs, run this as the user that memproxy runs as, give --socket STATE/review.sock, or give --token-file or set " + TokenEnv)
		}
	}
	client, err := NewClient(opt)
	if err != nil {
		return cli.UsageError(err.Error())
	}
	in.client = client
	return nil
}

// option describes how a value of the API is given on the command line.
type option struct {
	name  string // default: the API's name of the value; "-": not an option
	about string // default: the API's description
	like  any    // default: a text; a state is also the default value
	body  bool   // an option only as a member of a body
}

// options are the values that are not texts, or that have another name or description on
// the command line.
func options() map[string]option {
	return map[string]option{
		"action":      {name: "-"},
		"all":         {about: "include sessions that are not locked", like: false},
		"author_gone": {name: "author-gone", about: "approve although the author may no longer write", like: false},
		"backend":     {about: "the backend's name"},
		"before":      {about: "when the group was listed, RFC 3339; default: now", body: true},
		"confirm":     {name: "-"},
		"content":     {name: "full", about: "the original, not sanitised; it may be an attack", like: false},
		"cursor":      {about: "cursor of the next page, as printed by the previous one"},
		"expect":      {about: "number of holds in the group when it was listed", like: 0},
		"limit":       {about: "maximum number; default: all, page by page", like: 0},
		"newest":      {about: "hash of the current text; the rollback is refused if the text has changed"},
		"outcome":     {about: "done: it arrived; approved: it did not arrive, send it; failed: do not send it"},
		"pinned":      {name: "off", about: "unpin", like: false},
		"pointer":     {about: "JSON pointer of the text, if there are several"},
		"reason":      {about: "why; it is recorded"},
		"sha256":      {about: "hash of the text to restore"},
		"similarity":  {about: "a group of similar holds"},
		"since":       {about: "created within this `time`, as 24h or 7d", like: cli.Age(0)},
		"state":       {about: "pending, approved, rejected, replaying, done, failed, rewritten, open (not settled) or all", like: memproxy.HoldState(openState)},
		"tenant":      {about: "the tenant"},
		"version":     {about: "number of the version", like: 0},
	}
}

// invocation is one run of a command.
type invocation struct {
	CLI
	client                   *Client
	rows                     []route
	ids                      []string
	given                    map[string]*pflag.Flag // options that were given, by the API's names
	admin, tokenFile, socket string
	named                    func() bool // reports whether --admin was given
	output                   *cli.Output
}

// members returns the names of the members of the route's body.
func (rt route) members() (names []string) {
	if rt.in == nil {
		return nil
	}
	for f := range reflect.TypeOf(rt.in).Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	return slices.Sorted(slices.Values(names))
}

// define adds the options for the route's values, and returns the names of those in its
// path.
func (in *invocation) define(fs *pflag.FlagSet, rt route) (needed []string) {
	known := options()
	add := func(name, about string) {
		o := known[name]
		if rt.pages != nil && name == rt.pages.cursor {
			o = known["cursor"]
			o.name = "cursor"
		}
		flag := cmp.Or(o.name, name)
		if flag == "-" || in.given[name] != nil {
			return
		}
		about = cmp.Or(o.about, about)
		switch like := o.like.(type) {
		case bool:
			fs.Bool(flag, false, about)
		case int:
			fs.Int(flag, 0, about)
		case cli.Age:
			fs.Var(new(cli.Age), flag, about)
		case memproxy.HoldState:
			fs.String(flag, string(like), about)
		default:
			fs.String(flag, "", about)
		}
		in.given[name] = fs.Lookup(flag)
	}
	for _, name := range rt.wildcards() {
		if _, option := known[name]; option {
			add(name, "")
			needed = append(needed, name)
		}
	}
	for _, p := range rt.query {
		if !known[p.name].body || rt.pages != nil && p.name == rt.pages.cursor {
			add(p.name, p.about)
		}
	}
	for _, name := range rt.members() {
		add(name, "")
	}
	return needed
}

// text returns the given value of a parameter; "" if it was not given.
func (in *invocation) text(name string) string {
	f := in.given[name]
	if f == nil || !f.Changed && f.Value.Type() != "string" {
		return ""
	}
	return f.Value.String()
}

// values returns the given values of the route's path and query. The values in the path
// that are not options are the command's arguments.
func (in *invocation) values(rt route) map[string]string {
	out, known, ids := map[string]string{}, options(), in.ids
	for _, name := range rt.wildcards() {
		if _, option := known[name]; option {
			out[name] = in.text(name)
		} else {
			out[name], ids = ids[0], ids[1:]
		}
	}
	for _, p := range rt.query {
		out[p.name] = in.text(p.name)
	}
	if _, may := out["content"]; may {
		out["content"] = map[string]string{"true": "full"}[out["content"]]
	}
	return out
}

// body returns the given members of the route's body; nil if the route has no body.
func (in *invocation) body(rt route) map[string]any {
	if rt.in == nil {
		return nil
	}
	out := map[string]any{}
	for _, name := range rt.members() {
		switch text := in.text(name); {
		case name == "pinned":
			out[name] = text != "true" // the option is --off, the negation of the member
		case text == "":
		case in.given[name].Value.Type() == "string":
			out[name] = text
		default:
			out[name] = json.RawMessage(text)
		}
	}
	return out
}
