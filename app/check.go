package app

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/memproxy/memproxy/budgets/redisstore"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/frontend"
	"github.com/memproxy/memproxy/identity"
	"github.com/memproxy/memproxy/ledger"
	"github.com/memproxy/memproxy/ledger/keys"
	"github.com/memproxy/memproxy/policy/cedar"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// CheckResult is the result of Check for a valid configuration.
type CheckResult struct {
	rules           *ruleset
	cfg             *config.Config
	Version         string   // version of the rules
	Unsafe          []string // settings that weaken production and are explicitly allowed
	Warnings        []string // valid settings that are probably not intended
	MachineProblems []string // sentences: what would not work on this machine at present
	Reviewers       string   // describes who may review held writes
	// NoOperator is the reason why the local operator cannot review without a token, or
	// nil.
	NoOperator error
}

// Check validates a configuration, its policies and its files without opening the state.
// It asks the issuer of tokens for its keys.
func Check(ctx context.Context, cfg *config.Config, getenv func(string) string) (*CheckResult, error) {
	identifier, callers := buildIdentifier(cfg, nil, identity.DefaultOIDCTimeout)
	unsafe, weakened := allowedUnsafe(cfg, getenv)
	allowed := unsafe
	if weakened != nil {
		allowed = []string{config.BuiltinPolicies} // that these are left out is among the faults already
	}
	rules, err := newRuleset(cfg, allowed, nil, slog.New(slog.DiscardHandler), time.Now, unmanaged(ctx))
	faults := []error{callers, weakened, err, checkValues(cfg)}
	fault := func(err error, path ...any) {
		if err != nil {
			faults = append(faults, cfg.Fault(err, path...))
		}
	}
	for i, b := range cfg.Backends {
		_, err := adapterFor(b, cfg.Sources.Table())
		fault(err, "backends", i, "kind")
		if b.TLS.Cert != "" {
			_, err := listenTLS(b.TLS, nil)
			fault(err, "backends", i, "tls")
		}
		_, err = upstreamTLS(b.TLS)
		fault(err, "backends", i, "tls", "upstream_ca")
	}
	if c := cfg.Policy.Control; c != nil {
		_, err := clientTLS(c, nil)
		fault(err, "policy", "control", "tls")
	}
	if path := cfg.Audit.KeyFile; path != "" {
		_, err := audit.LoadKey(path)
		fault(err, "audit", "key_file")
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	out := &CheckResult{rules: rules, cfg: cfg, MachineProblems: machineProblems(cfg, getenv), Unsafe: unsafe, Warnings: append(cfg.Warnings(), unmatched(cfg, rules.now.Load().cedar)...)}
	if err := issuerAnswers(ctx, identifier); err != nil {
		out.MachineProblems = append(out.MachineProblems, err.Error())
	}
	out.Version = rules.current().Version
	socket, err := socketPath(cfg.State, getenv)
	out.Reviewers, out.NoOperator = describeReviewers(cfg, socket), err
	return out, nil
}

// checkValues checks the values whose syntax only the package that uses them knows, and
// returns the faults with their position in the file. It opens nothing.
func checkValues(cfg *config.Config) error {
	var faults []error
	if origin := cfg.Audit.Origin; origin != "" {
		faults = append(faults, cfg.Fault(audit.CheckOrigin(origin), "audit", "origin"))
	}
	if url := cfg.Ledger.URL.Reveal(); url != "" {
		faults = append(faults, cfg.Fault(ledger.CheckURL(url), "ledger", "url"))
	}
	if r := cfg.Budgets.Redis; r != nil {
		faults = append(faults, cfg.Fault(redisstore.CheckURL(r.URL.Reveal()), "budgets", "redis", "url"))
	}
	return errors.Join(faults...)
}

// Print writes the controls that the file sets, the policies that are not built in, every
// weakened control, and the number of the others; with all it writes all of them. For
// each control it writes whether it is on, its value, and where the value comes from.
func (c *CheckResult) Print(to io.Writer, all bool) {
	w := &strings.Builder{}
	settings, policies := 0, 0
	inForce := c.rules.now.Load()
	for _, s := range inForce.settings() {
		caller := strings.HasPrefix(s.Path, "identity.") && strings.Contains(s.Path, "[")
		if !all && s.Unsafe == "" && (s.Line == 0 || caller) {
			settings++
			continue
		}
		mark := ""
		if s.Unsafe != "" {
			mark = " (UNSAFE)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\n", s.Path, s.Status, cmp.Or(s.Value, "-"), s.From, mark)
	}
	for _, r := range inForce.cedar.Rules() {
		if !all && !r.Shadow && strings.HasPrefix(r.File, "builtin/") {
			policies++
			continue
		}
		is := config.StatusOn
		if r.Shadow || !*c.cfg.Enforce {
			is = config.StatusShadow
		}
		fmt.Fprintf(w, "policy %s\t%s\t%s\t%s:%d\n", r.ID, is, r.Effect, r.File, r.Line)
	}
	for _, id := range inForce.bundle.Disabled {
		fmt.Fprintf(w, "policy %s\t%s\t-\t%s\n", id, config.StatusOff, "bundle.yaml: disable")
	}
	for _, r := range inForce.relaxed() {
		if !r.Shadow && !slices.Contains(inForce.bundle.Disabled, r.ID) {
			fmt.Fprintf(w, "policy %s\t%s\t-\t%s\n", r.ID, config.StatusOff, "bundle.yaml: builtin")
		}
	}
	if w.Len() > 0 {
		table := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
		fmt.Fprint(table, "CONTROL\tIS\tVALUE\tFROM\n", w)
		_ = table.Flush() // readers notice a truncated table
	}
	if !all {
		fmt.Fprintf(to, "%d more controls (defaults, and those of callers) and %d built-in policies: --controls lists them\n", settings, policies)
	}
}

// machineProblems lists, in sentences, what would prevent a configuration from running on
// this machine at present, or limit it. It leaves no files behind. None of this makes a
// configuration invalid, because configurations are also checked on other machines.
func machineProblems(cfg *config.Config, getenv func(string) string) []string {
	var out []string
	if err := writable(cfg.State); err != nil {
		out = append(out, fmt.Sprintf("state cannot be written: %v", err))
	}
	if short := frontend.FileLimitWarning(cfg.Limits.Connections, len(cfg.Backends)); short != "" {
		out = append(out, short)
	}
	if path, err := socketPath(cfg.State, getenv); err == nil && isListening(path) {
		return out // a running memproxy uses the addresses already
	}
	addrs := []string{cfg.Admin.Listen, cfg.Admin.Probes}
	for _, b := range cfg.Backends {
		addrs = append(addrs, b.Listen)
	}
	for _, addr := range slices.DeleteFunc(addrs, func(addr string) bool { return addr == "" }) {
		ln, err := net.Listen("tcp", addr)
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			out = append(out, fmt.Sprintf("%s is in use by another program, by a running memproxy, or by another address of this configuration", addr))
		case err != nil:
			out = append(out, fmt.Sprintf("cannot listen on %s: %v", addr, err))
		default:
			defer ln.Close() // once all are open, so that two for the same port are found
		}
	}
	return out
}

