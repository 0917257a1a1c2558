package app

import (
	"context"
	"errors"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/ledger"
)

// keeper is the ledger as the gate's keeper of held writes.
type keeper struct {
	ledger   *ledger.Ledger
	reviewed func(*memproxy.HeldWrite) bool // whether there are enough to review it
}

// Keep implements gate.Keeper.
func (k keeper) Keep(ctx context.Context, h memproxy.HeldWrite, c memproxy.HoldContent) error {
	if !k.reviewed(&h) && h.State != memproxy.HoldRewritten {
		return memproxy.ErrNoReviewer
	}
	_, err := k.ledger.PutHold(ctx, h, c)
	return err
}

// Kept implements gate.Keeper. What was sent in other words is no held write.
func (k keeper) Kept(ctx context.Context, id string) (memproxy.HeldWrite, bool, error) {
	h, err := k.ledger.Hold(ctx, id)
	if errors.Is(err, ledger.ErrUnknown) || errors.Is(err, ledger.ErrRow) {
		return memproxy.HeldWrite{}, false, nil
	}
	return h, err == nil && h.State != memproxy.HoldRewritten, err
}
