package config_test

import (
	"testing"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/config"
	"github.com/memproxy/memproxy/internal/expect"
)

// Proves SYN-9: the lifetime of a memory is the shorter of its field's and source's, or
// the default; zero, and no setting, mean for ever.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	hours := func(n int) config.Duration { return config.Duration(time.Duration(n) * time.Hour) }
	for _, tc := range []struct {
		ttl    map[string]config.Duration
		field  string
		source memproxy.Source
		want   int
	}{
		{nil, "notes", memproxy.SourceHostile, 0},
		{map[string]config.Duration{"default": hours(9)}, "notes", "", 9},
		{map[string]config.Duration{"default": hours(9), "notes": hours(90)}, "notes", "", 90},
		{map[string]config.Duration{"default": hours(9), "field:notes": hours(90)}, "notes", memproxy.SourceTrusted, 90},
		{map[string]config.Duration{"notes": hours(90), "source:hostile": hours(1)}, "notes", memproxy.SourceHostile, 1},
		{map[string]config.Duration{"notes": hours(90), "source:hostile": hours(1)}, "notes", memproxy.SourceVerified, 90},
		{map[string]config.Duration{"notes": hours(1), "source:hostile": hours(90)}, "notes", memproxy.SourceHostile, 1},
		{map[string]config.Duration{"default": hours(9), "source:hostile": hours(90)}, "other", memproxy.SourceHostile, 90},
		{map[string]config.Duration{"source:unstated": hours(5)}, "notes", "", 5},
		{map[string]config.Duration{"default": hours(9)}, "default", "", 9},
		{map[string]config.Duration{"field:default": hours(7), "default": hours(9)}, "default", "", 7},
		{map[string]config.Duration{"source:hostile": hours(1)}, "source:hostile", "", 0},
		{map[string]config.Duration{"default": hours(9), "notes": 0}, "notes", "", 0},
		{map[string]config.Duration{"default": hours(9), "field:notes": 0}, "notes", "", 0},
		{map[string]config.Duration{"default": hours(9), "notes": 0}, "other", "", 9},
		{map[string]config.Duration{"default": hours(9), "notes": 0, "source:hostile": hours(1)}, "notes", memproxy.SourceHostile, 1},
		{map[string]config.Duration{"default": hours(9), "source:trusted": 0}, "notes", memproxy.SourceTrusted, 0},
		{map[string]config.Duration{"default": hours(9), "notes": hours(90), "source:trusted": 0}, "notes", memproxy.SourceTrusted, 90},
	} {
		expect.Equal(t, (&config.Memories{TTL: tc.ttl}).Lifetime(tc.field, memproxy.Semantic, tc.source), time.Duration(tc.want)*time.Hour, tc.ttl, "of", tc.field, "from", tc.source)
	}
}
