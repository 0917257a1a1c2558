package follow_test

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/envoy/xds/fleetpb"
	"github.com/memproxy/memproxy/envoy/xds/follow"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/policy"
)

var key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))

func keys() []ed25519.PublicKey { return []ed25519.PublicKey{key.Public().(ed25519.PublicKey)} }

func bundle(text string) policy.Bundle {
	b := policy.Builtin()
	b.Policies = append(b.Policies, policy.Source{Name: "own.cedar", Text: "// " + text + "\n"})
	return b
}

// sidecar applies releases unless it is told to refuse them.
type sidecar struct {
	applied []uint64
	refuse  map[uint64]error
}

func (s *sidecar) apply(r *policy.Release, keep func() error) error {
	if err := s.refuse[r.Number]; err != nil {
		return err
	}
	if err := keep(); err != nil {
		return err
	}
	s.applied = append(s.applied, r.Number)
	return nil
}

// options are those of a follower of this sidecar, whose control plane checks nothing.
func (s *sidecar) options(t *testing.T) (follow.Options, *plane) {
	t.Helper()
	p, addr, client := serve(t)
	return follow.Options{
		Address: addr, TLS: client, Fleet: "north", Keys: keys(),
		Path: filepath.Join(t.TempDir(), "last-good"), Apply: s.apply, Counts: func(bool) []follow.Count { return nil },
		Node: fleetpb.Node{ID: "a", Tenant: "acme", Labels: map[string]string{"env": "prod"}}, Jitter: func() float64 { return 1 },
	}, p
}

// seal returns a signed release of the tests' fleet.
func seal(t *testing.T, s policy.Statement, text string, by ed25519.PrivateKey) *policy.Release {
	t.Helper()
	if s.Fleet == "" {
		s.Fleet = "north"
	}
	return must.Get(policy.SignRelease(bundle(text), s, by))(t)
}

// A sidecar verifies releases itself. Each release is offered by a control plane that
// checks nothing; an invalid one is refused with its reason and the release in force
// remains, also after a restart.
// Proves CARD-9
func TestSidecarVerifiesReleases(t *testing.T) {
	stranger := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{9}, ed25519.SeedSize))
	for _, tc := range []struct {
		name string
		next policy.Statement
		by   ed25519.PrivateKey
		text string
		want string // "" if accepted
	}{
		{"the next", policy.Statement{Number: 13, Floor: 12}, key, "x", ""},
		{"back to the floor", policy.Statement{Number: 11, Floor: 10}, key, "x", ""},
		{"below the floor", policy.Statement{Number: 10, Floor: 9}, key, "x", "release 10 is older than 11"},
		{"the same number, another bundle", policy.Statement{Number: 12, Floor: 11}, key, "x", "release numbers must be unique"},
		{"for its label", policy.Statement{Number: 13, Selector: policy.Selector{Labels: map[string]string{"env": "prod"}}}, key, "x", ""},
		{"for another label", policy.Statement{Number: 13, Selector: policy.Selector{Labels: map[string]string{"env": "test"}}}, key, "x", "not for this sidecar"},
		{"for another tenant", policy.Statement{Number: 13, Selector: policy.Selector{Tenant: "other"}}, key, "x", "not for this sidecar"},
		{"of another fleet", policy.Statement{Number: 13, Fleet: "south"}, key, "x", `of fleet "south"`},
		{"by another key", policy.Statement{Number: 13}, stranger, "x", "no key of the fleet"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opt, p := (&sidecar{}).options(t)
			f := &follower{must.Get(follow.New(opt))(t), p, nil}
			was := seal(t, policy.Statement{Number: 12, Floor: 11}, "was", key)
			must.Do(t, take(t, f, was))
			next := seal(t, tc.next, tc.text, tc.by)
			inForce := next
			if err := take(t, f, next); tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if tc.want != "" {
				inForce = was
			}
			expect.Equal(t, f.State().Running, inForce.Name())
			kept, err := follow.New(opt)
			again := &follower{kept, p, nil}
			if kept := again.Start(inForce.Bundle); err != nil || kept == nil || kept.Name() != inForce.Name() {
				t.Errorf("after a restart: %v %v", kept, err)
			}
			// The floor never falls: 11 remains and 10 is refused.
			expect.Error(t, take(t, again, seal(t, policy.Statement{Number: 10}, "x", key)), "after a restart, release 10 was taken")
		})
	}
}

