package audit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// readCheckpoint verifies and reads this log's own checkpoint.
func readCheckpoint(msg []byte, origin string, v note.Verifier) (size uint64, root tlog.Hash, err error) {
	n, err := note.Open(msg, note.VerifierList(v))
	if _, another := errors.AsType[*note.UnverifiedNoteError](err); another {
		return 0, root, errors.New("checkpoint: signed with another key than this log's audit.key")
	}
	if err != nil {
		return 0, root, fmt.Errorf("checkpoint: %w", err)
	}
	f := strings.Split(n.Text, "\n")
	if len(f) < 4 || f[0] != origin {
		return 0, root, errors.New("checkpoint: signed for another log")
	}
	size, err = strconv.ParseUint(f[1], 10, 53)
	if err != nil || strconv.FormatUint(size, 10) != f[1] {
		return 0, root, errors.New("checkpoint: bad size")
	}
	if root, err = tlog.ParseHash(f[2]); err != nil {
		return 0, root, errors.New("checkpoint: bad root hash")
	}
	return size, root, nil
}
