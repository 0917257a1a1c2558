package inject

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configure an Injector.
type Options struct {
	// Template is what is injected.
	Template Template
	// All injects every pod that does not opt out. Otherwise only pods that opt in are
	// injected.
	All bool
	// PodNames accepts pods with their own name resolution (hostAliases, name servers).
	// Authors of such pods control where the names of backends lead, which is safe only
	// if every upstream is HTTPS.
	PodNames bool
	// Metrics registers the webhook's metrics; nil: none.
	Metrics prometheus.Registerer
}

// Injector answers admission reviews. It is safe for concurrent use.
type Injector struct {
	opt      Options
	template *template
	reviews  *prometheus.CounterVec
}

// MetricReviews counts reviews by webhook (mutate, validate) and result
// (injected, skipped, ok, refused, malformed).
const MetricReviews = "memproxy_inject_reviews_total"

// New makes an Injector. It fails if the template cannot work.
func New(o Options) (*Injector, error) {
	t, err := o.Template.compile()
	if err != nil {
		return nil, fmt.Errorf("inject: template: %w", err)
	}
	i := &Injector{opt: o, template: t, reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: MetricReviews, Help: "Admission reviews answered, by webhook and result.",
	}, []string{"webhook", "result"})}
	if o.Metrics != nil {
		if err := o.Metrics.Register(i.reviews); err != nil {
			return nil, fmt.Errorf("inject: %w", err)
		}
	}
	return i, nil
}

// sameVariable reports whether a container's variable already has our value.
func sameVariable(have variable, want raw) bool {
	var w variable
	return json.Unmarshal(want, &w) == nil && w.ValueFrom == nil && have.ValueFrom == nil && w.Value == have.Value
}
