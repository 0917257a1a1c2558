package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/memproxy/memproxy/internal/durable"
)

// Adopt returns the configuration of a running process after its file changed. It has
// next's identities and next's numbers and switches of the rules, and otherwise c's
// settings. restart lists the paths of those that differ and need a restart. An error means
// that next is valid only with its own values of those.
func (c *Config) Adopt(next *Config) (adopted *Config, restart []string, err error) {
	next.behindEnvoy, next.anyEnvoy = c.behindEnvoy, c.anyEnvoy // of the process, not of its file
	a := *c
	a.file = next.file
	a.Enforce, a.Identity, a.Ownership, a.Answers, a.Confidence = next.Enforce, next.Identity, next.Ownership, next.Answers, next.Confidence
	a.Screening.Approved = next.Screening.Approved
	a.Budgets = next.Budgets
	a.Budgets.Redis = c.Budgets.Redis
	a.Memories = next.Memories
	m, was := &a.Memories, &c.Memories // the intervals of jobs need a restart
	m.UncorrectedFor, m.Archive, m.Deleted, m.Seal, m.Sweep, m.Validate = was.UncorrectedFor, was.Archive, was.Deleted, was.Seal, was.Sweep, was.Validate
	v := &reader{name: next.file.name}
	if v.check(&a, func(path ...any) int { return lineOf(next.file.root, path...) }); len(v.faults) > 0 {
		err = errors.New(next.file.hide(sorted(v).Error()))
	}
	return &a, differences(reflect.ValueOf(a), reflect.ValueOf(*next), ""), err
}

// differences returns the paths of the settings that differ, sorted. Lists and maps whose
// entries have other names differ as a whole.
func differences(a, b reflect.Value, path string) (out []string) {
	if reflect.DeepEqual(a.Interface(), b.Interface()) {
		return nil
	}
	switch {
	case a.Kind() == reflect.Struct:
		for _, f := range fieldsOf(a.Type()) {
			out = append(out, differences(a.FieldByIndex(f.index), b.FieldByIndex(f.index), join(path, f.key))...)
		}
	case a.Kind() == reflect.Pointer && !a.IsNil() && !b.IsNil():
		out = differences(a.Elem(), b.Elem(), path)
	case a.Kind() == reflect.Slice && a.Type().Elem().Kind() == reflect.Struct && a.Len() == b.Len():
		for i := range a.Len() {
			label := labelOf(a.Index(i), i)
			if label != labelOf(b.Index(i), i) {
				return []string{path}
			}
			out = append(out, differences(a.Index(i), b.Index(i), path+"["+label+"]")...)
		}
	}
	if len(out) == 0 { // a value, or a secret
		out = []string{path}
	}
	slices.Sort(out)
	return out
}

// Approve adds the SHA-256 of texts to screening.approved in the file that a
// configuration was read from, and returns those that were not listed yet. All other
// bytes of the file remain unchanged.
func Approve(c *Config, sums []string, getenv func(string) string) (added []string, err error) {
	added = slices.DeleteFunc(slices.Clone(sums), func(sum string) bool { return slices.Contains(c.Screening.Approved, sum) })
	path, err := filepath.EvalSymlinks(c.file.name)
	if err != nil || len(added) == 0 {
		return nil, err
	}
	b, err := durable.ReadInput(path)
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(b), "\n")+"\n", "\n")
	at, head, item := len(lines)-1, "screening:\n  approved:\n", "    - "
	if in, found := find(c.file.root, []any{"screening"}); found {
		margin := strings.Repeat(" ", in.Column-1)
		at, head, item = in.Line-1, margin+"approved:\n", margin+"  - "
		if list, found := find(in, []any{"approved"}); found {
			at, head, item = list.Line-1, "", strings.Repeat(" ", list.Column-1)+"- "
		}
	}
	text := strings.Join(lines[:at], "") + head + item + strings.Join(added, "\n"+item) + "\n" + strings.Join(lines[at:], "")
	next, err := Parse(path, []byte(text), getenv)
	if err == nil { // verify that no other setting has changed
		is := *next
		is.file, is.Screening.Approved = c.file, c.Screening.Approved
		if len(next.Screening.Approved) != len(c.Screening.Approved)+len(added) || !reflect.DeepEqual(is, *c) {
			err = errors.New("another setting would change")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: list them by hand, in screening.approved: [%s]: %w", path, strings.Join(added, ", "), err)
	}
	return added, replace(path, text)
}

// replace atomically replaces the content of a file, and keeps its owner and mode.
func replace(path, text string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return durable.Replace(path, func(f *os.File) error {
		_, err := f.WriteString(text)
		err = errors.Join(err, f.Chmod(info.Mode().Perm()))
		if is, ok := info.Sys().(*syscall.Stat_t); ok {
			err = errors.Join(err, f.Chown(int(is.Uid), int(is.Gid)))
		}
		return err
	})
}
