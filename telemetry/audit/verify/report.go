package verify

import (
	"cmp"
	"fmt"
	"slices"
)

// Kind is the kind of a problem.
type Kind string

// The kinds of problem.
const (
	BadKey         Kind = "key"       // the public key is invalid, or not the expected one
	Unsigned       Kind = "signature" // a checkpoint is missing, unreadable or not signed by the key
	RolledBack     Kind = "rollback"  // a checkpoint signs records that the log no longer has
	Forked         Kind = "fork"      // a checkpoint signs other records than the log has
	RecordChanged  Kind = "changed"   // a record is not the one that was signed
	RecordMissing  Kind = "missing"   // a record is missing
	WrongRecord    Kind = "moved"     // another record is in its place
	Unreadable     Kind = "unreadable"
	BrokenLink     Kind = "chain" // prev_hash is not the hash of the record before
	TimeBackwards  Kind = "time"  // the time of append is earlier than the one before
	BadTile        Kind = "tile"  // a tile does not hold the tree's hashes
	BadJournal     Kind = "journal"
	UnexpectedFile Kind = "file" // a file that does not belong to a log, or has more than it may
)

// A Problem is one fault of a log.
type Problem struct {
	// Index is the record's index, or -1.
	Index  int64  `json:"index"`
	Kind   Kind   `json:"kind"`
	File   string `json:"file,omitempty"`
	Detail string `json:"detail"`
}

// String formats the problem as one line.
func (p Problem) String() string {
	s := string(p.Kind) + ": " + p.Detail
	if p.Index >= 0 {
		s = fmt.Sprintf("record %d: %s", p.Index, s)
	}
	if p.File != "" {
		s += " (" + p.File + ")"
	}
	return s
}

// maxProblems bounds a report.
const maxProblems = 20

// Report is the result of a verification.
type Report struct {
	Origin string `json:"origin"`
	Size   int64  `json:"size"` // records that the checkpoint signs
	Root   string `json:"root"` // base64
	// Pruned is the number of leading records that a recorded pruning removed; their
	// hashes were verified.
	Pruned int64 `json:"pruned"`
	// Pending is the number of chained records after the checkpoint. A closed log has none.
	Pending int64 `json:"pending"`
	// Checkpoints is the number of older checkpoints that are consistent with the log.
	Checkpoints int `json:"checkpoints"`
	// OwnKey is set if the public key was taken from the log's directory. The report then
	// does not prove who wrote the log.
	OwnKey bool `json:"own_key"`
	// Problems are the bad records in order, then all other problems.
	Problems []Problem `json:"problems"`
}

// OK reports whether there are no problems.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

func (r *Report) add(index int64, kind Kind, file, format string, args ...any) {
	r.Problems = append(r.Problems, Problem{Index: index, Kind: kind, File: file, Detail: fmt.Sprintf(format, args...)})
}

func (r *Report) order() {
	slices.SortStableFunc(r.Problems, func(a, b Problem) int {
		return cmp.Compare(uint64(a.Index), uint64(b.Index)) // -1 becomes the largest
	})
	r.Problems = r.Problems[:min(len(r.Problems), maxProblems)]
}

// addMismatch reports a file that differs from the tree, once.
func (r *Report) addMismatch(name string, level int, index int64, why string) {
	kind := UnexpectedFile
	if level != entryLevel {
		index, kind = -1, BadTile
	}
	if !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.File == name }) {
		r.add(index, kind, name, "%s", why)
	}
}

// addMisplaced reports a record in the wrong place, and whether the right one is missing.
func (r *Report) addMisplaced(i int64, rec *Record, b bundleFiles) {
	for _, other := range b.records {
		if o, err := Decode(other); err == nil && o.Index == uint64(i) {
			r.add(i, WrongRecord, b.recordFile, "found record %d in its place", rec.Index)
			return
		}
	}
	r.add(i, RecordMissing, b.recordFile, "found record %d in its place", rec.Index)
}

func (r *Report) namesRecord() bool {
	return slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Index >= 0 })
}
