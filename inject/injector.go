package inject

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
)

// Options configure an Injector.
type Options struct {
	// Template is what is put in.
	Template Template
	// All injects every pod that does not ask to be left out. Otherwise only
	// those are injected that ask for it.
	All bool
	// PodNames lets pods in that resolve names in their own way (hostAliases,
	// name servers). Whoever writes such a pod decides where the names of
	// backends lead: safe only where every upstream is HTTPS.
	PodNames bool
	// Metrics takes the webhook's metrics; nil: none are kept.
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

// New makes an Injector. It fails on a template that could not work.
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

// sameVariable reports whether a container's variable says already what ours
// would.
func sameVariable(have variable, want raw) bool {
	var w variable
	return json.Unmarshal(want, &w) == nil && w.ValueFrom == nil && have.ValueFrom == nil && w.Value == have.Value
}
