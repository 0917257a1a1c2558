package verify_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
	"github.com/memproxy/memproxy/telemetry/audit"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

// Proves SYN-6, CARD-7: a pruned log verifies, reports what was pruned, and proves the
// remaining records; the same files missing without a record of the pruning are a
// problem.
func TestPrunedLog(t *testing.T) {
	dir := ring.Dir(t)
	var last time.Time
	opt := options(dir)
	clock := opt.Clock
	opt.Clock = func() time.Time { last = clock(); return last }
	l := must.Get(audit.Open(opt))(t)
	var middle time.Time
	var early []byte
	for i := range 5 {
		add(t, l, 256)
		switch i {
		case 1:
			middle = last
		case 2:
			early = read(t, dir, "checkpoint")
		}
	}
	must.Equal(t, must.Get(l.Prune(context.Background(), middle, 0))(t), 512, "pruned")
	must.Do(t, l.Close(context.Background()))
	k := vkey(t, 1)
	r := check(t, verify.Options{Dir: dir, Key: k, Trusted: [][]byte{early}})
	if !r.OK() || r.Pruned != 512 || r.Size != 5*256+1 {
		t.Fatalf("report %+v", r)
	}
	p := must.Get(verify.NewProver(dir, k))(t)
	expect.OK(t, expect.Err(p.ProveConsistency(early)), "consistency across the pruning")
	for _, i := range []int64{0, 511, 512} {
		doc := must.Get(p.ProveInclusion(i))(t, i)
		expect.Equal(t, doc.Record == "", i < 512, "record", i, doc)
	}
	// Remove one more bundle than was recorded.
	must.Do(t, os.Remove(filepath.Join(dir, "tile/entries/002")))
	r = check(t, verify.Options{Dir: dir, Key: k})
	if p := first(r); p.Index != 512 || p.Kind != verify.RecordMissing {
		t.Errorf("a stolen bundle: %v", r.Problems)
	}
}

// A log that is written during the verification is not reported as damaged.
func TestVerifyWhileWritten(t *testing.T) {
	ring.Slow(t, "reads while another goroutine writes, for a while")
	dir := ring.Dir(t)
	opt := options(dir)
	opt.CheckpointEvery = time.Millisecond
	opt.Clock = time.Now
	l := must.Get(audit.Open(opt))(t)
	k := vkey(t, 1)
	for range 10 {
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 20 {
				add(t, l, 15)
			}
		})
		r, err := verify.Verify(context.Background(), verify.Options{Dir: dir, Key: k, Settle: 5 * time.Millisecond})
		wg.Wait()
		must.Do(t, err)
		expect.Equal(t, r.OK(), true, r.Size, r.Problems)
	}
	must.Do(t, l.Close(context.Background()))
	mustBeGood(t, dir)
}

// Two journals that were read while the writer went from one to the other have a gap. The
// next checkpoint, which says that the log is being written, follows up to a second later.
func TestVerifyBetweenCheckpoints(t *testing.T) {
	dir := ring.Dir(t)
	l := must.Get(audit.Open(options(dir)))(t)
	add(t, l, 500)
	for range 20 {
		must.Do(t, l.Record(context.Background(), event()))
	}
	between := copyDir(t, dir)
	name := "journal/000000000001"
	b := read(t, between, name)
	write(t, between, name, b[:bytes.LastIndex(b, []byte("mpj1"))])
	must.Equal(t, first(check(t, verify.Options{Dir: between})).Kind, verify.RecordMissing)
	must.Do(t, l.Close(context.Background()))
	synctest.Test(t, func(t *testing.T) {
		go func() {
			time.Sleep(audit.DefaultCheckpointEvery)
			must.Do(t, os.RemoveAll(between))
			must.Do(t, os.CopyFS(between, os.DirFS(dir)))
		}()
		r := must.Get(verify.Verify(t.Context(), verify.Options{Dir: between}))(t)
		expect.Equal(t, r.OK(), true, r.Problems)
	})
}

// Records after the last checkpoint are counted, and checked as far as possible without
// a signature.
func TestPendingRecords(t *testing.T) {
	dir := ring.Dir(t)
	l := must.Get(audit.Open(options(dir)))(t)
	add(t, l, 300)
	ctx := context.Background()
	for range 5 {
		must.Do(t, l.Record(ctx, event()))
	}
	r := check(t, verify.Options{Dir: dir, Key: vkey(t, 1)})
	if !r.OK() || r.Size != 300 || r.Pending != 5 {
		t.Errorf("report %+v", r)
	}
	copied := copyDir(t, dir)
	must.Do(t, l.Close(ctx))
	name := "journal/000000000001"
	b := read(t, copied, name)
	for i := len(b) - 3000; i < len(b); i += 53 * ring.Share(1, 4) {
		bad := append([]byte(nil), b...)
		bad[i] ^= 4
		write(t, copied, name, bad)
		must.Equal(t, check(t, verify.Options{Dir: copied, Key: vkey(t, 1)}).OK(), false, "journal byte", i, "flipped: nothing found")
	}
}
