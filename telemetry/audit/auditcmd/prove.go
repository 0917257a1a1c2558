package auditcmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/memproxy/memproxy/internal/cli"
	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

var errFound = errors.New("found")

func (a *app) prove() *cobra.Command {
	var p proof
	c := a.leaf(&p.dir, "prove", "create or check a proof of inclusion or consistency", " --decision ID", func(ctx context.Context) error { return a.proving(ctx, p) })
	p.keyFlag(c)
	c.PreRun = func(*cobra.Command, []string) {
		if p.check != "" && p.key != "" {
			p.dir = "" // a proof can be checked without a log
		}
	}
	c.Flags().Int64Var(&p.index, "index", -1, "prove that `record` is in the log")
	c.Flags().StringVar(&p.decision, "decision", "", "prove that the record of the decision with this `id` is in the log")
	c.Flags().StringVar(&p.from, "from", "", "prove that the log continues the checkpoint in `file`")
	c.Flags().StringVar(&p.check, "check", "", "check the proof in `file`; with --key no log is needed")
	return c
}

type proof struct {
	source
	index                 int64
	decision, from, check string
}

func (a *app) proving(ctx context.Context, q proof) error {
	ways := 0
	for _, set := range []bool{q.index >= 0, q.decision != "", q.from != "", q.check != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return cli.UsageError("one of --index, --decision, --from and --check is required")
	}
	key, err := keyText(q.key)
	if err != nil {
		return err
	}
	if q.check != "" {
		return a.check(q.dir, key, q.check)
	}
	p, err := verify.NewProver(q.dir, key)
	if err != nil {
		return err
	}
	doc, err := q.document(ctx, p)
	if err != nil {
		return err
	}
	b, err := doc.Marshal()
	if err == nil {
		_, err = a.stdout.Write(append(b, '\n'))
	}
	return err
}

func (q *proof) document(ctx context.Context, p *verify.Prover) (*verify.Proof, error) {
	if q.from != "" {
		older, err := input(q.from)
		if err != nil {
			return nil, err
		}
		return p.ProveConsistency(older)
	}
	index := q.index
	if q.decision != "" {
		var err error
		if index, err = find(ctx, q.dir, q.decision); err != nil {
			return nil, err
		}
	}
	return p.ProveInclusion(index)
}

// find returns the index of the first record of type decision with an id.
func find(ctx context.Context, dir, decision string) (int64, error) {
	index := int64(-1)
	err := query.Query(ctx, dir, query.Filter{Decision: decision, Type: "decision"}, func(r *verify.Record) error {
		index = int64(r.Index)
		return errFound
	})
	if err != nil && !errors.Is(err, errFound) {
		return 0, err
	}
	if index < 0 {
		return 0, fmt.Errorf("no record of decision %q", decision)
	}
	return index, nil
}

func (a *app) check(dir, key, path string) error {
	doc, err := input(path)
	if err != nil {
		return err
	}
	if key == "" {
		p, err := verify.NewProver(dir, "")
		if err != nil {
			return err
		}
		key = p.Key()
	}
	p, err := verify.CheckProof(doc, key)
	if err != nil {
		return err
	}
	switch p.Kind {
	case verify.Inclusion:
		fmt.Fprintf(a.stdout, "OK   record %d is in %s\n", p.Index, quoted(p.Origin))
		if p.Record != "" {
			fmt.Fprintf(a.stdout, "%s\n", p.Record)
		}
	case verify.Consistency:
		fmt.Fprintf(a.stdout, "OK   %s continues the older checkpoint\n", quoted(p.Origin))
	}
	return nil
}