// A release that does not compile, or cannot be stored, is not put in force; one under
// another release's name is not applied.
func TestReleaseIsAppliedWholeOrNotAtAll(t *testing.T) {
	s := &sidecar{refuse: map[uint64]error{2: errors.New("own.cedar:2: no")}}
	opt, p := s.options(t)
	path := opt.Path
	f := &follower{must.Get(follow.New(opt))(t), p, nil}
	expect.Error(t, take(t, f, seal(t, policy.Statement{Number: 2, Floor: 2}, "x", key)), "a release that was refused was taken")
	expect.Error(t, expect.Err(os.Stat(path)), "a release that was refused is kept")
	one := seal(t, policy.Statement{Number: 1}, "x", key)
	expect.Error(t, takeAs(t, f, "000001-000000000000", one.Encoded()), "a release came under the name of another")
	// Its floor of 2 does not apply.
	expect.OK(t, take(t, f, one))
	must.Do(t, os.Remove(path))
	if err := os.Mkdir(path, 0o700); err != nil { // cannot be renamed over
		t.Fatal(err)
	}
	must.Error(t, take(t, f, seal(t, policy.Statement{Number: 3}, "x", key)), "what cannot be kept")
	expect.Equal(t, f.State().Running, one.Name(), "what cannot be kept")
	expect.Len(t, s.applied, 1, "applied")
}

// A stored release is verified like a new one.
func TestKeptReleaseIsChecked(t *testing.T) {
	opt, p := (&sidecar{}).options(t)
	path := opt.Path
	f := &follower{must.Get(follow.New(opt))(t), p, nil}
	r := seal(t, policy.Statement{Number: 5, Floor: 4, Selector: policy.Selector{Tenant: "acme"}}, "x", key)
	if f.Start(r.Bundle) != nil {
		t.Error("something was kept")
	}
	must.Do(t, take(t, f, r))
	if again := must.Get(follow.New(opt))(t); again.Start("another") != nil || again.State().Running != "" {
		t.Error("a stored release that is not in force runs")
	}
	whole := must.Get(os.ReadFile(path))(t)
	for _, tc := range []struct {
		name   string
		change func(*follow.Options)
		file   []byte
		kept   bool
		fails  bool
	}{
		{"as it was", func(*follow.Options) {}, whole, true, false},
		{"the key was replaced", func(o *follow.Options) { o.Keys = []ed25519.PublicKey{make([]byte, 32)} }, whole, false, false},
		{"another tenant", func(o *follow.Options) { o.Node.Tenant = "other" }, whole, false, false},
		{"a policy edited on disk", func(*follow.Options) {}, bytes.Replace(whole, []byte("// x"), []byte("// y"), 1), false, false},
		{"cut off", func(*follow.Options) {}, whole[:len(whole)/2], false, false},
		{"not ours", func(*follow.Options) {}, []byte("hello\n"), false, true},
		{"empty", func(*follow.Options) {}, nil, false, true},
	} {
		must.Do(t, os.WriteFile(path, tc.file, 0o600))
		o := opt
		tc.change(&o)
		f, err := follow.New(o)
		if (err != nil) != tc.fails || err == nil && (f.Start(r.Bundle) != nil) != tc.kept {
			t.Errorf("%s: %v", tc.name, err)
		}
		if err == nil && !tc.kept {
			// The floor remains without the release.
			expect.Error(t, take(t, &follower{f, p, nil}, seal(t, policy.Statement{Number: 3}, "x", key)), tc.name, "a release below the floor was taken")
		}
	}
}

func FuzzKept(f *testing.F) {
	r := must.Get(policy.SignRelease(policy.Builtin(), policy.Statement{Fleet: "north", Number: 5}, key))(f)
	f.Add([]byte("{\"floor\":4}\n"))
	f.Add(append([]byte("{\"floor\":4}\n"), r.Encoded()...))
	f.Add([]byte("{\"floor\":-1}\nx"))
	path := filepath.Join(f.TempDir(), "last-good")
	f.Fuzz(func(t *testing.T, b []byte) {
		must.Do(t, os.WriteFile(path, b, 0o600))
		got, err := follow.New(follow.Options{Path: path, Fleet: "north", Keys: keys(), Node: fleetpb.Node{ID: "a"}})
		if err == nil && got.Stored() != nil && got.Stored().Name() != r.Name() {
			t.Errorf("a release that nobody signed: %s", got.Stored().Name())
		}
	})
}
