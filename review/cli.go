package review

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/cli"
)

// SocketEnv names the local operator's socket, and DefaultSocket is where the
// sample configuration has it.
const (
	SocketEnv     = "MEMPROXY_REVIEW_SOCKET"
	DefaultSocket = "state/review.sock"
)

// TokenEnv is the environment variable that holds a reviewer's token.
const TokenEnv = "MEMPROXY_REVIEW_TOKEN"

// CLI is what the commands run with.
type CLI struct {
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Clock          func() time.Time
}

// invocation is one command line.
type invocation struct {
	CLI
	client *Client
	ids    []string
	f      flagValues
}

// flagValues are all flags; each command takes those that it names.
type flagValues struct {
	admin, tokenFile, socket                       string
	full, off, all, authorGone                     bool
	output                                         *cli.Output
	state, tenant, backend, principal, session     string
	similarity, cursor, reason, outcome, kind, sha string
	newest, pointer                                string
	before                                         string
	since                                          cli.Age
	limit, expect                                  int
	version                                        int64
}

// verb is one command.
type verb struct {
	name, args, short, example string
	options                    string // names, by spaces
	ids                        int    // how many: 1, or -1 for any number
	run                        func(context.Context, *invocation) error
}

// nouns are the commands, by what they are about.
var nouns = []struct {
	name, short, example string
	verbs                []verb
}{
	{"holds", "what is held, and the word of a reviewer", "memproxy holds list --state pending", []verb{
		{"list", "", "what is held", "memproxy holds list --state pending --since 24h", "state tenant backend principal session similarity since limit cursor", 0, holdsList},
		{"show", "ID", "one hold, with what was found in it", "memproxy holds show 0f2a", "full", 1, holdsShow},
		{"approve", "ID...", "let held writes go", `memproxy holds approve 0f2a --reason "asked Ann"`, "reason similarity expect tenant before author-gone", -1, holdsSettle("approve")},
		{"reject", "ID...", "refuse held writes", `memproxy holds reject --similarity 9c41 --expect 12 --reason "the same attack"`, "reason similarity expect tenant before", -1, holdsSettle("reject")},
		{"resolve", "ID", "settle a hold of which nobody knows whether it arrived", `memproxy holds resolve 0f2a --outcome done --reason "it is in the backend"`, "outcome reason", 1, holdsResolve},
		{"pattern", "ID PATTERN", "what one mark of sanitised text stands for", "memproxy holds pattern 0f2a PATTERN_001 --full", "full pointer", 2, holdsPattern},
	}},
	{"memory", "the versions of a memory, and who said what", "memproxy memory history --backend mem0 MEMORY", []verb{
		{"history", "ID", "its versions", "memproxy memory history --backend mem0 MEMORY", "backend kind limit", 1, memoryHistoryCmd},
		{"trace", "ID", "who wrote, changed and confirmed it", "memproxy memory trace --backend mem0 MEMORY", "backend kind", 1, memoryTraceCmd},
		{"pattern", "ID PATTERN", "what one mark of sanitised text stands for", "memproxy memory pattern --backend mem0 MEMORY PATTERN_001", "backend kind full", 2, memoryPatternCmd},
		{"rollback", "ID", "write an older version anew", `memproxy memory rollback --backend mem0 --version 3 --reason "poisoned since" MEMORY`, "backend kind version sha256 newest reason", 1, memoryRollbackCmd},
		{"pin", "ID", "keep a version from being thrown away", `memproxy memory pin --backend mem0 --version 3 --reason "the last good one" MEMORY`, "backend kind version off reason", 1, memoryPinCmd},
		{"promote", "ID", "have a memory that is pending or quarantined shown", `memproxy memory promote --backend mem0 --reason "read it" MEMORY`, "backend kind reason", 1, memoryPromoteCmd},
	}},
	{"sessions", "what was refused in a session, and why", "memproxy sessions list", []verb{
		{"list", "", "locked sessions", "memproxy sessions list --all", "all tenant principal limit cursor", 0, sessionsList},
		{"summary", "ID", "what was refused in one, and why", "memproxy sessions summary caller:agent:dev/ann", "tenant", 1, sessionsSummary},
		{"unlock", "ID", "let one write again", `memproxy sessions unlock --reason "mended" caller:agent:dev/ann`, "tenant reason", 1, sessionsUnlock},
	}},
	{"upkeep", "what a running sidecar does in the background", "memproxy upkeep list", []verb{
		{"list", "", "the jobs, and how often they are done", "memproxy upkeep list", "", 0, upkeepList},
		{"run", "JOB", "do one now, once, and say what came of it", "memproxy upkeep run anchors", "reason", 1, upkeepRun},
	}},
}

// Commands are holds, memory, sessions, upkeep and status.
func (c CLI) Commands() []*cobra.Command {
	var out []*cobra.Command
	for _, n := range nouns {
		group := cli.Group(n.name, n.short, n.example)
		for _, v := range n.verbs {
			group.AddCommand(c.command(n.name+" "+v.name, v))
		}
		out = append(out, group)
	}
	return append(out, c.command("status", verb{"status", "", "what a running sidecar let in, holds and refuses, and how it is", "memproxy status", "", 0, status}))
}

