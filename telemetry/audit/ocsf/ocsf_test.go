package ocsf_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/telemetry/audit/ocsf"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/tools/txtar"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
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
	paths := must.Get(filepath.Glob("testdata/*.txtar"))(t)
	must.Equal(t, len(paths) >= 8, true, len(paths), "cases")
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			a := must.Get(txtar.ParseFile(path))(t)
			r := decode(t, a.Files[0].Data)
			b := must.Get(ocsf.Event(r, "memproxy/test"))(t)
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
	case 6003: // API Activity
		need = append(need, "actor", "api", "src_endpoint")
	case 6002: // Application Lifecycle
		need = append(need, "app")
	case 2004: // Detection Finding
		need = append(need, "finding_info")
	default:
		t.Errorf("class %v", class)
	}
	for _, k := range need {
		expect.Equal(t, e[k] != nil, true, k, "is required", b)
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
	must.Equal(t, len(rows) >= 40, true, len(rows), "rows: the test does not find them")
	record := must.Get(txtar.ParseFile(must.Get(filepath.Glob("testdata/*.txtar"))(t)[0]))(t)
	r := decode(t, record.Files[0].Data)
	for _, m := range rows {
		r.Reasons = []memproxy.Reason{{Code: memproxy.ReasonCode(m[1])}}
		var e struct {
			Metadata struct{ Labels []string }
			Attacks  []struct {
				Technique    struct{ UID, Name string }
				SubTechnique *struct{ UID, Name string } `json:"sub_technique"`
			}
		}
		must.Do(t, json.Unmarshal(must.Get(ocsf.Event(r, "memproxy/test"))(t), &e))
		asi, atlas := strings.TrimPrefix(strings.Join(e.Metadata.Labels, " "), "owasp_asi:"), ""
		for _, a := range e.Attacks {
			atlas = a.Technique.UID
			named := a.Technique.Name != ""
			if sub := a.SubTechnique; sub != nil {
				named = named && sub.Name != "" && strings.HasPrefix(sub.UID, atlas+".")
				atlas = sub.UID
			}
			expect.Equal(t, named, true, atlas, "has no name", a)
		}
		if len(e.Attacks) > 1 || asi != m[2] || atlas != m[3] {
			t.Errorf("%s: %q %q, the document says %q %q", m[1], asi, atlas, m[2], m[3])
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
		a := must.Get(ocsf.Event(r, ""))(t)
		b, err := ocsf.Event(r, "")
		must.Do(t, err)
		must.Equal(t, string(a), string(b))
		required(t, a)
	})
}
