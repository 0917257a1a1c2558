package config

import (
	"reflect"
	"slices"
	"strings"
)

// Adopt is the configuration of a running process once its file changed: what
// can be taken over is next's (who callers are, and every number and switch of
// the rules), the rest stays as it is. Restart names what differs and is not
// taken over, by path where there is one.
func (c *Config) Adopt(next *Config) (adopted *Config, restart []string) {
	a := *c
	a.file = next.file
	a.Enforce, a.Identity, a.Ownership, a.Answers, a.Confidence = next.Enforce, next.Identity, next.Ownership, next.Answers, next.Confidence
	a.Budgets = next.Budgets
	a.Budgets.Redis = c.Budgets.Redis
	a.Memories = next.Memories
	m, was := &a.Memories, &c.Memories // what jobs are paced by
	m.Quiet, m.Archive, m.Deleted, m.Seal, m.Sweep, m.Validate = was.Quiet, was.Archive, was.Deleted, was.Seal, was.Sweep, was.Validate
	return &a, differences(&a, next)
}

// differences names what two configurations of one file differ in.
func differences(a, b *Config) []string {
	was, is := Snapshot(a.Settings()), Snapshot(b.Settings())
	var out []string
	for path, v := range is {
		if old, there := was[path]; !there || old != v {
			out = append(out, path)
		}
	}
	for path := range was {
		if _, there := is[path]; !there {
			out = append(out, path)
		}
	}
	// Secrets show in no setting.
	av, bv := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range av.NumField() {
		f := av.Type().Field(i)
		if !f.IsExported() || reflect.DeepEqual(av.Field(i).Interface(), bv.Field(i).Interface()) {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !slices.ContainsFunc(out, func(path string) bool { return strings.HasPrefix(path, name) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