// command makes a verb's command, of which name is the path.
func (c CLI) command(name string, v verb) *cobra.Command {
	in := &invocation{CLI: c}
	out := cli.Taking(strings.TrimSpace(v.name+" "+v.args), v.short, v.example, func(ctx context.Context, ids []string) int {
		in.ids = ids
		err := in.connect()
		if err == nil {
			err = v.run(ctx, in)
		}
		var wrong usageError
		switch {
		case errors.As(err, &wrong):
			fmt.Fprintf(c.Stderr, "memproxy %s: %v\n", name, err)
			return cli.Usage
		case err != nil:
			fmt.Fprintf(c.Stderr, "memproxy %s: %s\n", name, cli.Line(err.Error()))
			return cli.Failed
		}
		return cli.OK
	})
	out.Args = func(_ *cobra.Command, ids []string) error {
		if v.ids >= 0 && len(ids) != v.ids {
			return fmt.Errorf("%d id(s) are needed", v.ids)
		}
		return nil
	}
	in.f.define(out.Flags(), strings.Fields(v.options))
	return out
}

// usageError is a command line that cannot be.
type usageError string

func (e usageError) Error() string { return string(e) }

func (f *flagValues) define(fs *pflag.FlagSet, names []string) {
	fs.StringVar(&f.admin, "admin", "http://127.0.0.1:9901", "address of the admin listener")
	fs.StringVar(&f.socket, "socket", DefaultSocket, "socket of the local operator, for who has no token; $"+SocketEnv)
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the reviewer's token; else $"+TokenEnv)
	f.output = cli.OutputFlag(fs)
	for _, name := range names {
		switch name {
		case "state":
			fs.StringVar(&f.state, name, "", "pending, approved, rejected, replaying, done or failed")
		case "tenant":
			fs.StringVar(&f.tenant, name, "", "the tenant")
		case "backend":
			fs.StringVar(&f.backend, name, "", "the backend's name")
		case "principal":
			fs.StringVar(&f.principal, name, "", "id of the author")
		case "session":
			fs.StringVar(&f.session, name, "", "id of the session")
		case "similarity":
			fs.StringVar(&f.similarity, name, "", "a group of similar holds")
		case "cursor":
			fs.StringVar(&f.cursor, name, "", "where the page before ended")
		case "reason":
			fs.StringVar(&f.reason, name, "", "why; it is recorded")
		case "outcome":
			fs.StringVar(&f.outcome, name, "", "done: it arrived; approved: it did not, send it; failed: give it up")
		case "kind":
			fs.StringVar(&f.kind, name, "", `what the id names; "memory" when left out`)
		case "sha256":
			fs.StringVar(&f.sha, name, "", "hash of the text to go back to")
		case "newest":
			fs.StringVar(&f.newest, name, "", "hash of the text to go back from; nothing is done when it is another by now")
		case "pointer":
			fs.StringVar(&f.pointer, name, "", "which of several texts: its JSON pointer")
		case "before":
			fs.StringVar(&f.before, name, "", "when the group was listed, RFC 3339; now when left out")
		case "since":
			fs.Var(&f.since, name, "created within this `time`, as 24h or 7d")
		case "limit":
			fs.IntVar(&f.limit, name, 0, "how many")
		case "expect":
			fs.IntVar(&f.expect, name, 0, "how many holds the group had when it was listed")
		case "version":
			fs.Int64Var(&f.version, name, 0, "number of the version")
		case "author-gone":
			fs.BoolVar(&f.authorGone, name, false, "though the key of the author was removed since")
		case "full":
			fs.BoolVar(&f.full, name, false, "as it is, not sanitised; it may be an attack")
		case "all":
			fs.BoolVar(&f.all, name, false, "what is not locked, too")
		case "off":
			fs.BoolVar(&f.off, name, false, "unpin")
		default:
			panic("review: no flag " + name) // of the table above
		}
	}
}

// connect makes the client.
func (in *invocation) connect() error {
	token := in.Getenv(TokenEnv)
	if in.f.tokenFile != "" {
		b, err := os.ReadFile(in.f.tokenFile)
		if err != nil {
			return usageError("the token cannot be read: " + err.Error())
		}
		token = string(b)
	}
	opt := ClientOptions{URL: in.f.admin, Token: strings.TrimSpace(token)}
	if opt.Token == "" {
		opt.Socket = in.f.socket
		if named := in.Getenv(SocketEnv); named != "" && in.f.socket == DefaultSocket {
			opt.Socket = named
		}
		if info, err := os.Stat(opt.Socket); err != nil || info.Mode()&os.ModeSocket == 0 {
			return usageError("no token, and no socket at " + opt.Socket + ": run this as the user that memproxy runs as, give --socket STATE/review.sock, or give --token-file or set " + TokenEnv)
		}
	}
	client, err := NewClient(opt)
	if err != nil {
		return usageError(err.Error())
	}
	in.client = client
	return nil
}

func (in *invocation) key() (memproxy.MemoryKey, error) {
	if in.f.backend == "" {
		return memproxy.MemoryKey{}, usageError("--backend is required")
	}
	return memproxy.MemoryKey{Backend: in.f.backend, Kind: memproxy.TargetKind(in.f.kind), ID: in.ids[0]}, nil
}

func (in *invocation) reason() error {
	if in.f.reason == "" {
		return usageError("--reason is required")
	}
	return nil
}
