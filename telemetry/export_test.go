package telemetry

import (
	"context"
	"errors"
)

// Flush exports pending signals.
func (t *Telemetry) Flush(ctx context.Context) error {
	var errs []error
	for _, p := range t.providers {
		errs = append(errs, p.(interface{ ForceFlush(context.Context) error }).ForceFlush(ctx))
	}
	return errors.Join(errs...)
}
