package charttest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// Each alert fires at what it is for, by Prometheus' own engine, and not at
// what stands next to it. Proves CARD-10.
func TestAlertsFire(t *testing.T) {
	text, err := os.ReadFile("testdata/alerts.yaml")
	must.Do(t, err)
	var cases []struct {
		Alert        string
		At           string
		Fires, Quiet []string
	}
	must.Do(t, yaml.Unmarshal(text, &cases))
	played := map[string]bool{}
	for _, c := range cases {
		played[c.Alert] = true
	}
	exprs := map[string]string{}
	for _, a := range alerts(t) {
		if exprs[a.Alert] = a.Expr; !played[a.Alert] {
			t.Errorf("%s has no case", a.Alert)
		}
	}
	engine := promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery)
	for _, c := range cases {
		t.Run(c.Alert, func(t *testing.T) {
			at := must.Get(time.ParseDuration(c.At))(t)
			if v := evaluate(t, engine, exprs[c.Alert], c.Fires, at); len(v) == 0 {
				t.Error("it does not fire")
			}
			expect.Len(t, evaluate(t, engine, exprs[c.Alert], c.Quiet, at), 0, "it fires at what is ordinary")
		})
	}
}

func evaluate(t *testing.T, engine *promql.Engine, expr string, series []string, at time.Duration) promql.Vector {
	t.Helper()
	store := promqltest.LoadedStorage(t, "load 1m\n  "+strings.Join(series, "\n  ")+"\n")
	defer store.Close()
	q := must.Get(engine.NewInstantQuery(t.Context(), store, nil, expr, time.Unix(0, 0).Add(at)))(t)
	defer q.Close()
	v := must.Get(q.Exec(t.Context()).Vector())(t)
	return append(promql.Vector(nil), v...)
}
