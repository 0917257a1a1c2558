package verify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// The layout of a log, docs/audit-format.md.
const (
	CheckpointFile = "checkpoint"
	KeyFile        = "log.vkey"
	lockFile       = "lock"
	journalDir     = "journal"
	archiveDir     = "checkpoints"
	tempSuffix     = ".tmp"

	width  = 256 // records per bundle, hashes per tile
	height = 8   // log2 of width

	timeFormat = "2006-01-02T15:04:05.000000000Z"
)

// entryLevel stands for the entry bundles where a level of tiles is expected.
const entryLevel = -1

// tileName returns tlog's path of a tile without the height, which is constant, and
// with "entries" for bundles.
func tileName(level int, n int64) string {
	path := tlog.Tile{H: height, L: level, N: n, W: width}.Path()
	return strings.Replace("tile/"+strings.TrimPrefix(path, tlogTiles), "tile/data/", "tile/entries/", 1)
}

// tlogTiles is the prefix of tlog's paths for tiles of this height.
const tlogTiles = "tile/8/"

func journalName(n int64) string { return fmt.Sprintf("%s/%012d", journalDir, n) }

// parseTile reads the name of a tile or bundle; w is 256 for a full one.
func parseTile(name string) (level int, n int64, w int, ok bool) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(name, "tile/"), "/")
	if kind == "entries" {
		kind = "data"
	} else if len(kind) != 1 || kind > "7" {
		return 0, 0, 0, false
	}
	t, err := tlog.ParseTilePath(tlogTiles + kind + "/" + rest)
	return t.L, t.N, t.W, err == nil && t.N < 1<<53 && strings.HasPrefix(name, "tile/")
}

// Checkpoint is a signed statement of a log's size and root hash.
type Checkpoint struct {
	Origin string
	Size   int64
	Root   tlog.Hash
	Note   []byte // as signed
}

// ParseCheckpoint reads a checkpoint, verifies its signature with v, and checks that
// its origin is the name of v's key.
func ParseCheckpoint(msg []byte, v note.Verifier) (Checkpoint, error) {
	n, err := note.Open(msg, note.VerifierList(v))
	if err != nil {
		return Checkpoint{}, err
	}
	c, err := parseText(n.Text)
	if err != nil {
		return Checkpoint{}, err
	}
	// Package note accepts base64 with non-zero trailing bits. Here a checkpoint must have
	// a unique encoding.
	for _, line := range strings.Split(string(msg[len(n.Text):]), "\n") {
		if i := strings.LastIndexByte(line, ' '); i >= 0 {
			if _, err := base64.StdEncoding.Strict().DecodeString(line[i+1:]); err != nil {
				return Checkpoint{}, errors.New("a signature is not in canonical form")
			}
		}
	}
	if c.Origin != v.Name() {
		return Checkpoint{}, errors.New("the checkpoint belongs to another log")
	}
	c.Note = msg
	return c, nil
}

// parseText reads a checkpoint's text without verifying it. Further lines are
// extensions, which are ignored.
func parseText(text string) (Checkpoint, error) {
	f := strings.SplitN(text, "\n", 4)
	if len(f) != 4 || f[0] == "" {
		return Checkpoint{}, errors.New("a checkpoint must have three lines: origin, size, root hash")
	}
	size, err := strconv.ParseInt(f[1], 10, 54)
	if err != nil || size < 0 || strconv.FormatInt(size, 10) != f[1] {
		return Checkpoint{}, errors.New("the checkpoint's size is not a number")
	}
	root, err := tlog.ParseHash(f[2])
	if err != nil || root.String() != f[2] {
		return Checkpoint{}, errors.New("the checkpoint's root is not a hash")
	}
	return Checkpoint{Origin: f[0], Size: size, Root: root}, nil
}

// ParseKey parses a public key, "<origin>+<hash>+<base64>", with or without a trailing
// newline.
func ParseKey(key string) (note.Verifier, error) {
	key = strings.TrimSuffix(key, "\n")
	v, err := note.NewVerifier(key)
	if err != nil {
		return nil, errors.New("not a public key")
	}
	rest, ok := strings.CutPrefix(key, fmt.Sprintf("%s+%08x+", v.Name(), v.KeyHash()))
	if _, err := base64.StdEncoding.Strict().DecodeString(rest); err != nil || !ok {
		return nil, errors.New("the public key is not in canonical form")
	}
	return v, nil
}

// splitBundle reads the records of a bundle. rest is data after the last complete record.
func splitBundle(b []byte) (records [][]byte, rest []byte) {
	for len(b) >= 2 {
		n := int(b[0])<<8 | int(b[1])
		if len(b) < 2+n {
			break
		}
		records = append(records, b[2:2+n:2+n])
		b = b[2+n:]
	}
	return records, b
}

func splitHashes(b []byte) ([]tlog.Hash, bool) {
	if len(b) == 0 || len(b)%tlog.HashSize != 0 || len(b) > width*tlog.HashSize {
		return nil, false
	}
	out := make([]tlog.Hash, len(b)/tlog.HashSize)
	for i := range out {
		out[i] = tlog.Hash(b[i*tlog.HashSize:])
	}
	return out, true
}
