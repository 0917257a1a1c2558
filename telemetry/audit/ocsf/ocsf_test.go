package ocsf

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

var update = flag.Bool("update", false, "write what came out into the cases")

func decode(t testing.TB, text []byte) *verify.Record {
	t.Helper()
	v := jsontext.Value(bytes.Clone(text))
	must.Do(t, v.Canonicalize())
	r, err := verify.Decode(v)
	must.Do(t, err, v)
	return r
}

// Each case of testdata is a record and its event.
// Proves CARD-10.
func TestEvents(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) < 8 {
		t.Fatalf("%d cases, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a := must.Get(txtar.ParseFile(path))(t)
			r := decode(t, a.Files[0].Data)
			b := must.Get(Event(r, "memproxy/test"))(t)
			required(t, b)
			v := jsontext.Value(b)
			must.Do(t, v.Indent(jsontext.WithIndent("  ")))
			got := append(v, '\n')
			if len(a.Files) < 2 {
				a.Files = append(a.Files, txtar.File{Name: "event"})
			}
			if bytes.Equal(a.Files[1].Data, got) {
				return
			}
			if !*update {
				t.Errorf("got\n%s\nwant\n%s", got, a.Files[1].Data)
				return
			}
			a.Files[1].Data = got
			must.Do(t, os.WriteFile(path, txtar.Format(a), 0o644))
		})
	}
}

// required checks the members that OCSF 1.6 requires for each class, and that names and
// ids agree.
func required(t testing.TB, b []byte) {
	t.Helper()
	var e map[string]any
	must.Do(t, json.Unmarshal(b, &e))
	need := []string{"activity_id", "category_uid", "class_uid", "metadata", "severity_id", "time", "type_uid"}
	class, _ := e["class_uid"].(float64)
	switch class {
	case classAPI:
		need = append(need, "actor", "api", "src_endpoint")
	case classLifecycle:
		need = append(need, "app")
	case classFinding:
		need = append(need, "finding_info")
	default:
		t.Errorf("class %v", class)
	}
	for _, k := range need {
		if e[k] == nil {
			t.Errorf("%s is required: %s", k, b)
		}
	}
	if e["type_uid"] != class*100+e["activity_id"].(float64) || float64(int(class)/1000) != e["category_uid"] {
		t.Errorf("type_uid %v, class_uid %v, activity_id %v, category_uid %v", e["type_uid"], class, e["activity_id"], e["category_uid"])
	}
	meta := e["metadata"].(map[string]any)
	if meta["version"] == nil || meta["product"] == nil {
		t.Errorf("metadata: %v", meta)
	}
	for k, v := range e {
		if v == "" || k == "severity" && v == "Unknown" {
			t.Errorf("%s is empty", k)
		}
	}
}

// The ids are those of docs/reasons.md, and each has a name.
func TestThreatsAreThoseOfTheDocument(t *testing.T) {
	doc := must.Get(os.ReadFile("../../../docs/reasons.md"))(t)
	row := regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|.*\\| *(ASI[0-9]+)? *\\| *(AML\\.T[0-9.]+)? *\\|$")
	rows := row.FindAllStringSubmatch(string(doc), -1)
	if len(rows) < 40 {
		t.Fatalf("%d rows: the test does not find them", len(rows))
	}
	for _, m := range rows {
		if got, want := threats()[memproxy.ReasonCode(m[1])], (threat{m[2], m[3]}); got != want {
			t.Errorf("%s: %v, the document says %v", m[1], got, want)
		}
		if m[3] == "" {
			continue
		}
		for id := m[3]; strings.Contains(id, "T"); id = id[:strings.LastIndexByte(id, '.')] {
			if techniques[id] == "" {
				t.Errorf("%s has no name", id)
			}
			if strings.Count(id, ".") < 2 {
				break
			}
		}
	}
}

// The event of any record is valid JSON, complete and deterministic.
func FuzzEvent(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*.txtar")
	for _, p := range paths {
		if a, err := txtar.ParseFile(p); err == nil {
			v := jsontext.Value(a.Files[0].Data)
			if v.Canonicalize() == nil {
				f.Add([]byte(v))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := verify.Decode(raw)
		if err != nil {
			return
		}
		a := must.Get(Event(r, ""))(t)
		b, err := Event(r, "")
		must.Do(t, err)
		must.Equal(t, string(a), string(b))
		required(t, a)
	})
}
