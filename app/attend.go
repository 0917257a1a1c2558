package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/review"
	"github.com/memproxy/memproxy/telemetry/audit"
)

// Attended is which installation a custodian is asked for.
type Attended struct {
	Config *config.Config // nil: the sidecar at Admin
	Admin  string         // address of the admin listener of a sidecar that runs; "": the configuration's
	Token  string         // a reviewer's
	Options
}

// adminDefault is where a sidecar's admin listener is unless somebody says.
const adminDefault = "http://127.0.0.1:9901"

// closeTime bounds the closing of a state that was opened for one question.
const closeTime = 20 * time.Second

// Attend has a custodian do what the API calls op: here where no sidecar runs on
// the state, else by the API of the one that does. The log and the ledger have one
// writer: a state that a sidecar has open is not touched.
func Attend[In, Out any](ctx context.Context, a Attended, op string, q In, here func(review.Custodian, context.Context, In) (Out, error)) (out Out, err error) {
	at := cmp.Or(a.Admin, adminDefault)
	switch {
	case a.Config != nil && a.Admin == "":
		c, done, err := OpenCustody(ctx, a.Config, a.Options)
		if err == nil {
			defer func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
				defer cancel()
				if err := done(ctx); err != nil {
					fmt.Fprintln(a.Log, "memproxy:", err)
				}
			}()
			out, err = here(c, ctx, q)
			return out, errors.Join(err, c.Anchor(ctx))
		}
		if !errors.Is(err, audit.ErrLocked) {
			return out, err
		}
		if a.Token == "" {
			return out, errors.New("a sidecar runs on this state: ask it, with a reviewer's token in --token-file or $" + review.TokenEnv)
		}
		if _, _, err := net.SplitHostPort(a.Config.Admin.Listen); err != nil {
			return out, errors.New("a sidecar runs on this state: give its --admin address")
		}
		at = "http://" + a.Config.Admin.Listen
	case a.Config == nil && a.Token == "":
		return out, errors.New("give --config, or --admin with a reviewer's token in --token-file or $" + review.TokenEnv)
	}
	client, err := review.NewClient(review.ClientOptions{URL: at, Token: a.Token})
	if err != nil {
		return out, err
	}
	return review.Call[Out](ctx, client, op, nil, q)
}
