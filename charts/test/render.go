package charttest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Release is what Helm knows of an installation.
type Release struct {
	Name, Namespace string
}

// Render renders a chart's manifests, in the order of their files, as one YAML
// stream. Values are checked against the chart's schema.
func Render(dir string, r Release, values map[string]any) (string, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return "", err
	}
	return RenderChart(c, r, values)
}

// RenderChart is Render for a chart that is loaded already.
func RenderChart(c *chart.Chart, r Release, values map[string]any) (string, error) {
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return "", err
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{
		Name: r.Name, Namespace: r.Namespace, Revision: 1, IsInstall: true,
	}, chartutil.DefaultCapabilities)
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base := path.Base(name); strings.HasPrefix(base, "_") || base == "NOTES.txt" {
			continue
		}
		for _, doc := range strings.Split("\n"+files[name], "\n---") {
			if doc = strings.TrimSpace(doc); doc != "" {
				fmt.Fprintf(&out, "---\n%s\n", doc)
			}
		}
	}
	return out.String(), nil
}
