package review

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and the answer is no
	exitUsage  = 2 // the command line is wrong
)

// SocketEnv names the local operator's socket, and DefaultSocket is where the
// sample configuration has it.
const (
	SocketEnv     = "MEMPROXY_REVIEW_SOCKET"
	DefaultSocket = "state/review.sock"
)

// TokenEnv is the environment variable that holds a reviewer's token.
const TokenEnv = "MEMPROXY_REVIEW_TOKEN"

const usage = `usage:
  memproxy holds    list [-state S] [-tenant T] [-backend B] [-principal P] [-session S] [-similarity G] [-since AGE] [-limit N] [-cursor C]
  memproxy holds    show [-full] ID
  memproxy holds    approve|reject -reason TEXT ID...
  memproxy holds    approve|reject -reason TEXT -similarity G -expect N [-tenant T] [-before TIME]
  memproxy holds    resolve -outcome done|approved|failed -reason TEXT ID
  memproxy holds    pattern [-full] [-pointer P] ID PATTERN_001
  memproxy memory   history|trace -backend B [-kind K] ID
  memproxy memory   pattern -backend B [-kind K] [-full] ID PATTERN_001
  memproxy memory   rollback -backend B (-version N | -sha256 HASH) [-newest HASH] -reason TEXT ID
  memproxy memory   pin -backend B [-version N] [-off] -reason TEXT ID
  memproxy memory   promote -backend B -reason TEXT ID
  memproxy sessions list [-all] [-tenant T] [-principal P] [-limit N] [-cursor C]
  memproxy sessions summary|unlock [-tenant T] [-reason TEXT] ID
  memproxy status

all: -admin URL (http://127.0.0.1:9901), -token-file FILE or $` + TokenEnv + `, -json
`

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
	json   bool
	ids    []string
	f      flagValues
}

// flagValues are all flags; each command takes those that it names.
type flagValues struct {
	admin, tokenFile, socket                       string
	json, full, off, all                           bool
	state, tenant, backend, principal, session     string
	similarity, cursor, reason, outcome, kind, sha string
	newest, pointer                                string
	before                                         string
	since                                          time.Duration
	limit, expect                                  int
	version                                        int64
}

// verb is one command.
type verb struct {
	flags string // names, by spaces
	ids   int    // how many: 1, or -1 for any number
	run   func(context.Context, *invocation) error
}

func verbs() map[string]verb {
	return map[string]verb{
		"holds list":       {"state tenant backend principal session similarity since limit cursor", 0, holdsList},
		"holds show":       {"full", 1, holdsShow},
		"holds approve":    {"reason similarity expect tenant before", -1, holdsSettle("approve")},
		"holds reject":     {"reason similarity expect tenant before", -1, holdsSettle("reject")},
		"holds resolve":    {"outcome reason", 1, holdsResolve},
		"memory history":   {"backend kind limit", 1, memoryHistoryCmd},
		"holds pattern":    {"full pointer", 2, holdsPattern},
		"memory trace":     {"backend kind", 1, memoryTraceCmd},
		"memory pattern":   {"backend kind full", 2, memoryPatternCmd},
		"memory rollback":  {"backend kind version sha256 newest reason", 1, memoryRollbackCmd},
		"memory pin":       {"backend kind version off reason", 1, memoryPinCmd},
		"memory promote":   {"backend kind reason", 1, memoryPromoteCmd},
		"sessions list":    {"all tenant principal limit cursor", 0, sessionsList},
		"sessions summary": {"tenant", 1, sessionsSummary},
		"sessions unlock":  {"tenant reason", 1, sessionsUnlock},
		"status":           {"", 0, status},
	}
}

// Main runs "holds", "memory", "sessions" or "status" with its arguments and returns the
// exit code.
func (c CLI) Main(ctx context.Context, noun string, args []string) int {
	name := noun
	v, known := verbs()[name] // a noun that needs no verb
	if known {
		args = append([]string{""}, args...)
	} else if len(args) > 0 {
		name += " " + args[0]
		v, known = verbs()[name]
	}
	if !known {
		fmt.Fprintf(c.Stderr, "memproxy: no command %q\n%s", name, usage)
		return exitUsage
	}
	in := &invocation{CLI: c}
	fs := flag.NewFlagSet("memproxy "+name, flag.ContinueOnError)
	fs.SetOutput(c.Stderr)
	in.f.define(fs, strings.Fields(v.flags))
	if err := fs.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	in.ids, in.json = fs.Args(), in.f.json
	if v.ids >= 0 && len(in.ids) != v.ids {
		fmt.Fprintf(c.Stderr, "memproxy %s: %d id(s) are needed, after the flags\n%s", name, v.ids, usage)
		return exitUsage
	}
	err := in.connect()
	if err == nil {
		err = v.run(ctx, in)
	}
	var wrong usageError
	switch {
	case errors.As(err, &wrong):
		fmt.Fprintf(c.Stderr, "memproxy %s: %v\n", name, err)
		return exitUsage
	case err != nil:
		fmt.Fprintf(c.Stderr, "memproxy %s: %s\n", name, printable(err.Error()))
		return exitFailed
	}
	return exitOK
}

// usageError is a command line that cannot be.
type usageError string

func (e usageError) Error() string { return string(e) }

func (f *flagValues) define(fs *flag.FlagSet, names []string) {
	fs.StringVar(&f.admin, "admin", "http://127.0.0.1:9901", "address of the admin listener")
	fs.StringVar(&f.socket, "socket", DefaultSocket, "socket of the local operator, for who has no token; $"+SocketEnv)
	fs.StringVar(&f.tokenFile, "token-file", "", "file with the reviewer's token; else $"+TokenEnv)
	fs.BoolVar(&f.json, "json", false, "print JSON")
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
			fs.DurationVar(&f.since, name, 0, "created within this time, as 24h")
		case "limit":
			fs.IntVar(&f.limit, name, 0, "how many")
		case "expect":
			fs.IntVar(&f.expect, name, 0, "how many holds the group had when it was listed")
		case "version":
			fs.Int64Var(&f.version, name, 0, "number of the version")
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
			return usageError("no token, and no socket at " + opt.Socket + ": run this as the user that memproxy runs as, give -socket STATE/review.sock, or give -token-file or set " + TokenEnv)
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
		return memproxy.MemoryKey{}, usageError("-backend is required")
	}
	return memproxy.MemoryKey{Backend: in.f.backend, Kind: memproxy.TargetKind(in.f.kind), ID: in.ids[0]}, nil
}

func (in *invocation) reason() error {
	if in.f.reason == "" {
		return usageError("-reason is required")
	}
	return nil
}
