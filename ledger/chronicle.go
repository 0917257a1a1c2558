package ledger

import (
	"context"
	"slices"

	"github.com/memproxy/memproxy"
)

// Chronicle does what Seal, Append and SetState do, all in one transaction,
// which it may share with others that have time: it waits some milliseconds for
// them, because a transaction costs much more than what is in it.
func (l *Ledger) Chronicle(ctx context.Context, c memproxy.Chronicle) error {
	if l.opt.Vault == nil && len(c.Found)+len(c.Versions) > 0 {
		return ErrNoVault
	}
	if c.Empty() {
		return ctx.Err()
	}
	found, err := sealed(c.Found)
	if err != nil {
		return err
	}
	for i := range c.Versions {
		if err := validVersion(&c.Versions[i]); err != nil {
			return err
		}
	}
	for i := range c.States {
		if err := validChange(&c.States[i]); err != nil {
			return err
		}
	}
	versions, states := slices.Clone(c.Versions), slices.Clone(c.States)
	return l.do(ctx, &job{patient: true, also: func(t *transaction) error {
		for i := range found {
			if err := t.found(found[i]); err != nil {
				return err
			}
		}
		for i := range versions {
			if _, err := t.append(versions[i]); err != nil {
				return err
			}
		}
		for i := range states {
			if _, err := t.setState(&states[i]); err != nil {
				return err
			}
		}
		return nil
	}})
}
