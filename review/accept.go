package review

import (
	"context"
	"io"
	"net/http"

	"github.com/memproxy/memproxy"
)

// AcceptRequest takes a broken chain as it is.
type AcceptRequest struct {
	Tenant string `json:"tenant"`
	Reason string `json:"reason"`
}

// AcceptReport is what was accepted.
type AcceptReport struct {
	Tenant string `json:"tenant"`
	// Accepted are the faults that count no more, Left those that stay: texts
	// that are not the recorded ones.
	Accepted []memproxy.ChainFault `json:"accepted,omitempty"`
	Left     []memproxy.ChainFault `json:"left,omitempty"`
	// Head is the end from which the chain goes on.
	Head memproxy.ChainHead `json:"head"`
	// Cleared is how many memories are not doubted any more.
	Cleared int `json:"cleared"`
}

func (r *AcceptRequest) why() string { return r.Reason }

func accept(c *call) (any, error) {
	var in AcceptRequest
	if err := c.body(&in); err != nil {
		return nil, err
	}
	if !c.allowed(in.Tenant) {
		return nil, notFound()
	}
	return custody(c, in.Tenant, "", func(ctx context.Context, keeper Custodian) (any, error) { return keeper.Accept(ctx, in) })
}

// Accept takes a tenant's broken chain as it is.
func (c *Client) Accept(ctx context.Context, in AcceptRequest) (out AcceptReport, err error) {
	return out, c.patient().do(ctx, http.MethodPost, []string{"chains", "accept"}, nil, in, &out)
}

// Print writes the report for people.
func (r AcceptReport) Print(w io.Writer) {
	p := &printer{w}
	p.line("chain of tenant %q: %d faults accepted, it goes on from %d; %d memories are not doubted any more", r.Tenant, len(r.Accepted), r.Head.Position, r.Cleared)
	for _, f := range r.Accepted {
		p.line("  %s at %d: %s", f.Class, f.Position, f.Detail)
	}
	for _, f := range r.Left {
		p.line("  not accepted: %s of %s at %d: %s", f.Class, f.ID, f.Position, f.Detail)
	}
}