func isListening(path string) bool {
	c, err := net.Dial("unix", path)
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was sent
	return true
}

// writable tries to create a file in a directory or, if that does not exist, in its
// nearest existing parent.
func writable(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for {
		f, err := os.CreateTemp(dir, ".memproxy-check-*")
		up := filepath.Dir(dir)
		switch {
		case err == nil:
			return errors.Join(f.Close(), os.Remove(f.Name()))
		case errors.Is(err, syscall.ENOTDIR):
			return fmt.Errorf("%s is not a directory", dir)
		case !errors.Is(err, fs.ErrNotExist) || up == dir:
			return err
		}
		dir = up
	}
}

// MakeKeys makes the keys that Serve would make at its first start, in a directory that
// is empty or absent. It returns the log's public key, as verifiers read it.
func MakeKeys(dir string) (public string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return "", fmt.Errorf("%s is not empty; keys are never overwritten", dir)
	}
	key, err := audit.LoadOrCreateKey(dir)
	if err != nil {
		return "", err
	}
	if _, err := keys.LoadOrCreate(dir); err != nil {
		return "", err
	}
	if _, err := keys.LoadOrCreateVault(dir); err != nil {
		return "", err
	}
	return audit.VerifierKey(defaultOrigin(key), key.Public().(ed25519.PublicKey))
}

// unmatched lists, in sentences, the passthrough entries that match no route, and the
// policies of the directory that name no backend. A release may be for other sidecars too.
func unmatched(cfg *config.Config, policies *cedar.Policy) (out []string) {
	if cfg.Policy.Control == nil {
		out = policies.Unmatched(func(name string) bool {
			return slices.ContainsFunc(cfg.Backends, func(b config.Backend) bool { return b.Name == name })
		})
	}
	for _, b := range cfg.Backends {
		adapter, err := adapterFor(b, cfg.Sources.Table())
		if err != nil {
			continue // this error prevents the start elsewhere
		}
		for _, entry := range frontend.Unmatched(adapter, b.Passthrough) {
			out = append(out, fmt.Sprintf("passthrough %q of backend %s matches no request: the adapter handles these paths, or the pattern is not a valid path", entry, b.Name))
		}
	}
	return out
}
