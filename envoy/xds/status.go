package xds

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Status is the state of the control plane, for people and dashboards.
type Status struct {
	Fleet    string          `json:"fleet"`
	Releases []ReleaseStatus `json:"releases"`
	// Connected is the number of sidecars, and Behind the number of those that do not run
	// their assigned release.
	Connected int `json:"connected"`
	Behind    int `json:"behind"`
	// Unassigned is the number of connected sidecars without a release.
	Unassigned int      `json:"unassigned"`
	Faults     []string `json:"faults,omitempty"` // releases that cannot be offered
	StoreError string   `json:"away,omitempty"`   // why the store cannot be read
}

// ReleaseStatus is one release.
type ReleaseStatus struct {
	Number  uint64 `json:"number"`
	Name    string `json:"name"`
	Bundle  string `json:"bundle"`
	Channel string `json:"channel"`
	Floor   uint64 `json:"floor"`
	Note    string `json:"note,omitempty"`
	// State is "current", "rolling", "stopped" or "past".
	State   string    `json:"state"`
	Percent float64   `json:"percent,omitempty"` // while rolling
	Since   time.Time `json:"since,omitzero"`    // when the stage began
	Reason  string    `json:"reason,omitempty"`  // why it was stopped
	// Assigned and Running count connected sidecars; Refused counts all sidecars that
	// refused the release.
	Assigned int            `json:"assigned"`
	Running  int            `json:"running"`
	Refused  int            `json:"refused"`
	Counts   DecisionCounts `json:"tally"`
	// NewlyAllows lists what the release allows that its predecessor refused.
	NewlyAllows []string `json:"newly_allows,omitempty"`
}

// SidecarStatus is one sidecar.
type SidecarStatus struct {
	ID          string            `json:"id"`
	Certificate string            `json:"certificate"`
	Tenant      string            `json:"tenant,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Version     string            `json:"version,omitempty"`
	Connected   bool              `json:"connected"`
	Seen        time.Time         `json:"seen"` // when it connected or disconnected
	Assigned    string            `json:"assigned,omitempty"`
	Running     string            `json:"running,omitempty"`
	Rejected    *Rejection        `json:"rejected,omitempty"` // the last refusal
	Counts      DecisionCounts    `json:"tally"`              // counts under the running release
}

// Status returns the state of the fleet as this replica sees it.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{Fleet: s.opt.Fleet, Releases: []ReleaseStatus{}, Faults: slices.Clone(s.faults)}
	if s.storeErr != nil {
		out.StoreError = s.storeErr.Error()
	}
	at := map[string]int{}
	for _, r := range s.ordered {
		rs := ReleaseStatus{
			Number: r.Number, Name: r.Name(), Bundle: r.Bundle, Channel: r.Selector.String(), Floor: r.Floor, Note: r.Note,
			State: "past", Counts: r.tallies.sum(), NewlyAllows: slices.Clone(r.warnings),
		}
		if r.progress.stopped {
			rs.State, rs.Reason = "stopped", r.progress.reason
		}
		for _, o := range s.offers {
			switch r {
			case o.base:
				rs.State = "current"
			case o.next:
				rs.State, rs.Percent, rs.Since = "rolling", o.percent, r.progress.since
			}
		}
		at[rs.Name] = len(out.Releases)
		out.Releases = append(out.Releases, rs)
	}
	for _, n := range s.nodes {
		if i, ok := at[n.rejected.Release]; ok {
			out.Releases[i].Refused++
		}
		if len(n.streams) == 0 {
			continue
		}
		out.Connected++
		if i, ok := at[n.running]; ok {
			out.Releases[i].Running++
		}
		if i, ok := at[n.assigned]; ok {
			out.Releases[i].Assigned++
		}
		switch {
		case n.assigned == "":
			out.Unassigned++
		case n.assigned != n.running:
			out.Behind++
		}
	}
	return out
}

// Sidecars returns every sidecar that this replica knows, by id.
func (s *Server) Sidecars() []SidecarStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]SidecarStatus, 0, len(s.nodes))
	for _, n := range s.nodes {
		st := SidecarStatus{
			ID: n.ID, Certificate: n.who.String(), Tenant: n.Tenant, Labels: maps.Clone(n.Labels), Version: n.Version,
			Connected: len(n.streams) > 0, Seen: n.seen, Assigned: n.assigned, Running: n.running, Counts: n.tally,
		}
		if n.rejected.Release != "" {
			r := n.rejected
			st.Rejected = &r
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b SidecarStatus) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), strings.Compare(a.Certificate, b.Certificate))
	})
	return out
}
