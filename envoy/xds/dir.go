package xds

import (
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/memproxy/memproxy/internal/durable"
	"github.com/memproxy/memproxy/policy"
)

// Dir is the shared state of a control plane's replicas, the releases and the progress of
// each, in a directory:
//
//	000012.release      the release of that number, as package policy encodes it
//	000012.stage-1      marks, as JSON
//	000012.done
//	000012.stopped
//
// Marks are only added, so replicas need no lock: the highest stage counts, and a stop
// overrides everything. Files are written under a temporary name and then linked, so that
// they appear complete, and the first one to be linked remains. The marks may be in another
// directory, if that of the releases is read-only.
type Dir struct {
	path, marks string
	keys        []ed25519.PublicKey

	mu    sync.Mutex
	known map[string]*opened
	read  map[string]Mark // cache of read marks, which do not change
}

// opened is a parsed release file. A file that was damaged after it was read has a fault,
// and still its release: without it the sidecars would get an older or a wider one.
type opened struct {
	size    int64
	mtime   time.Time
	release *policy.Release
	fault   error
}

// NewDir opens the directory of releases and that of marks, which may be the same. A
// release that none of the keys signed is a fault.
func NewDir(path, marks string, keys []ed25519.PublicKey) (*Dir, error) {
	for _, dir := range [...]string{path, marks} {
		if info, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("xds: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("xds: %s is not a directory", dir)
		}
	}
	return &Dir{path: path, marks: marks, keys: keys, known: map[string]*opened{}, read: map[string]Mark{}}, nil
}

var fileName = regexp.MustCompile(`^([0-9]{6,20})\.(release|done|stopped|stage-([0-9]{1,3}))$`)

// Releases returns the releases ordered by number, and a fault for each invalid one. A
// release that becomes invalid is still returned as it was. It reads only files that are new
// or changed.
func (d *Dir) Releases() ([]*policy.Release, []error, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, nil, fmt.Errorf("xds: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []*policy.Release
	var faults []error
	present := map[string]*opened{}
	for _, e := range entries {
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil || m[2] != "release" {
			continue
		}
		info, err := os.Stat(filepath.Join(d.path, e.Name())) // files of a mounted ConfigMap are symbolic links
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, nil, fmt.Errorf("xds: %w", err)
		}
		o := d.known[e.Name()]
		if o == nil || o.size != info.Size() || !o.mtime.Equal(info.ModTime()) {
			was := o
			o = &opened{size: info.Size(), mtime: info.ModTime()}
			if o.release, o.fault = d.open(e.Name(), m[1]); o.fault != nil && was != nil {
				o.release = was.release
			}
		}
		present[e.Name()] = o
		if o.fault != nil {
			faults = append(faults, o.fault)
		}
		if o.release != nil {
			out = append(out, o.release)
		}
	}
	d.known = present
	slices.SortFunc(out, func(a, b *policy.Release) int { return cmp.Compare(a.Number, b.Number) })
	return out, faults, nil
}

func (d *Dir) open(name, number string) (*policy.Release, error) {
	b, err := durable.ReadPrefix(filepath.Join(d.path, name), policy.MaxRelease+1)
	if err != nil {
		return nil, fmt.Errorf("xds: %w", err)
	}
	r, err := policy.OpenRelease(b, d.keys...)
	if err != nil {
		return nil, fmt.Errorf("xds: %s: %w", name, err)
	}
	if n, err := strconv.ParseUint(number, 10, 64); err != nil || n != r.Number {
		return nil, fmt.Errorf("xds: %s is release %d", name, r.Number)
	}
	return r, nil
}

// Last returns the highest number in use, or 0.
func (d *Dir) Last() (uint64, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0, fmt.Errorf("xds: %w", err)
	}
	var last uint64
	for _, e := range entries {
		if m := fileName.FindStringSubmatch(e.Name()); m != nil {
			if n, err := strconv.ParseUint(m[1], 10, 64); err == nil {
				last = max(last, n)
			}
		}
	}
	return last, nil
}

// Publish adds a release to the directory. Each number can be used once. The control plane
// may run as another user than the process that signs, so the file is readable by all.
func (d *Dir) Publish(r *policy.Release) error {
	return durable.CreateShared(filepath.Join(d.path, ReleaseFile(r.Number)), r.Encoded())
}

// ReleaseFile is the name of a release's file.
func ReleaseFile(number uint64) string { return fmt.Sprintf("%06d.release", number) }

// Marks returns every mark.
func (d *Dir) Marks() ([]Mark, error) {
	entries, err := os.ReadDir(d.marks)
	if err != nil {
		return nil, fmt.Errorf("xds: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out, present := make([]Mark, 0, len(entries)), map[string]Mark{}
	for _, e := range entries {
		if mark, ok := d.read[e.Name()]; ok {
			present[e.Name()] = mark
			out = append(out, mark)
			continue
		}
		m := fileName.FindStringSubmatch(e.Name())
		if m == nil || m[2] == "release" {
			continue
		}
		number, err := strconv.ParseUint(m[1], 10, 64)
		if err != nil {
			continue
		}
		kind, _, _ := strings.Cut(m[2], "-")
		mark := Mark{Release: number, Kind: MarkKind(kind)}
		mark.Stage, _ = strconv.Atoi(m[3]) // at most three digits
		// The file name contains everything except the time and the reason, so a mark
		// counts even if its file is truncated.
		var text Mark
		if b, err := durable.Read(filepath.Join(d.marks, e.Name())); err == nil && json.Unmarshal(b, &text) == nil {
			mark.At, mark.Reason = text.At, text.Reason
			present[e.Name()] = mark
		}
		out = append(out, mark)
	}
	d.read = present
	return out, nil
}

// Put adds a mark. An existing mark remains unchanged.
func (d *Dir) Put(m Mark) error {
	kind := string(m.Kind)
	if m.Kind == MarkStage {
		kind += "-" + strconv.Itoa(m.Stage)
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := durable.CreateShared(filepath.Join(d.marks, fmt.Sprintf("%06d.%s", m.Release, kind)), append(b, '\n')); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
