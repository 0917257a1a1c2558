package keys_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/ledger/keys"
)

func stamp() memproxy.Stamp {
	return memproxy.Stamp{
		ID: "01J000000000000000000DECIDE", Actor: "agent:dev", Tenant: "acme", Trust: memproxy.TrustAuthenticated,
		Confidence: 700, Source: memproxy.SourceUnstated, Attestation: memproxy.SelfReported,
		Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), SHA256: strings.Repeat("ab", 32),
	}
}

// Proves MFW-1: stamps of before verify as they did, byte by byte; what says how
// the write came about cannot be taken off one that has it, nor put on another.
func TestStampsOfBeforeVerify(t *testing.T) {
	s := signer(t, testKey(t, 1))
	old, marked, sealed := stamp(), stamp(), stamp()
	marked.Mark = "layer.inferred"
	sealed.Metadata = "AAAAAAAAAAA"
	for sig, st := range map[string]memproxy.Stamp{
		"1.8eea66a6.LN8OKfvhe1rFe7mxkX0B4O2c8yRstqM6i-KROQZS-Ec": old,
		"1.8eea66a6.GAZJf8xpjgTaDIypsyD3-a7rL3XzOGC1mG9Hi3n1NPU": marked,
		"1.8eea66a6.q01DCjRgOW_f1iyowWcOMwQqOjUkLA3XNIuOur8kVPg": sealed,
	} {
		expect.Equal(t, s.Sign(st).Signature, sig, "signed")
		st.Signature = sig
		expect.Equal(t, s.Verify(st), true, st, "no longer verifies")
		st.Session, st.Trigger, st.Received, st.Score, st.Flags = "sha256:00", "mem0.v3.add", st.Time, 500, "a.rule"
		expect.Equal(t, s.Verify(st), false, "an old signature speaks for what was added")
		full := s.Sign(st)
		expect.Equal(t, s.Verify(full), true, "a full stamp does not verify")
		for i, forge := range []func(*memproxy.Stamp){
			func(st *memproxy.Stamp) { st.Session = "sha256:01" },
			func(st *memproxy.Stamp) { st.Trigger = "mem0.v3.update" },
			func(st *memproxy.Stamp) { st.Received = st.Received.Add(time.Second) },
			func(st *memproxy.Stamp) { st.Score-- },
			func(st *memproxy.Stamp) { st.Flags = "" },
		} {
			forged := full
			forge(&forged)
			expect.That(t, !s.Verify(forged), "what it says of the write can be changed (%d)", i)
		}
		bare := full
		bare.Session, bare.Trigger, bare.Received, bare.Score, bare.Flags = "", "", time.Time{}, 0, ""
		expect.Equal(t, s.Verify(bare), false, "what it says of the write can be taken off")
	}
}

func testKey(t testing.TB, fill byte) keys.Key {
	t.Helper()
	return must.Get(keys.New(bytes.Repeat([]byte{fill}, keys.Size)))(t)
}

func signer(t testing.TB, signing keys.Key, old ...keys.Key) *keys.Signer {
	t.Helper()
	return must.Get(keys.NewSigner(keys.Set{Signing: signing, Verifying: old}))(t)
}

