// What a log remembers of its files is seen inside of the package alone, so this is in the slow
// ring, where the package is compiled once more for it.

//go:build slow

package audit

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// A log that runs for long remembers as many partial files as it keeps.
func TestPartialFilesAreForgotten(t *testing.T) {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))
	l := must.Get(Open(Options{Dir: ring.Dir(t), Key: key, Origin: "test.example/log", Sync: func(*os.File) error { return nil }, CheckpointEvery: time.Hour}))(t)
	for range keepPartials + 2 {
		must.Do(t, l.Record(t.Context(), fullEvent()))
		must.Do(t, l.Flush(t.Context()))
	}
	noted := 0
	l.publisher.disk.named.Range(func(name, _ any) bool {
		if strings.Contains(name.(string), ".p/") {
			noted++
		}
		return true
	})
	expect.Equal(t, noted, 2*keepPartials, "a tile and a bundle each")
	must.Do(t, l.Close(t.Context()))
}

// Events that were not written because checkpoints failed are reported with that cause.
func TestUnwrittenEventsHaveACause(t *testing.T) {
	l := &Log{queue: newQueue(&Options{MaxQueue: 1}), progress: &progress{stale: syscall.EIO}}
	must.Do(t, l.queue.add(new(item)))
	err := l.drained()
	expect.Is(t, err, syscall.EIO)
	expect.Text(t, err.Error()).Lacks("%!")
}
