package baseline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Version is the version of the snapshot format. Other versions are refused: learning
// anew is better than misreading.
const Version = 1

const maxProfile = 16 << 10 // bounds a profile in a snapshot, in bytes

type head struct {
	Version int `json:"version"`
	Users   int `json:"users"`
}

type row struct {
	Key
	Profile *profile `json:"profile"`
}

// Snapshot writes all profiles as JSON lines: a head, then a row per user, least recently
// used first. It contains user ids, so the file should be readable by the proxy only.
func (s *Store) Snapshot(w io.Writer) error {
	rows := s.rows()
	enc := json.NewEncoder(w)
	if err := enc.Encode(head{Version, len(rows)}); err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	for _, r := range rows {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("baseline: %w", err)
		}
	}
	return nil
}

// rows copies the profiles, so that a slow writer does not hold the lock.
func (s *Store) rows() []row {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]row, 0, s.profiles.Len())
	for _, key := range s.profiles.Keys() {
		if p, ok := s.profiles.Peek(key); ok {
			c := *p
			c.Domains, c.Centroid = slices.Clone(p.Domains), slices.Clone(p.Centroid)
			out = append(out, row{key, &c})
		}
	}
	return out
}

// Restore replaces the profiles with those of a snapshot. A snapshot that is truncated,
// of another version, or has a value that no profile can have is an error, and the store
// is unchanged.
func (s *Store) Restore(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: int64(s.opts.Users)*maxProfile + maxProfile}
	dec := json.NewDecoder(limited)
	dec.DisallowUnknownFields()
	var h head
	if err := dec.Decode(&h); err != nil {
		return errors.New("baseline: the snapshot has no header")
	}
	if h.Version != Version {
		return fmt.Errorf("baseline: the snapshot has version %d, want %d", h.Version, Version)
	}
	fresh, _ := simplelru.NewLRU[Key, *profile](s.opts.Users, nil)
	n := 0
	for ; ; n++ {
		var r row
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			return fmt.Errorf("baseline: row %d of the snapshot cannot be read", n+1)
		}
		if err := r.Profile.check(); err != nil {
			return fmt.Errorf("baseline: row %d of the snapshot: %w", n+1, err)
		}
		fresh.Add(r.Key, r.Profile)
	}
	if n != h.Users {
		return fmt.Errorf("baseline: the snapshot has %d rows, its header says %d", n, h.Users)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profiles = fresh
	return nil
}

// check returns an error for values that no profile can have.
func (p *profile) check() error {
	if p == nil {
		return errors.New("no profile")
	}
	if p.Writes < 0 || p.Count < 0 || p.Hour < 0 || len(p.Domains) > maxDomains {
		return errors.New("a count is out of range")
	}
	if len(p.Centroid) != 0 && len(p.Centroid) != dims {
		return errors.New("a centroid of another size")
	}
	if slices.ContainsFunc(p.Centroid, func(f float32) bool { return !(f >= 0 && f <= math.MaxFloat32) }) {
		return errors.New("a centroid out of range")
	}
	for _, g := range []gauge{p.Likeness, p.Share, p.Hourly} {
		if g.Weight < 0 || g.Variance < 0 || g.Mean < 0 || g.Weight > 1e6 || g.Mean > 1e12 || g.Variance > 1e24 {
			return errors.New("a gauge out of range")
		}
	}
	return nil
}
