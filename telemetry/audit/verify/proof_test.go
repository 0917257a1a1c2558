package verify_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// Proves EDGE-10: inclusion and consistency proofs are self-contained.
func TestProofs(t *testing.T) {
	dir := ring.Dir(t)
	var older [][]byte
	for _, n := range []int{0, 1, 6, 249, 1, 300, 143} {
		if n > 0 {
			writeLog(t, dir, n)
		} else {
			writeWith(t, options(dir), 0)
		}
		older = append(older, read(t, dir, "checkpoint"))
	}
	k := vkey(t, 1)
	p := must.Get(verify.NewProver(dir, k))(t)
	const size = 700
	must.Error(t, expect.Err(p.ProveInclusion(size)), "more than", size, "records are signed")
	var docs [][]byte
	keep := func(doc *verify.Proof, err error) {
		t.Helper()
		must.Do(t, err)
		b := must.Get(doc.Marshal())(t)
		docs = append(docs, b)
	}
	for _, i := range []int64{0, 1, 255, 256, 257, 511, 512, 698, 699} {
		keep(p.ProveInclusion(i))
	}
	for _, old := range older {
		keep(p.ProveConsistency(old))
	}
	expect.Error(t, expect.Err(p.ProveInclusion(size)), "a record behind the checkpoint was proved")
	for i, doc := range docs {
		expect.OK(t, expect.Err(verify.CheckProof(doc, k)), "proof", i)
		expect.Is(t, expect.Err(verify.CheckProof(doc, vkey(t, 2))), verify.ErrProof, "proof", i, "holds under another key")
	}
	// No changed byte proves something else.
	for _, doc := range [][]byte{docs[4], docs[len(docs)-2]} {
		want, _ := verify.CheckProof(doc, k)
		for i := range doc {
			bad := bytes.Clone(doc)
			bad[i] ^= 0x02
			got, err := verify.CheckProof(bad, k)
			if err == nil && !same(got, want) {
				t.Fatalf("byte %d flipped: %s proves something else", i, bad)
			}
		}
	}
	// A proof of one record does not prove another.
	var d map[string]any
	must.Do(t, json.Unmarshal(docs[2], &d))
	d["index"] = 254
	delete(d, "record")
	b, _ := json.Marshal(d)
	expect.Is(t, expect.Err(verify.CheckProof(b, k)), verify.ErrProof, "a record was proved in another's place")
	// No proof is made from a damaged log.
	tile := filepath.Join(dir, "tile/0/000")
	content := read(t, dir, "tile/0/000")
	content[33] ^= 1
	must.Do(t, os.WriteFile(tile, content, 0o600))
	expect.Is(t, expect.Err(p.ProveInclusion(0)), verify.ErrProof, "a proof from a damaged tile")
}

func same(a, b *verify.Proof) bool {
	x, _ := a.Marshal()
	y, _ := b.Marshal()
	return bytes.Equal(x, y)
}

// A forked log cannot prove that it continues the original.
func TestForkHasNoProof(t *testing.T) {
	dir, other := ring.Dir(t), ring.Dir(t)
	writeLog(t, dir, 20)
	opt := options(other)
	opt.Clock = time.Now // another history
	writeWith(t, opt, 30)
	p := must.Get(verify.NewProver(other, ""))(t)
	expect.Is(t, expect.Err(p.ProveConsistency(read(t, dir, "checkpoint"))), verify.ErrProof, "a fork was proved to continue")
}

func FuzzDecode(f *testing.F) {
	dir := f.TempDir()
	writeLog(f, dir, 2)
	for _, raw := range split(read(f, dir, "tile/entries/000.p/2")) {
		f.Add(raw[2:])
	}
	f.Add([]byte(`{"index":0,"index":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := verify.Decode(raw)
		if err == nil && (!json.Valid(raw) || r.V != 1) {
			t.Errorf("accepted %q", raw)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	dir := f.TempDir()
	writeLog(f, dir, 2)
	good := read(f, dir, "checkpoint")
	f.Add(good)
	f.Add([]byte("a\n1\n\n\n— a b\n"))
	v := must.Get(verify.ParseKey(vkey(f, 1)))(f)
	f.Fuzz(func(t *testing.T, msg []byte) {
		if c, err := verify.ParseCheckpoint(msg, v); err == nil && (c.Size != 2 || c.Origin != origin) {
			t.Errorf("accepted %q", msg)
		}
	})
}

func FuzzCheckProof(f *testing.F) {
	dir := f.TempDir()
	writeLog(f, dir, 3)
	p := must.Get(verify.NewProver(dir, ""))(f)
	for i := range int64(3) {
		doc := must.Get(p.ProveInclusion(i))(f)
		b, _ := doc.Marshal()
		f.Add(b)
	}
	k := vkey(f, 1)
	f.Fuzz(func(t *testing.T, doc []byte) {
		if p, err := verify.CheckProof(doc, k); err == nil && p.Origin != origin {
			t.Errorf("accepted %q", doc)
		}
	})
}

// FuzzLogFiles passes arbitrary data to all readers of files: they may report problems,
// but not panic.
func FuzzLogFiles(f *testing.F) {
	dir := f.TempDir()
	writeLog(f, dir, 3)
	names := files(f, dir)
	for i, name := range names {
		f.Add(i, read(f, dir, name))
	}
	f.Fuzz(func(t *testing.T, i int, content []byte) {
		if i < 0 || i >= len(names) {
			return
		}
		good := read(t, dir, names[i])
		d := copyDir(t, dir)
		write(t, d, names[i], content)
		r := check(t, verify.Options{Dir: d, Key: vkey(t, 1)})
		if r.OK() && !bytes.Equal(good, content) && names[i] != "lock" {
			t.Errorf("%s holds %q and nothing was found", names[i], content)
		}
		for n := range int64(2) {
			must.Get(verify.Dir(d).Records(n))(t)
		}
		_, _, _ = verify.Dir(d).Bundles()
	})
}
