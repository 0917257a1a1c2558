package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy/screen"
)

// peer is a published detector. own has its author's own corpora, on which it is not
// measured.
type peer struct {
	name, title string
	own         []string
}

// peers are the detectors of field/judge.py, at the versions of
// field/requirements.txt.
var peers = []peer{
	{"agent_memory_guard", "OWASP Agent Memory Guard", nil},
	{"agent_os", "Microsoft Agent OS MemoryGuard", nil},
	{"bastionmemory", "bastionmemory", nil},
	{"injectguard", "injectguard", nil},
	{"memgar", "memgar", []string{"memgar_envelope", "memgar_scenarios"}},
	{"prompt_injection_defense", "prompt-injection-defense", nil},
	{"sunglasses", "sunglasses", []string{"sunglasses"}},
}

//go:embed field/judge.py
var judgeScript string

//go:embed field/requirements.txt
var requirements string

//go:embed field/corpora.tsv
var corpora string

const (
	// fieldEach is the number of rows measured of each source and label: some detectors
	// take 100 ms per row.
	fieldEach = 20
	// fieldTime bounds one detector's run.
	fieldTime = 30 * time.Minute
)

// errLate means that a detector ran out of time.
var errLate = errors.New("its time is over")

// measured has the results of one detector.
type measured struct {
	Title   string   `json:"title"`
	Later   float64  `json:"later"`   // mean detection over sources gathered later, in percent
	Sources float64  `json:"sources"` // over all
	Benign  float64  `json:"benign"`  // harmless rows held, in percent
	Worst   string   `json:"worst"`   // the harmless source with the most rows held
	Most    float64  `json:"most"`    // its percentage
	P50     float64  `json:"p50"`     // microseconds
	P95     float64  `json:"p95"`
	Failed  int      `json:"failed,omitempty"` // rows on which it failed
	Late    int      `json:"late,omitempty"`   // rows that it did not judge in time
	Own     []string `json:"own,omitempty"`    // corpora that it was not measured on
}

// answer is a detector's answer for one text.
type answer struct {
	Held  bool    `json:"held"`
	Us    float64 `json:"us"`
	Error string  `json:"error"`
}

// fieldRun measures every detector on the same rows and writes the results.
func fieldRun(w io.Writer, data, cache, python, out string) error {
	rows, ours, err := fieldRows(w, data, cache)
	if err != nil {
		return err
	}
	table := []measured{ours}
	keep := func() error { // after each detector
		b, err := json.MarshalIndent(fieldResult{Rows: len(rows), Table: table}, "", "\t")
		if err != nil {
			return err
		}
		return os.WriteFile(out, append(b, '\n'), 0o644)
	}
	if err := keep(); err != nil {
		return err
	}
	for _, p := range peers {
		m, err := p.measure(python, rows)
		if err != nil {
			return fmt.Errorf("%s: %w (make bench-field installs it)", p.title, err)
		}
		fmt.Fprintf(w, "%+v\n", m)
		table = append(table, m)
		if err := keep(); err != nil {
			return err
		}
	}
	return nil
}

// fieldResult is the stored result, so that a report can be made without the other
// detectors.
type fieldResult struct {
	Rows  int        `json:"rows"`
	Table []measured `json:"table"`
	// Left says what could not be measured, one sentence each.
	Left []string `json:"left,omitempty"`
}

// fieldRows returns the rows for all detectors, and memproxy's results: each row is
// judged by a classifier trained without its source. Without the corpora the rows are the
// texts of this repository.
func fieldRows(w io.Writer, data, cache string) ([]*row, measured, error) {
	s := noError(screen.New(screen.Options{}))
	all, err := load(data)
	if errors.Is(err, errNoData) {
		missing(w, data)
		rows := sample(published())
		m, err := tallied(peer{title: "memproxy"}, rows, func(r *row) (answer, error) { return timed(s, r), nil })
		return rows, m, err
	}
	if err != nil {
		return nil, measured{}, err
	}
	b, res, err := measure(all, cache)
	if err != nil {
		return nil, measured{}, err
	}
	held := map[string]bool{}
	for i := range b.rows {
		held[b.rows[i].ID] = res[i].source.Verdict.Stops()
	}
	rows := sample(b.rows)
	m, err := tallied(peer{title: "memproxy"}, rows, func(r *row) (answer, error) {
		a := timed(s, r)
		a.Held = held[r.ID]
		return a, nil
	})
	return rows, m, err
}

