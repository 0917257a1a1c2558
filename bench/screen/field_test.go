package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/internal/ring"
)

// TestMain is the detector of TestField where it is started as python would be.
func TestMain(m *testing.M) {
	if len(os.Args) != 4 || os.Args[1] != "-c" {
		os.Exit(m.Run())
	}
	if os.Args[3] == "broken" {
		fmt.Fprintln(os.Stderr, "ImportError: no module named broken")
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var q struct{ Text string }
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil || os.Args[2] != judgeScript {
			os.Exit(3)
		}
		switch {
		case strings.Contains(q.Text, "fails"):
			fmt.Println(`{"error":"ValueError","us":7}`)
		default:
			fmt.Printf("{\"held\":%t,\"us\":7}\n", strings.Contains(q.Text, "poison"))
		}
	}
}

// Proves EDGE-12: detectors run in processes of their own, on the same rows but
// for their own corpora; what they fail on is told, and one that does not start
// says why.
func TestField(t *testing.T) {
	rows := sample([]row{
		{ID: "a-1", Source: "a", Dir: "dev", Label: "attack", Text: "poison"}, {ID: "a-2", Source: "a", Dir: "dev", Label: "attack", Text: "this fails"},
		{ID: "b-1", Source: "b", Dir: "dev2", Label: "attack", Text: "poison"}, {ID: "b-2", Source: "b", Dir: "dev2", Label: "benign", Text: "tea"},
		{ID: "c-1", Source: "c", Dir: "dev2", Label: "benign", Text: "of poison"}, {ID: "d-1", Source: "d", Dir: "dev2", Label: "benign", Text: "poison"},
		{ID: "own_x-1", Source: "own_x", Label: "benign", Text: "poison"},
	})
	m := must.Get(peer{name: "one", title: "One", own: []string{"d"}}.measure(os.Args[0], rows))(t)
	if m.Title != "One" || m.Later != 100 || m.Sources != 75 || m.Benign != 50 || m.Worst != "c" || m.Most != 100 || m.Failed != 1 || m.P50 != 7 {
		t.Errorf("%+v", m)
	}
	expect.ErrorHas(t, expect.Err((peer{name: "broken", title: "Broken"}).measure(os.Args[0], rows)), "no module named broken", "one that does not start")
}

// Proves EDGE-12: without the corpora it says which are missing and where they
// are, and runs on what is here, all detectors next to memproxy.
func TestFieldWithoutData(t *testing.T) {
	ring.Long(t, "one detector after another")
	var said strings.Builder
	out := filepath.Join(t.TempDir(), "results.json")
	must.Do(t, fieldRun(&said, t.TempDir(), "", os.Args[0], out))
	for _, want := range []string{"No corpora in", "deepteam\tApache-2.0\tconfident-ai/deepteam@"} {
		expect.Text(t, said.String(), &said).Has(want)
	}
	kept := must.Get(os.ReadFile(out))(t)
	var table strings.Builder
	must.Do(t, writeField(&table, kept))
	for _, p := range append([]peer{{title: "memproxy"}}, peers...) {
		expect.Text(t, table.String(), "no", p.title, &table).Has("\n| " + p.title + " | ")
	}
}

// Every detector that is named has its adapter and its version.
//
// Proves EDGE-12
func TestPeersHaveAdapters(t *testing.T) {
	if n := strings.Count(requirements, "=="); len(peers) < 5 || n != len(peers) {
		t.Errorf("%d detectors, %d versions", len(peers), n)
	}
	for _, p := range peers {
		expect.Text(t, judgeScript, "no adapter for", p.name).Has("\ndef " + p.name + "():\n")
	}
}
