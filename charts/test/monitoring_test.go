package charttest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/memproxy/memproxy/inject"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/telemetry/signal"
)

// query is one PromQL expression of what the chart ships, and where it stands.
type query struct{ where, expr string }

type alert struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func alerts(t testing.TB) (out []alert) {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(chartDir, "files", "alerts.yaml")))(t)
	var file struct {
		Groups []struct {
			Name  string  `yaml:"name"`
			Rules []alert `yaml:"rules"`
		} `yaml:"groups"`
	}
	dec := yaml.NewDecoder(strings.NewReader(string(b)))
	dec.KnownFields(true)
	must.Do(t, dec.Decode(&file))
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// grafana are the variables of dashboards, as they would be filled in.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$namespace", ".*", "$backend", ".*")

func queries(t testing.TB) (out []query) {
	t.Helper()
	for _, a := range alerts(t) {
		out = append(out, query{"alert " + a.Alert, a.Expr})
	}
	files := must.Get(filepath.Glob(filepath.Join(chartDir, "files", "dashboards", "*.json")))(t)
	must.Equal(t, len(files) != 0, true, "no dashboards")
	for _, f := range files {
		b := must.Get(os.ReadFile(f))(t)
		var board struct {
			Panels []struct {
				Title   string
				Type    string
				Targets []struct{ Expr string }
			}
			Annotations struct{ List []struct{ Expr string } }
			Templating  struct {
				List []struct {
					Name  string
					Query any
				}
			}
		}
		must.Do(t, json.Unmarshal(b, &board), f)
		for _, p := range board.Panels {
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s: panel %s asks for nothing", f, p.Title)
			}
			for _, q := range p.Targets {
				out = append(out, query{filepath.Base(f) + ": " + p.Title, grafana.Replace(q.Expr)})
			}
		}
		for _, a := range board.Annotations.List {
			out = append(out, query{filepath.Base(f) + ": annotation", grafana.Replace(a.Expr)})
		}
		for _, v := range board.Templating.List {
			q, _ := v.Query.(map[string]any)
			text, _ := q["query"].(string)
			if m := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(text); m != nil {
				out = append(out, query{filepath.Base(f) + ": variable " + v.Name, "count by (" + m[2] + ") (" + grafana.Replace(m[1]) + ")"})
			}
		}
	}
	must.Equal(t, len(out) >= 40, true, len(out), "queries: the test does not find them")
	return out
}

// targetLabels are those that Prometheus puts on what it scrapes from pods.
var targetLabels = []string{"namespace", "pod", "container", "job", "instance"}

// ofFleet are the metrics of the control plane, with their labels.
// TestTheControlPlaneExportsWhatIsAskedFor holds them against the binary.
var ofFleet = map[string][]string{
	"memproxy_fleet_store_up": nil, "memproxy_fleet_release_faults": nil, "memproxy_fleet_sidecars": {"state"},
	"memproxy_fleet_release_info": {"release", "channel", "state"}, "memproxy_fleet_release_sidecars": {"release", "state"},
	"memproxy_fleet_release_decisions_total": {"release", "result"},
}

// catalogue is every metric that memproxy exports, with its labels.
func catalogue() map[string][]string {
	out := map[string][]string{inject.MetricReviews: {"webhook", "result"}, "up": nil}
	maps.Copy(out, ofFleet)
	for _, m := range signal.Metrics() {
		if m.Kind != signal.Histogram {
			out[m.Prometheus] = m.Labels
			continue
		}
		out[m.Prometheus+"_count"], out[m.Prometheus+"_sum"] = m.Labels, m.Labels
		out[m.Prometheus+"_bucket"] = append(slices.Clone(m.Labels), "le")
	}
	return out
}

// known are the values that a label can have, where they are few.
func known(t testing.TB) map[string][]string {
	t.Helper()
	doc := must.Get(os.ReadFile("../../docs/reasons.md"))(t)
	var reasons []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		reasons = append(reasons, m[1])
	}
	verdicts := []string{"allow", "amend", "hold", "deny", "pass"}
	return map[string][]string{
		"verdict": verdicts, "would": verdicts, "reason": reasons,
		"state":                                         {signal.StateQueued, signal.StateUnsigned},
		"result":                                        {signal.ResultGranted, signal.ResultRefused, signal.ResultOK, signal.ResultFailed, signal.ResultOffered, "malformed"},
		"memproxy_fleet_sidecars state":                 {"connected", "behind", "unassigned"},
		"memproxy_fleet_release_info state":             {"current", "rolling", "stopped", "past"},
		"memproxy_fleet_release_sidecars state":         {"assigned", "running", "refused"},
		"memproxy_fleet_release_decisions_total result": {"all", "refused", "failed"},
		"type": {"decision", "outcome", "repair", "reload", "start", "stop", "chain_break", "integrity"},
	}
}

// Every metric and label that alerts and dashboards ask for is one that the
// binary exports, and every value is one that the label can have.
// Proves CARD-10.
func TestQueriesAskForWhatIsExported(t *testing.T) {
	exported, values := catalogue(), known(t)
	p := parser.NewParser(parser.Options{})
	for _, q := range queries(t) {
		expr, err := p.ParseExpr(q.expr)
		if err != nil {
			t.Errorf("%s: %v\n%s", q.where, err, q.expr)
			continue
		}
		has := slices.Clone(targetLabels)
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			v, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			names, ok := exported[v.Name]
			expect.Equal(t, ok, true, q.where, "there is no metric", v.Name)
			has = append(has, names...)
			for _, m := range v.LabelMatchers {
				if m.Name != labels.MetricName && !slices.Contains(names, m.Name) && !slices.Contains(targetLabels, m.Name) {
					t.Errorf("%s: %s has no label %q", q.where, v.Name, m.Name)
				}
				list, few := values[v.Name+" "+m.Name]
				if !few {
					list, few = values[m.Name]
				}
				if !few || m.Value == ".*" || m.Value == "" {
					continue
				}
				for one := range strings.SplitSeq(m.Value, "|") {
					expect.Equal(t, slices.Contains(list, one), true, q.where, m.Name, "is never", one)
				}
			}
			return nil
		})
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if a, ok := n.(*parser.AggregateExpr); ok {
				for _, l := range a.Grouping {
					expect.Equal(t, slices.Contains(has, l), true, q.where, "nothing in it has the label", l)
				}
			}
			return nil
		})
	}
}

// An alert says what is the matter and how bad it is, and what it names in its
// text is there.
func TestAlertsSayWhat(t *testing.T) {
	p := parser.NewParser(parser.Options{})
	for _, a := range alerts(t) {
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) || a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: %v %v", a.Alert, a.Labels, a.Annotations)
		}
		expr := must.Get(p.ParseExpr(a.Expr))(t)
		kept := map[string]bool{}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if g, ok := n.(*parser.AggregateExpr); ok {
				for _, l := range g.Grouping {
					kept[l] = true
				}
			}
			return nil
		})
		for _, text := range a.Annotations {
			for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				expect.Equal(t, kept[m[1]], true, a.Alert, "names label", m[1], "it keeps", slices.Sorted(maps.Keys(kept)))
			}
		}
	}
}
