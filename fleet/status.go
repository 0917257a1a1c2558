package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy/envoy/xds"
)

// Limits of a status request.
const (
	statusTimeout = 10 * time.Second
	statusAnswer  = 64 << 20 // bytes; about ten thousand sidecars
)

// Status is the state of a fleet.
type Status struct {
	xds.Status
	Sidecars []xds.SidecarStatus `json:"sidecars"`
}

// Well reports whether every release can be offered and no sidecar rejects its assigned
// one.
func (s *Status) Well() bool {
	return s.Away == "" && len(s.Faults) == 0 && !slices.ContainsFunc(s.Sidecars, func(c xds.SidecarStatus) bool {
		return c.Rejected != nil && c.Rejected.Release == c.Assigned && c.Running != c.Assigned
	})
}

// Ask requests the status from the admin listener of a control plane.
func Ask(ctx context.Context, base string) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	for path, into := range map[string]any{"/fleet": &s.Status, "/fleet/sidecars": &s.Sidecars} {
		if err := ask(ctx, strings.TrimSuffix(base, "/")+path, into); err != nil {
			return s, err
		}
	}
	return s, nil
}

func ask(ctx context.Context, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no control plane answers; --url is its admin.listen: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, statusAnswer)).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}
