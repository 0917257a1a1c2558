package auditcmd

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/memproxy/memproxy/telemetry/audit/query"
	"github.com/memproxy/memproxy/telemetry/audit/verify"
)

var errFound = errors.New("found")

func (a *app) prove(ctx context.Context, args []string) (int, error) {
	fs, dir, keyFile := a.flags("prove")
	index := fs.Int64("index", -1, "prove that `record` is in the log")
	decision := fs.String("decision", "", "prove that the record of the decision with this `id` is in the log")
	from := fs.String("from", "", "prove that the log continues the checkpoint in `file`")
	check := fs.String("check", "", "check the proof in `file`; needs -key or -dir, and nothing else of the log")
	if err := parse(fs, args, dir, func() bool { return *check != "" && *keyFile != "" }); err != nil {
		return exitUsage, err
	}
	ways := 0
	for _, set := range []bool{*index >= 0, *decision != "", *from != "", *check != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return exitUsage, errors.New("one of -index, -decision, -from and -check is required")
	}
	key, err := keyText(*keyFile)
	if err != nil {
		return exitUsage, err
	}
	if *check != "" {
		return a.check(*dir, key, *check)
	}
	p, err := verify.NewProver(*dir, key)
	if err != nil {
		return exitBad, err
	}
	var doc *verify.Proof
	switch {
	case *from != "":
		older, err := os.ReadFile(*from)
		if err != nil {
			return exitUsage, err
		}
		doc, err = p.Continue(older)
		if err != nil {
			return exitBad, err
		}
	default:
		if *decision != "" {
			if *index, err = find(ctx, *dir, *decision); err != nil {
				return exitBad, err
			}
		}
		if doc, err = p.Include(*index); err != nil {
			return exitBad, err
		}
	}
	b, err := doc.Marshal()
	if err == nil {
		_, err = a.stdout.Write(append(b, '\n'))
	}
	if err != nil {
		return exitBad, err
	}
	return exitOK, nil
}

// find is the first record of type decision with an id.
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

func (a *app) check(dir, key, path string) (int, error) {
	doc, err := os.ReadFile(path)
	if err != nil {
		return exitUsage, err
	}
	if key == "" {
		p, err := verify.NewProver(dir, "")
		if err != nil {
			return exitBad, err
		}
		key = p.Key()
	}
	p, err := verify.CheckProof(doc, key)
	if err != nil {
		return exitBad, err
	}
	switch p.Kind {
	case verify.Inclusion:
		fmt.Fprintf(a.stdout, "OK   record %d is in %s\n", p.Index, plain(p.Origin))
		if p.Record != "" {
			fmt.Fprintf(a.stdout, "%s\n", p.Record)
		}
	case verify.Consistency:
		fmt.Fprintf(a.stdout, "OK   %s continues the older checkpoint\n", plain(p.Origin))
	}
	return exitOK, nil
}
