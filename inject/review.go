package inject

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"
)

// review is the part of an admission.k8s.io/v1 AdmissionReview that is used.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitzero"`
	Response   *response `json:"response,omitzero"`
}

type request struct {
	UID         string `json:"uid"`
	Kind        kind   `json:"kind"`
	SubResource string `json:"subResource"`
	Operation   string `json:"operation"`
	Object      raw    `json:"object"`
	OldObject   raw    `json:"oldObject"`
}

type kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

type response struct {
	UID       string   `json:"uid"`
	Allowed   bool     `json:"allowed"`
	Status    *status  `json:"status,omitzero"`
	PatchType string   `json:"patchType,omitzero"`
	Patch     []byte   `json:"patch,omitzero"` // encoded as base64 in JSON
	Warnings  []string `json:"warnings,omitzero"`
}

type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Reason  string `json:"reason,omitzero"`
}

const reviewVersion = "admission.k8s.io/v1"

// errMalformed means that the body is not an AdmissionReview. The API server's failure
// policy then decides.
var errMalformed = errors.New("inject: not an AdmissionReview of " + reviewVersion)

// maxWarning is the maximum length of a warning that the API server keeps.
const maxWarning = 256

// Webhook is one of the two admission webhooks.
type Webhook string

// The webhooks. Each is served at the path of its name.
const (
	Mutate   Webhook = "mutate"
	Validate Webhook = "validate"
)

// Review answers an AdmissionReview. It returns an error if the body is not one; a
// refused pod is not an error.
func (i *Injector) Review(w Webhook, body []byte) ([]byte, error) {
	var in review
	if err := json.Unmarshal(body, &in); err != nil || in.Request == nil || in.Request.UID == "" ||
		in.APIVersion != reviewVersion || in.Kind != "AdmissionReview" {
		i.reviews.WithLabelValues(string(w), "malformed").Inc()
		return nil, errMalformed
	}
	a := i.answer(w, in.Request)
	i.reviews.WithLabelValues(string(w), a.result).Inc()
	out := &response{UID: in.Request.UID, Allowed: a.refuse == ""}
	if a.refuse != "" {
		out.Status = &status{Code: http.StatusForbidden, Reason: "Forbidden", Message: "memproxy: " + a.refuse}
	}
	for _, s := range a.warnings {
		out.Warnings = append(out.Warnings, "memproxy: "+strings.ToValidUTF8(s[:min(len(s), maxWarning-len("memproxy: "))], ""))
	}
	if len(a.patch) > 0 {
		var err error
		if out.Patch, err = json.Marshal(a.patch); err != nil {
			return nil, err
		}
		out.PatchType = "JSONPatch"
	}
	return json.Marshal(review{APIVersion: reviewVersion, Kind: "AdmissionReview", Response: out})
}

func (i *Injector) answer(w Webhook, q *request) answer {
	if w == Validate && q.SubResource == "exec" {
		return i.exec(q.Object)
	}
	if q.Kind != (kind{Version: "v1", Kind: "Pod"}) {
		return refused("the webhook received a %s; it handles pods only", q.Kind.Kind)
	}
	var p pod
	if err := json.Unmarshal(q.Object, &p); err != nil {
		return refused("the pod cannot be read")
	}
	if w == Validate {
		if q.Operation == "UPDATE" && unchanged(q.OldObject, q.Object) {
			return answer{result: "ok"}
		}
		return i.validate(&p, q.Object)
	}
	if q.Operation != "CREATE" || q.SubResource != "" {
		return refused("the mutating webhook is for new pods only")
	}
	return i.mutate(&p)
}

// Injector answers admission reviews. It is safe for concurrent use.
type Injector struct {
	all, podNames bool // see Config
	template      *template
	reviews       *prometheus.CounterVec
}

// MetricReviews counts reviews by webhook (mutate, validate) and result
// (injected, skipped, ok, refused, malformed).
const MetricReviews = "memproxy_inject_reviews_total"

// New returns an Injector. It fails if the template is invalid. metrics, if not nil,
// registers the metrics of the webhooks.
func New(c *Config, metrics prometheus.Registerer) (*Injector, error) {
	t, err := c.Template.compile()
	if err != nil {
		return nil, fmt.Errorf("inject: template: %w", err)
	}
	reviews := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: MetricReviews, Help: "Admission reviews answered, by webhook and result.",
	}, []string{"webhook", "result"})
	i := &Injector{all: c.Pods == "all", podNames: c.PodNames, template: t, reviews: reviews}
	if metrics != nil {
		if err := metrics.Register(i.reviews); err != nil {
			return nil, fmt.Errorf("inject: %w", err)
		}
	}
	return i, nil
}
