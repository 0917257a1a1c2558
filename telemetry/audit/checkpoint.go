package audit

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

func readCheckpoint(msg []byte, origin string, v note.Verifier) (size uint64, root tlog.Hash, err error) {
	n, err := note.Open(msg, note.VerifierList(v))
	if _, another := errors.AsType[*note.UnverifiedNoteError](err); another {
		return 0, root, errors.New("checkpoint: signed with another key than this log's audit.key")
	}
	if err != nil {
		return 0, root, fmt.Errorf("checkpoint: %w", err)
	}
	tree, ours := strings.CutPrefix(n.Text, origin+"\n")
	if !ours {
		return 0, root, errors.New("checkpoint: signed for another log")
	}
	var hash string
	if _, err = fmt.Sscanf(tree, "%d\n%s\n", &size, &hash); err == nil {
		root, err = tlog.ParseHash(hash)
	}
	if err != nil {
		err = errors.New("checkpoint: no size and root hash")
	}
	return size, root, err
}