// timed returns the answer of the shipped pack and the time it took.
func timed(s *screen.Screener, r *row) answer {
	begin := time.Now()
	held := s.Text(r.Text, "", "").Verdict.Stops()
	return answer{Held: held, Us: float64(time.Since(begin).Nanoseconds()) / 1000}
}

// sample returns fieldEach rows of each source and label, always the same, in an order in
// which any prefix is representative.
func sample(rows []row) []*row {
	order := choose(rows, fieldEach, func(*row) bool { return true })
	slices.SortStableFunc(order, func(a, b *row) int { return cmp.Compare(number(a.ID, 1), number(b.ID, 1)) })
	return order
}

// missing prints that the corpora are missing, and where they are published.
func missing(w io.Writer, data string) {
	fmt.Fprintf(w, "No corpora in %s: only the texts of this repository are measured. Each corpus is a file NAME.jsonl, a line a row:\n"+
		"{\"id\",\"text\",\"label\":\"attack\" or \"benign\",\"source\":NAME,\"kind\",\"license\"}. They are published at:\n\n%s\n", data, corpora)
}

// measure runs the detector in a separate process.
func (p peer) measure(python string, rows []*row) (measured, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fieldTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "-c", judgeScript, p.name)
	in, err := cmd.StdinPipe()
	if err != nil {
		return measured{}, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return measured{}, err
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		return measured{}, err
	}
	lines := bufio.NewScanner(said)
	ask := func(r *row) (a answer, err error) {
		b, err := json.Marshal(map[string]string{"text": r.Text})
		if err != nil {
			return a, err
		}
		_, err = in.Write(append(b, '\n'))
		if err != nil || !lines.Scan() {
			if ctx.Err() != nil {
				return a, errLate
			}
			return a, cmp.Or(err, lines.Err(), io.ErrUnexpectedEOF)
		}
		return a, json.Unmarshal(lines.Bytes(), &a)
	}
	if _, err = ask(&row{Text: "Ann likes tea."}); err == nil { // the detector starts
		var m measured
		if m, err = tallied(p, rows, ask); err == nil && m.Late > 0 {
			_ = cmd.Wait() // the context killed it
			return m, nil
		} else if err == nil {
			return m, errors.Join(in.Close(), cmd.Wait())
		}
	}
	cancel()
	_ = cmd.Wait() // the context killed it
	return measured{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
}

// tallied runs a detector on each row that is not of its own corpora.
func tallied(p peer, rows []*row, ask func(*row) (answer, error)) (measured, error) {
	m := measured{Title: p.title, Own: p.own}
	attacks, benign, pooled := byName{}, byName{}, tally{}
	dirs := map[string]string{}
	var took []float64
	for _, r := range rows {
		if slices.Contains(p.own, r.Source) {
			continue
		}
		a, err := answer{}, errLate
		if m.Late == 0 {
			a, err = ask(r)
		}
		if errors.Is(err, errLate) {
			m.Late++
			continue
		}
		if err != nil {
			return m, err
		}
		if a.Error != "" {
			m.Failed++
		}
		took = append(took, a.Us)
		of := attacks
		if !r.attack() {
			of = benign
			pooled.add(a.Held, false, "")
		}
		of.add(r.Source, a.Held, false, "")
		dirs[r.Source] = r.Dir
	}
	slices.Sort(took)
	m.P50, m.P95 = took[len(took)/2], took[len(took)*95/100]
	m.Later, _ = macro(attacks, func(s string) bool { return dirs[s] != "dev" })
	m.Sources, _ = macro(attacks, func(string) bool { return true })
	m.Benign = pooled.share()
	if names := worstFirst(benign, true); len(names) > 0 {
		m.Worst, m.Most = names[0], benign[names[0]].share()
	}
	return m, nil
}