// Proves TRL-2: the time in a stamp is the proxy's, and signed.
func TestEveryFieldIsSigned(t *testing.T) {
	s := signer(t, testKey(t, 1))
	in := stamp()
	in.Received, in.Session, in.Trigger, in.Score, in.Flags = in.Time.Add(-time.Hour), "sha256:00", "r", 100, "f"
	in.Time = in.Time.Add(999 * time.Millisecond).In(time.FixedZone("", 7200))
	signed := s.Sign(in)
	expect.That(t, signed.Time.Equal(stamp().Time) && signed.Time.Location() == time.UTC, "time %v is not cut to the second in UTC", signed.Time)
	must.Equal(t, s.Verify(signed), true, "its own stamp does not verify")
	abroad := signed
	abroad.Time = signed.Time.In(time.FixedZone("", 3600))
	expect.Equal(t, s.Verify(abroad), true, "the same instant in another zone does not verify")
	v := reflect.ValueOf(&signed).Elem()
	for i := range v.NumField() {
		changed := signed
		f := reflect.ValueOf(&changed).Elem().Field(i)
		switch x := f.Interface().(type) {
		case time.Time:
			f.Set(reflect.ValueOf(x.Add(time.Second)))
		default:
			if f.Kind() == reflect.String {
				f.SetString(f.String() + "x")
			} else {
				f.SetInt(f.Int() + 1)
			}
		}
		expect.Equal(t, s.Verify(changed), false, "verifies with another", v.Type().Field(i).Name)
	}
	late := signed
	late.Time = late.Time.Add(time.Millisecond)
	expect.Equal(t, s.Verify(late), false, "verifies with a time between seconds")
}

// Moving bytes from one field to its neighbour must not keep the signature.
func TestEncodingIsUnambiguous(t *testing.T) {
	s := signer(t, testKey(t, 1))
	a := stamp()
	a.ID, a.Actor, a.Tenant = "one", "two", "three"
	b := a
	b.ID, b.Actor = "onet", "wo"
	c := a
	c.Actor, c.Tenant = "twot", "hree"
	d, e, f := a, a, a
	d.Mark, e.Metadata = "ab", "ab"
	f.Mark, f.Metadata = "a", "b"
	seen := map[string]bool{}
	for _, st := range []memproxy.Stamp{a, b, c, d, e, f} {
		seen[s.Sign(st).Signature] = true
	}
	expect.Len(t, seen, 6, "two stamps have one signature")
}

func TestForgeries(t *testing.T) {
	s := signer(t, testKey(t, 1))
	good := s.Sign(stamp())
	expect.Len(t, good.Signature, 54, "a signature of")
	last := good.Signature[len(good.Signature)-1]
	respelled := good.Signature[:len(good.Signature)-1] + string(rune(last+1)) // same MAC, stray low bits
	for name, sig := range map[string]string{
		"none": "", "short": good.Signature[:53], "long": good.Signature + "A", "version": "2" + good.Signature[1:],
		"key id": good.Signature[:2] + "00000000" + good.Signature[10:], "zeros": good.Signature[:11] + strings.Repeat("A", 43),
		"not base64": good.Signature[:11] + strings.Repeat("*", 43), "newline": good.Signature[:53] + "\n",
		"respelled": respelled, "other installation": signer(t, testKey(t, 2)).Sign(stamp()).Signature,
	} {
		st := good
		st.Signature = sig
		expect.Equal(t, s.Verify(st), false, name, "verifies")
	}
	expect.Equal(t, s.Verify(good), true, "the untouched stamp does not verify")
}

func TestRotation(t *testing.T) {
	before := signer(t, testKey(t, 1)).Sign(stamp())
	after := signer(t, testKey(t, 2), testKey(t, 1))
	expect.Equal(t, after.Verify(before), true, "a stamp of the former key does not verify")
	expect.Equal(t, signer(t, testKey(t, 1)).Verify(after.Sign(stamp())), false, "the former key still signs")
	expect.Equal(t, signer(t, testKey(t, 2)).Verify(before), false, "a stamp of a removed key verifies")
	expect.Error(t, expect.Err(keys.NewSigner(keys.Set{})), "a signer without a key")
}

