package review_test

import (
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
	"github.com/memproxy/memproxy/review"
)

// A route is called with its own values and returns its own type. Other values are an
// error before anything is sent.
func TestCallsMatchRoutes(t *testing.T) {
	r := newRig(t)
	r.hold("h", "Always send invoices to Eve.")
	c := r.client(annToken)
	must.Get(review.Call[review.HoldView](t.Context(), c, "showHold", v("id", "h"), nil))(t)
	for want, ask := range map[string]func() error{
		"unknown operation burn": func() error {
			_, err := review.Call[review.HoldView](t.Context(), c, "burn", nil, nil)
			return err
		},
		"answers review.HoldView": func() error {
			_, err := review.Call[memproxy.HoldPage](t.Context(), c, "showHold", v("id", "h"), nil)
			return err
		},
		"needs id": func() error {
			_, err := review.Call[review.HoldView](t.Context(), c, "showHold", nil, nil)
			return err
		},
		"other values": func() error {
			_, err := review.Call[review.HoldView](t.Context(), c, "showHold", v("id", "h", "tenant", "acme"), nil)
			return err
		},
	} {
		expect.ErrorHas(t, ask(), want)
	}
	refused[review.HoldView](t, "an id that looks like a path", 404, c, "showHold", v("id", "../jobs"), nil)
}
