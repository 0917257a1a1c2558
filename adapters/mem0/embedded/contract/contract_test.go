package contract_test

import (
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memproxy/memproxy/adapters/mem0/embedded"
	"github.com/memproxy/memproxy/internal/must"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "write the answers that MEM0_CONTRACT_URL gives into testdata")

func TestEmbedded(t *testing.T) {
	b := must.Get(embedded.New(embedded.Options{Keys: []string{keys.Hosted, keys.SelfHosted}, AdminKey: keys.Admin}))(t)
	srv := httptest.NewServer(b)
	defer srv.Close()
	run(t, srv.URL)
}

// keys are accepted by e2e/mem0 as it is started by default.
var keys = credentials{Hosted: "m0-contract", SelfHosted: "m0sk_contract", Admin: "e2e-admin-key"}

// TestRealEngine runs the cases against the engine of e2e/mem0, or anything
// else at MEM0_CONTRACT_URL. With -update its answers become the wanted ones.
func TestRealEngine(t *testing.T) {
	base := os.Getenv("MEM0_CONTRACT_URL")
	if base == "" {
		t.Skip("MEM0_CONTRACT_URL is not set")
	}
	if !*update {
		run(t, base)
		return
	}
	for _, c := range cases(t) {
		write(t, base, c)
	}
}

func write(t *testing.T, base string, c kase) {
	t.Helper()
	path := filepath.Join("testdata", c.name+".txtar")
	ar := must.Get(txtar.ParseFile(path))(t)
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return strings.HasSuffix(f.Name, ".answer") })
	talk := newTalk(base, keys)
	defer talk.tidy(t, c.name)
	var files []txtar.File
	for i, s := range c.steps {
		got, err := talk.ask(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %s: %v", c.name, s.name, err)
		}
		if s.want.status != 0 && s.differs(got) == "" {
			got.body = s.want.body // keeps "<any>"
		}
		head := strings.Join(append([]string{fmt.Sprint(got.status)}, s.want.flags...), " ") + "\n"
		for name, values := range s.want.header {
			head += name + ": " + values[0] + "\n"
		}
		body := indented(got.body)
		if body != "" {
			body += "\n"
		}
		files = append(files, ar.Files[i], txtar.File{Name: s.name + ".answer", Data: []byte(head + body)})
	}
	ar.Files = files
	must.Do(t, os.WriteFile(path, txtar.Format(ar), 0o644))
}

func TestNormalNamesWhatVaries(t *testing.T) {
	n := newNames("zz99")
	got := must.Get(n.normal(200, nil, []byte(`{"results":[
		{"id":"0b0c6a5e-6f5e-4c0e-9a3a-0123456789ab","memory":"b","user_id":"ann-zz99","score":0.5,"created_at":"2001-01-01T00:00:00+00:00"},
		{"id":"1b0c6a5e-6f5e-4c0e-9a3a-0123456789ab","memory":"a","user_id":"bob"}],
		"next":"http://127.0.0.1:1/v3/memories/?page_size=1&page=2"}`), []string{"ours"}))(t)
	want := must.Get(parseAnswer(`200
{"results":[{"id":"<id1>","memory":"b","user_id":"ann-$run","score":"<any>","created_at":"2001-01-01T00:00:00+00:00"}],
 "next":"<backend>/v3/memories/?page=2&page_size=1"}`))(t)
	s := step{want: want}
	if diff := s.differs(got); diff != "" {
		t.Error(diff)
	}
	if got := n.fill("/v1/memories/<id1>/?user_id=ann-$run&other=<id2>"); got != "/v1/memories/0b0c6a5e-6f5e-4c0e-9a3a-0123456789ab/?user_id=ann-zz99&other=<id2>" {
		t.Error(got)
	}
}
