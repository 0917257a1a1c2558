package budgets

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// total names one account that counts for ever.
type total struct{ tenant, key string }

// entry is one line of the file: a change of a total.
type entry struct {
	Tenant string `json:"t,omitempty"`
	Key    string `json:"k"`
	Delta  int64  `json:"d"`
}

// totals is an append-only file of changes, rewritten as one line an account
// when it is opened. A line is written with one call and without fsync: the
// end of the process loses nothing, the loss of power the last moments.
type totals struct {
	f *os.File
}

func openTotals(path string) (*totals, map[total]int64, error) {
	counts, err := readTotals(path)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("budgets: %w", err)
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("budgets: %w", err)
	}
	t := &totals{f: f}
	for k, n := range counts {
		if err := t.add(k, n); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(f.Sync(), os.Rename(tmp, path)); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("budgets: %w", err), f.Close())
	}
	return t, counts, nil
}

// maxLine bounds a line of the file.
const maxLine = 8 << 10

func readTotals(path string) (map[total]int64, error) {
	counts := map[total]int64{}
	f, err := os.Open(path)
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
			return nil, torn // a broken line with others after it is no torn tail
		}
		var e entry
		if err := json.Unmarshal(sc.Bytes(), &e); err != nil || e.Key == "" {
			torn = fmt.Errorf("budgets: %s:%d: not a line of totals", path, n)
			continue
		}
		k := total{e.Tenant, e.Key}
		if counts[k] = max(0, counts[k]+e.Delta); counts[k] == 0 {
			delete(counts, k)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("budgets: %s: %w", path, err)
	}
	return counts, nil
}

func (t *totals) add(k total, delta int64) error {
	line, err := json.Marshal(entry{k.tenant, k.key, delta})
	if err != nil {
		return err
	}
	if _, err := t.f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("budgets: totals: %w", err)
	}
	return nil
}

func (t *totals) close() error { return errors.Join(t.f.Sync(), t.f.Close()) }
