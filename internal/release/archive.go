package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"path"
	"slices"
	"time"
)

// entry is a file of an archive. Modes other than 0o644 and 0o755 have no use
// here.
type entry struct {
	Name string
	Mode int64
	Body []byte
}

// tarball writes entries sorted by name, with every folder above them, owned by
// nobody in particular and dated at: the same entries give the same bytes in
// whatever order they come.
func tarball(entries []entry, at time.Time) ([]byte, error) {
	all := slices.Clone(entries)
	seen := map[string]bool{}
	for _, e := range entries {
		for dir := path.Dir(e.Name); dir != "." && !seen[dir]; dir = path.Dir(dir) {
			seen[dir] = true
			all = append(all, entry{Name: dir + "/", Mode: 0o755})
		}
	}
	sortByName(all)
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range all {
		h := &tar.Header{Name: e.Name, Mode: e.Mode, Size: int64(len(e.Body)), ModTime: at.UTC(), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		if e.Name[len(e.Name)-1] == '/' {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.Body); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// zipped compresses without a name or a time in the header.
func zipped(b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // which is a level
	_, _ = w.Write(b)                                       // into memory, as is the rest
	_ = w.Close()
	return out.Bytes()
}

// targz is a compressed tarball.
func targz(entries []entry, at time.Time) ([]byte, error) {
	b, err := tarball(entries, at)
	return zipped(b), err
}

func sortByName(list []entry) {
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
}
