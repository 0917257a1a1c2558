package budgets_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/budgets"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "budgets.jsonl")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// lines returns the lines of a file of totals, sorted: one for each account, once it was opened.
func lines(t testing.TB, path string) []string {
	t.Helper()
	all := slices.Collect(strings.Lines(string(must.Get(os.ReadFile(path))(t))))
	slices.Sort(all)
	return all
}

// adds charges one account so many times.
func adds(t *testing.T, m *budgets.Memory, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must.Get(m.Charge(t.Context(), memproxy.Charge{ID: fmt.Sprint(i), Tenant: "acme", Cost: 1, Time: time.Unix(7200, 0), Lines: []memproxy.Line{
			{Key: "k", Window: memproxy.WindowTotal, Limit: 1 << 20}}}))(t)
	}
}

// Proves TRL-6: a torn last line, which a killed process leaves, is dropped; any other
// corruption prevents the start, since a guessed total could grant more writes.
func TestReadTotals(t *testing.T) {
	a := `{"t":"acme","k":"principal/a","d":3}` + "\n"
	of := func(n int64) []string { return []string{fmt.Sprintf(`{"t":"acme","k":"principal/a","d":%d}`+"\n", n)} }
	for name, c := range map[string]struct {
		content string
		want    []string
		fault   string
	}{
		"empty":              {"", nil, ""},
		"sums":               {a + a, of(6), ""},
		"falls":              {a + `{"t":"acme","k":"principal/a","d":-2}` + "\n", of(1), ""},
		"never below zero":   {a + `{"t":"acme","k":"principal/a","d":-9}` + "\n" + a, of(3), ""},
		"no tenant":          {`{"k":"principal/a","d":1}` + "\n", []string{`{"k":"principal/a","d":1}` + "\n"}, ""},
		"no last newline":    {a + strings.TrimSpace(a), of(6), ""},
		"torn tail":          {a + a[:20], of(3), ""},
		"torn at the start":  {a[:5], nil, ""},
		"broken in between":  {a + a[:20] + "\n" + a, nil, ":2: not a line of totals"},
		"two lines in one":   {a + a[:20] + a + a, nil, ":2: not a line of totals"},
		"no key":             {`{"d":1}` + "\n" + a, nil, ":1: not a line of totals"},
		"not a whole number": {`{"k":"x","d":1.5}` + "\n" + a, nil, ":1: not a line of totals"},
		"a line too long":    {a + strings.Repeat("x", 8<<10+1) + "\n" + a, nil, "too long"},
		"more than it holds": {`{"k":"x","d":9223372036854775807}` + "\n" + `{"k":"x","d":1}` + "\n", nil, ":1: more than a total holds"},
		"a negative abyss":   {a + `{"t":"acme","k":"principal/a","d":-9223372036854775808}` + "\n" + a, of(3), ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.content)
			m, err := budgets.NewMemory(path)
			if c.fault != "" {
				must.ErrorHas(t, err, c.fault)
				return
			}
			must.Do(t, err, "read")
			must.Do(t, m.Close())
			expect.List(t, lines(t, path), c.want, "read")
		})
	}
}

// A long file is compacted without changing the totals.
func TestTotalsStayShort(t *testing.T) {
	path := write(t, "")
	m := must.Get(budgets.NewMemory(path))(t)
	adds(t, m, 0, 10_000)
	must.Len(t, lines(t, path), 10_000)
	adds(t, m, 10_000, 10_001)
	must.List(t, lines(t, path), []string{`{"t":"acme","k":"k","d":10001}` + "\n"})
	adds(t, m, 10_001, 10_002)
	must.Len(t, lines(t, path), 2)
	must.Do(t, m.Close())
	must.Do(t, must.Get(budgets.NewMemory(path))(t).Close())
	must.List(t, lines(t, path), []string{`{"t":"acme","k":"k","d":10002}` + "\n"})
}

// If the file cannot be compacted the old one stays in use, and the next try is at twice its
// length.
func TestTotalsThatCannotBeShortened(t *testing.T) {
	path := write(t, `{"k":"l","d":5}`+"\n")
	m := must.Get(budgets.NewMemory(path))(t)
	must.Do(t, os.Mkdir(path+".new", 0o700)) // blocks the new file
	adds(t, m, 0, 10_005)
	expect.Error(t, expect.Err(budgets.NewMemory(path)), "a file that cannot be written was opened")
	must.Do(t, os.Remove(path+".new"))
	adds(t, m, 10_005, 2*10_004-1)
	must.Len(t, lines(t, path), 2*10_004)
	adds(t, m, 2*10_004-1, 2*10_004)
	want := []string{`{"k":"l","d":5}` + "\n", `{"t":"acme","k":"k","d":20008}` + "\n"}
	must.List(t, lines(t, path), want)
	must.Do(t, m.Close())
	must.Do(t, must.Get(budgets.NewMemory(path))(t).Close())
	must.List(t, lines(t, path), want)
}

// FuzzReadTotals: whatever the file contains, reading neither panics nor gives a total
// that is not positive, and compacting preserves what was read.
func FuzzReadTotals(f *testing.F) {
	line := `{"t":"acme","k":"principal/a","d":3}` + "\n"
	for _, s := range []string{"", line, line + line[:10], line[:10] + line, "{}\n" + line, `{"k":"\ud800","d":1}` + "\n", "\n\n", `{"k":"x","d":-1}`, `{"k":"x","d":9223372036854775807}` + "\n" + `{"k":"x","d":1}`} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(dir, "budgets.jsonl")
		must.Do(t, os.WriteFile(path, content, 0o600))
		m, err := budgets.NewMemory(path)
		if err != nil {
			return
		}
		must.Do(t, m.Close())
		first := lines(t, path)
		for _, line := range first {
			var e struct {
				Key   string `json:"k"`
				Delta int64  `json:"d"`
			}
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Delta <= 0 || e.Key == "" {
				t.Fatalf("%q: %v", line, err)
			}
		}
		must.Do(t, must.Get(budgets.NewMemory(path))(t).Close())
		must.List(t, lines(t, path), first, "opened again")
	})
}
