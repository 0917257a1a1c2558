//go:build slow

// Slow: two hundred files are written durably.

package agentrun

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Proves EDGE-1: an entry that is being written while the journal is read is not removed
// as an incomplete one.
func TestJournalIsReadWhileItIsWritten(t *testing.T) {
	j := journal{dir: filepath.Join(t.TempDir(), "runs")}
	var reader sync.WaitGroup
	written := make(chan struct{})
	reader.Go(func() {
		for {
			select {
			case <-written:
				return
			default:
				_, err := j.unsettled()
				expect.OK(t, err)
			}
		}
	})
	for i := range 200 {
		expect.OK(t, j.write(entryOf(fmt.Sprintf("%03d", i))))
	}
	close(written)
	reader.Wait()
	expect.Len(t, must.Get(j.unsettled())(t), 200, "entries")
}
