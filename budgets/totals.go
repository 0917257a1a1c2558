package budgets

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/durable"
)

// entry is one line of the file: a change of a total by a number of writes.
type entry struct {
	Tenant string `json:"t,omitempty"`
	Key    string `json:"k"`
	Delta  int64  `json:"d"`
}

// totals is an append-only file of changes. It is compacted to one line per account when it
// is opened and when it has grown long. The changes of a charge are one write without fsync:
// a crash of the process loses nothing, a power failure may lose the last changes. Nil totals
// keep nothing.
type totals struct {
	path      string
	f         file
	size      int64 // size of the file up to its last complete line
	lines     int
	compactAt int           // lines at which the file is compacted
	refused   int           // length of the longest write that failed since one of that length succeeded
	buf       *bytes.Buffer // encodes the next lines
}

// file is what totals need of an *os.File.
type file interface {
	io.WriteCloser
	Truncate(size int64) error
	Sync() error
}

// minProbe is the least that a probe writes. A few bytes would fit into the last block of the
// file on a full disk, where an ordinary charge does not.
const minProbe = 4 << 10

// slack is the number of lines that the file may have in addition to four per account.
const slack = 10_000

func openTotals(path string) (*totals, map[account]int64, error) {
	counts, err := readTotals(path)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("budgets: %w", err)
	}
	t := &totals{path: path}
	if err := t.rewrite(counts); err != nil {
		return nil, nil, err
	}
	return t, counts, nil
}

// rewrite compacts the file to one line per account that never expires. On an error the old
// file stays in use.
func (t *totals) rewrite(counts map[account]int64) error {
	tmp := t.path + ".new"
	f, err := durable.Open(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return fmt.Errorf("budgets: %w", err)
	}
	all := make([]entry, 0, len(counts))
	for k, n := range counts {
		if k.window == memproxy.WindowTotal {
			all = append(all, entry{k.tenant, k.key, n})
		}
	}
	fresh := totals{path: t.path, f: f, buf: new(bytes.Buffer), compactAt: 4*len(all) + slack}
	err = fresh.add(all)
	fresh.buf = new(bytes.Buffer) // the buffer for all accounts is large, that of one charge is small
	if err == nil {
		err = errors.Join(f.Sync(), os.Rename(tmp, t.path))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("budgets: %w", err), f.Close())
	}
	old := t.f
	*t = fresh
	if old != nil {
		_ = old.Close() // superseded
	}
	return nil
}

const (
	maxLine  = 8 << 10 // bytes of a line of the file
	maxTotal = 1 << 53 // far below overflow
)

func readTotals(path string) (map[account]int64, error) {
	counts := map[account]int64{}
	f, err := durable.OpenRegular(path)
	if errors.Is(err, os.ErrNotExist) {
		return counts, nil
	}
	if err != nil {
		return nil, fmt.Errorf("budgets: %w", err)
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, maxLine)
	var torn error
	for n := 1; sc.Scan(); n++ {
		if torn != nil {
			return nil, torn // only the last line may be torn
		}
		var e entry
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil || e.Key == "" {
			torn = fmt.Errorf("budgets: %s:%d: not a line of totals", path, n)
			continue
		}
		k := account{e.Tenant, e.Key, memproxy.WindowTotal, 0}
		if e.Delta > maxTotal-counts[k] {
			return nil, fmt.Errorf("budgets: %s:%d: more than a total holds", path, n)
		}
		if counts[k] = max(0, counts[k]+e.Delta); counts[k] == 0 {
			delete(counts, k)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("budgets: %s: %w", path, err)
	}
	return counts, nil
}

// add appends changes, all or none. A partial write (disk full) is truncated, so that
// the next line does not continue a torn one.
func (t *totals) add(changes []entry) error {
	t.buf.Reset()
	enc := json.NewEncoder(t.buf)
	for _, c := range changes {
		if err := enc.Encode(c); err != nil {
			return fmt.Errorf("budgets: totals: %w", err)
		}
	}
	if err := t.write(t.buf.Bytes()); err != nil {
		return err
	}
	t.size += int64(t.buf.Len())
	t.lines += len(changes)
	return nil
}

func (t *totals) write(text []byte) error {
	if _, err := t.f.Write(text); err != nil {
		t.refused = max(t.refused, len(text))
		return errors.Join(fmt.Errorf("budgets: totals: %w", err), t.f.Truncate(t.size))
	}
	if len(text) >= t.refused {
		t.refused = 0
	}
	return nil
}

// probe returns an error if the file has no room for a charge. It appends lines that
// change nothing, as many as the longest charge that failed takes, and removes them.
func (t *totals) probe() error {
	if t == nil {
		return nil
	}
	const line = `{"k":"room","d":0}` + "\n"
	lines := strings.Repeat(line, max(minProbe, t.refused)/len(line)+1)
	if err := t.write([]byte(lines)); err != nil {
		return err
	}
	if err := t.f.Truncate(t.size); err != nil {
		t.size += int64(len(lines)) // they stay
		return fmt.Errorf("budgets: totals: %w", err)
	}
	return nil
}

// compact compacts the file if it has grown long. If that fails, the long file stays
// valid and the next attempt is made at twice its length.
func (t *totals) compact(counts map[account]int64) {
	if t != nil && t.lines > t.compactAt && t.rewrite(counts) != nil {
		t.compactAt *= 2
	}
}

func (t *totals) close() error {
	if t == nil {
		return nil
	}
	return errors.Join(t.f.Sync(), t.f.Close())
}
