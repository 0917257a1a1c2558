package verify

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Kinds of proofs.
const (
	Inclusion   = "inclusion"
	Consistency = "consistency"
)

// ErrProof is wrapped by the errors of invalid proofs.
var ErrProof = errors.New("the proof is invalid")

// Proof is a self-contained document. With the public key it proves, offline, that a
// record is in the log (inclusion), or that a newer state of the log continues an older
// one (consistency).
type Proof struct {
	V      int    `json:"v"` // 1
	Kind   string `json:"kind"`
	Origin string `json:"origin"`
	// Index, LeafHash (hex) and Record are set in inclusion proofs. Record has the
	// record's bytes as a string, and is absent if the record was pruned.
	Index    int64  `json:"index,omitzero"`
	LeafHash string `json:"leaf_hash,omitzero"`
	Record   string `json:"record,omitzero"`
	// Older is the signed older checkpoint of a consistency proof.
	Older string `json:"older,omitzero"`
	// Checkpoint is the signed checkpoint of the proof.
	Checkpoint string `json:"checkpoint"`
	// Hashes are the nodes of the proof (RFC 6962), base64, from the leaf up.
	Hashes []tlog.Hash `json:"hashes"`
}

// Marshal encodes the document.
func (p *Proof) Marshal() ([]byte, error) {
	return json.Marshal(p, jsontext.WithIndent("  "))
}

// Prover makes proofs from a log's files. It checks each proof before returning it.
type Prover struct {
	dir Dir
	key string
	v   note.Verifier
	c   Checkpoint
}

// Key returns the public key in use.
func (p *Prover) Key() string { return p.key }

// NewProver opens a log to make proofs for its checkpoint. If key is empty, the key in
// the directory is used.
func NewProver(dir, key string) (*Prover, error) {
	p := &Prover{dir: Dir(dir), key: key}
	if key == "" {
		b, err := p.dir.read(KeyFile)
		if err != nil {
			return nil, err
		}
		p.key = string(b)
	}
	var err error
	if p.v, err = ParseKey(p.key); err != nil {
		return nil, err
	}
	msg, err := p.dir.read(CheckpointFile)
	if err != nil {
		return nil, err
	}
	if msg == nil {
		return nil, errors.New("the log has no checkpoint")
	}
	p.c, err = ParseCheckpoint(msg, p.v)
	return p, err
}

// ProveInclusion returns a proof that record index is in the log.
func (p *Prover) ProveInclusion(index int64) (*Proof, error) {
	if index < 0 || index >= p.c.Size {
		return nil, fmt.Errorf("no record %d is signed: the checkpoint covers %d records; the next one follows within a second of a new record", index, p.c.Size)
	}
	hashes, err := tlog.ProveRecord(p.c.Size, index, tlog.HashReaderFunc(p.readHashes))
	if err != nil {
		return nil, err
	}
	leaf, err := p.readHashes([]int64{tlog.StoredHashIndex(0, index)})
	if err != nil {
		return nil, err
	}
	records, err := p.dir.Records(index / width)
	if err != nil {
		return nil, err
	}
	doc := &Proof{V: 1, Kind: Inclusion, Origin: p.c.Origin, Index: index, LeafHash: hex.EncodeToString(leaf[0][:]), Checkpoint: string(p.c.Note), Hashes: hashes}
	if k := int(index % width); k < len(records) {
		doc.Record = string(records[k])
	}
	return doc, doc.check(p.v)
}

// ProveConsistency returns a proof that the log continues the state of an older checkpoint.
func (p *Prover) ProveConsistency(older []byte) (*Proof, error) {
	old, err := ParseCheckpoint(older, p.v)
	if err != nil {
		return nil, fmt.Errorf("older checkpoint: %w", err)
	}
	if old.Size > p.c.Size {
		return nil, fmt.Errorf("%w: the older checkpoint covers %d records, the log has %d", ErrProof, old.Size, p.c.Size)
	}
	doc := &Proof{V: 1, Kind: Consistency, Origin: p.c.Origin, Older: string(older), Checkpoint: string(p.c.Note), Hashes: []tlog.Hash{}}
	if old.Size > 0 {
		if doc.Hashes, err = tlog.ProveTree(p.c.Size, old.Size, tlog.HashReaderFunc(p.readHashes)); err != nil {
			return nil, err
		}
	}
	return doc, doc.check(p.v)
}

func (p *Prover) readHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		t := tlog.TileForIndex(height, x)
		b, name, err := p.dir.tile(t.L, t.N, t.W)
		if err != nil {
			return nil, err
		}
		if out[i], err = tlog.HashFromTile(t, b, x); err != nil {
			return nil, fmt.Errorf("%s: missing or too short", name)
		}
	}
	return out, nil
}

// maxProof bounds a proof document, in bytes: the longest record as escaped JSON, two
// checkpoints and 64 hashes.
const maxProof = 1 << 20

// CheckProof checks a proof document with only the public key. The error of an invalid
// proof wraps ErrProof.
func CheckProof(doc []byte, key string) (*Proof, error) {
	v, err := ParseKey(key)
	if err != nil {
		return nil, err
	}
	if len(doc) > maxProof {
		return nil, fmt.Errorf("%w: the document is too large", ErrProof)
	}
	p := &Proof{}
	if err := json.Unmarshal(doc, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: not a proof document", ErrProof)
	}
	return p, p.check(v)
}

func (p *Proof) check(v note.Verifier) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrProof, fmt.Sprintf(format, args...))
	}
	c, err := ParseCheckpoint([]byte(p.Checkpoint), v)
	if err != nil {
		return fail("checkpoint: %v", err)
	}
	if p.V != 1 || p.Origin != c.Origin {
		return fail("wrong version or origin")
	}
	if len(p.Hashes) > 64 {
		return fail("too many hashes")
	}
	switch p.Kind {
	case Inclusion:
		return p.checkRecord(c, fail)
	case Consistency:
		old, err := ParseCheckpoint([]byte(p.Older), v)
		if err != nil {
			return fail("older checkpoint: %v", err)
		}
		if p.Index != 0 || p.LeafHash != "" || p.Record != "" {
			return fail("a consistency proof must not contain a record")
		}
		switch {
		case old.Size == 0 && (len(p.Hashes) > 0 || old.Root != (&tree{}).root()):
			return fail("the older checkpoint is not that of an empty log")
		case old.Size > 0 && (old.Size > c.Size || tlog.CheckTree(p.Hashes, c.Size, c.Root, old.Size, old.Root) != nil):
			return fail("the log does not continue the older checkpoint")
		}
		return nil
	}
	return fail("unknown kind %q", p.Kind)
}

func (p *Proof) checkRecord(c Checkpoint, fail func(string, ...any) error) error {
	b, err := hex.DecodeString(p.LeafHash)
	if err != nil || len(b) != tlog.HashSize || hex.EncodeToString(b) != p.LeafHash {
		return fail("invalid leaf hash")
	}
	if p.Older != "" {
		return fail("an inclusion proof must not contain an older checkpoint")
	}
	leaf := tlog.Hash(b)
	if p.Record != "" {
		if tlog.RecordHash([]byte(p.Record)) != leaf {
			return fail("the record does not match the leaf hash")
		}
		if r, err := Decode([]byte(p.Record)); err != nil || r.Index != uint64(p.Index) {
			return fail("the record is invalid or has another index")
		}
	}
	if p.Index < 0 || p.Index >= c.Size || tlog.CheckRecord(p.Hashes, c.Size, c.Root, p.Index, leaf) != nil {
		return fail("the record is not in the log")
	}
	return nil
}
