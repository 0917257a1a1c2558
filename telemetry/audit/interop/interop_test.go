package interop

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/audit"
)

const origin = "interop.example/log"

// writeLog appends n records and returns them.
func writeLog(t *testing.T, dir string, n int) (records [][]byte) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	l := must.Get(audit.Open(audit.Options{
		Dir: dir, Key: key, Origin: origin, CheckpointEvery: time.Millisecond,
		OnRecord: func(_ uint64, _ *memproxy.Event, rec []byte) { records = append(records, bytes.Clone(rec)) },
	}))(t)
	for i := range n {
		must.Do(t, l.RecordAsync(memproxy.Event{Type: memproxy.EventDecision, Decision: fmt.Sprint("d", i), Time: time.Now()}))
	}
	must.Do(t, l.Close(context.Background()))
	return records
}

func verifier(t *testing.T, dir string) note.Verifier {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(dir, "log.vkey")))(t)
	return must.Get(note.NewVerifier(strings.TrimSpace(string(b))))(t)
}

func hashBundle(b []byte) ([][]byte, error) {
	var e api.EntryBundle
	if err := e.UnmarshalText(b); err != nil {
		return nil, err
	}
	out := make([][]byte, len(e.Entries))
	for i, entry := range e.Entries {
		out[i] = rfc6962.DefaultHasher.HashLeaf(entry)
	}
	return out, nil
}

// Proves CARD-7, EDGE-10: an independent implementation reads the log, rebuilds its
// tree and verifies every file.
func TestTesseraReadsTheLog(t *testing.T) {
	ctx := context.Background()
	for _, size := range []int{0, 1, 255, 256, 257, 3 * 256, 70_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dir := t.TempDir()
			var records [][]byte
			for left := size; left > 0 || size == 0; left -= 8000 {
				records = append(records, writeLog(t, dir, min(left, 8000))...)
				if size == 0 {
					break
				}
			}
			v := verifier(t, dir)
			f := &client.FileFetcher{Root: dir}
			cp, _, _, err := client.FetchCheckpoint(ctx, f.ReadCheckpoint, v, origin)
			must.Do(t, err)
			must.Equal(t, int(cp.Size), size, "checkpoint of", cp.Size)
			if size == 0 {
				return
			}
			must.Do(t, fsck.New(origin, v, f, hashBundle, fsck.Opts{N: 2}).Check(ctx), "fsck")
			pb := must.Get(client.NewProofBuilder(ctx, cp.Size, f.ReadTile))(t)
			for _, i := range []uint64{0, cp.Size / 2, cp.Size - 1} {
				nodes := must.Get(pb.InclusionProof(ctx, i))(t)
				leaf := rfc6962.DefaultHasher.HashLeaf(records[i])
				expect.OK(t, proof.VerifyInclusion(rfc6962.DefaultHasher, i, cp.Size, leaf, nodes, cp.Hash), "record", i)
				b := must.Get(client.GetEntryBundle(ctx, f.ReadEntryBundle, i/256, cp.Size))(t)
				expect.Equal(t, bytes.Equal(b.Entries[i%256], records[i]), true, "record", i, "differs")
			}
		})
	}
}

// The nearest log that must fail: one flipped bit.
func TestTesseraFindsAChange(t *testing.T) {
	dir := t.TempDir()
	writeLog(t, dir, 300)
	path := filepath.Join(dir, "tile/entries/000")
	b := must.Get(os.ReadFile(path))(t)
	b[100] ^= 1
	must.Do(t, os.WriteFile(path, b, 0o600))
	ctx := context.Background()
	f := &client.FileFetcher{Root: dir}
	cp, _, _, err := client.FetchCheckpoint(ctx, f.ReadCheckpoint, verifier(t, dir), origin)
	must.Do(t, err)
	pb := must.Get(client.NewProofBuilder(ctx, cp.Size, f.ReadTile))(t)
	bundle := must.Get(client.GetEntryBundle(ctx, f.ReadEntryBundle, 0, cp.Size))(t)
	for i, entry := range bundle.Entries[:2] {
		nodes := must.Get(pb.InclusionProof(ctx, uint64(i)))(t)
		leaf := rfc6962.DefaultHasher.HashLeaf(entry)
		err = proof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), cp.Size, leaf, nodes, cp.Hash)
		if changed := i == 0; (err != nil) != changed {
			t.Errorf("record %d, changed %v: %v", i, changed, err)
		}
	}
}
