// Command render prints the manifests of a chart, for those who have Go and
// not Helm: go run ./cmd/render -values FILE.
package main

import (
	"flag"
	"fmt"
	"os"

	"helm.sh/helm/v3/pkg/chartutil"

	charttest "github.com/memproxy/memproxy/charts/test"
)

func main() {
	dir := flag.String("chart", "../memproxy", "the chart's directory")
	values := flag.String("values", "", "values file")
	name := flag.String("name", "memproxy", "name of the release")
	namespace := flag.String("namespace", "memproxy-system", "namespace of the release")
	flag.Parse()
	out, err := render(*dir, *values, charttest.Release{Name: *name, Namespace: *namespace})
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
	fmt.Print(out)
}

func render(dir, path string, r charttest.Release) (string, error) {
	values := map[string]any{}
	if path != "" {
		v, err := chartutil.ReadValuesFile(path)
		if err != nil {
			return "", err
		}
		values = v
	}
	return charttest.Render(dir, r, values)
}