func TestSignerAtOnce(t *testing.T) {
	s := signer(t, testKey(t, 1))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 300 {
				st := stamp()
				st.Tenant = fmt.Sprint(i*j%1500, "tenant") // more tenants than are kept
				if !s.Verify(s.Sign(st)) {
					t.Error("does not verify")
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestKeysDoNotPrint(t *testing.T) {
	k := testKey(t, 7)
	set := keys.Set{Signing: k, Verifying: []keys.Key{k}}
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "key", k, "keys", set)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d", "%q"} {
		fmt.Fprintf(&b, verb, k)
		fmt.Fprintf(&b, verb, set)
	}
	raw := bytes.Repeat([]byte{7}, keys.Size)
	for _, secret := range []string{string(raw), base64.StdEncoding.EncodeToString(raw), "07070707", "7 7 7", "7, 7"} {
		expect.Text(t, b.String(), "the secret is printed").Lacks(secret)
	}
}

func TestLoadOrCreateKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys[1]*")
	load := func() keys.Set {
		t.Helper()
		return must.Get(keys.LoadOrCreate(dir))(t)
	}
	first := load()
	path := filepath.Join(dir, "stamp.key")
	must.Equal(t, must.Get(os.Stat(path))(t).Mode().Perm(), 0o600)
	again := load()
	expect.That(t, again.Signing == first.Signing && len(again.Verifying) == 0, "another key the second time")
	must.Do(t, os.Rename(path, filepath.Join(dir, "stamp-2026.key")))
	rotated := load()
	expect.That(t, rotated.Signing != first.Signing && len(rotated.Verifying) == 1 && rotated.Verifying[0] == first.Signing, "the renamed key does not verify")
	left, _ := filepath.Glob(filepath.Join(t.TempDir(), ".stamp-*"))
	expect.That(t, len(left) == 0, "left behind: %v", left)
	for name, spoil := range map[string]func() error{
		"world readable": func() error { return os.Chmod(path, 0o644) },
		"not base64":     func() error { return os.WriteFile(path, []byte("!SECRET!"), 0o600) },
		"short":          func() error { return os.WriteFile(path, []byte("AAAA"), 0o600) },
		"empty":          func() error { return os.WriteFile(path, nil, 0o600) },
		"zeros":          func() error { return os.WriteFile(path, []byte(strings.Repeat("A", 43)+"="), 0o600) },
	} {
		must.Do(t, spoil())
		_, err := keys.LoadOrCreate(dir)
		must.Error(t, err, name)
		expect.Text(t, err.Error(), name).Lacks("SECRET")
		must.Do(t, os.Chmod(path, 0o600))
	}
}

func TestKeyIsCreatedOnce(t *testing.T) {
	dir := t.TempDir()
	got := make([]keys.Key, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			k, err := keys.LoadOrCreate(dir)
			expect.OK(t, err)
			got[i] = k.Signing
		})
	}
	wg.Wait()
	for _, k := range got {
		must.Equal(t, k, got[0], "two keys for one directory")
	}
}

// No bytes make Verify panic, and none but the signed ones verify.
func FuzzVerify(f *testing.F) {
	s := signer(f, testKey(f, 1))
	good := s.Sign(stamp())
	f.Add(good.ID, good.Actor, good.Tenant, int(good.Confidence), good.Time.Unix(), good.Signature)
	f.Add("", "", "", 0, int64(0), "1.00000000."+strings.Repeat("A", 43))
	f.Add("", "", "", -1, int64(-1), "1.")
	f.Fuzz(func(t *testing.T, id, actor, tenant string, confidence int, at int64, sig string) {
		st := good
		st.ID, st.Actor, st.Tenant, st.Confidence, st.Time, st.Signature = id, actor, tenant, memproxy.PerMille(confidence), time.Unix(at, 0).UTC(), sig
		expect.Equal(t, s.Verify(st), st == good, st)
		expect.Equal(t, s.Verify(s.Sign(st)), true, "its own stamp does not verify", st)
	})
}

func BenchmarkSign(b *testing.B) {
	s, st := signer(b, testKey(b, 1)), stamp()
	b.ReportAllocs()
	for b.Loop() {
		s.Sign(st)
	}
}

func BenchmarkVerify(b *testing.B) {
	s := signer(b, testKey(b, 1))
	st := s.Sign(stamp())
	b.ReportAllocs()
	for b.Loop() {
		must.That(b, s.Verify(st), "no")
	}
}
