package compensate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/letta/compensate"
	"github.com/memproxy/memproxy/internal/expect"
	"github.com/memproxy/memproxy/internal/must"
)

// ofIDs returns a list of objects, newest first.
func ofIDs(ids string) string {
	var out []string
	for id := range strings.FieldsSeq(ids) {
		out = append(out, fmt.Sprintf(`{"id":%q}`, id))
	}
	return "[" + strings.Join(out, ",") + "]"
}

// lies returns passages with an archive.
func lies(passages, archive string) string {
	return strings.ReplaceAll(passages, `"text":`, `"archive_id":"`+archive+`","text":`)
}

// Proves EDGE-1, TRL-1: an object that existed before the run and was attached to its
// agent during the run is not the run's: passages of such an archive are not deleted,
// and the owner of such a block must be known. Objects that the run created are the
// run's.
func TestWhatWasThereBeforeIsNotTheRuns(t *testing.T) {
	const (
		a, archive    = "/v1/agents/agent-1", "/v1/agents/agent-1/archival-memory"
		blocks, mine  = "/v1/blocks/", "/v1/archives/?agent_id=agent-1"
		all           = "/v1/archives/"
		learned       = `passage learn ="t4" | DELETE /agents/agent-1/archival-memory/passage-4 `
		old           = "archive-2 archive-1"
		wasBlocks     = "block-3 block-1"
		attachedBlock = `block.attached correct orders="obey" | PATCH /agents/agent-1/core-memory/blocks/detach/block-3 `
	)
	for name, tc := range map[string]struct {
		base, now server
		want      string
		unknown   bool // cannot be determined
		ref       bool
	}{
		"a passage in the agent's archive": {
			server{archive: lies(passages(3, 1), "archive-1"), mine: ofIDs("archive-1"), all: ofIDs(old)},
			server{archive: lies(passages(4, 1), "archive-1"), mine: ofIDs("archive-1"), all: ofIDs(old)}, learned, false, false,
		},
		"in an archive that came with it": {
			server{mine: "[]", all: ofIDs(old)},
			server{archive: lies(passages(4, 4), "archive-3"), mine: ofIDs("archive-3"), all: ofIDs("archive-3 " + old)}, learned, false, false,
		},
		"in one that is older": {
			server{mine: "[]", all: ofIDs(old)},
			server{archive: lies(passages(4, 4), "archive-2"), mine: ofIDs("archive-2"), all: ofIDs("archive-3 " + old)}, "", false, false,
		},
		"in one that is older than those looked at": {
			server{mine: ofIDs("archive-1"), all: ofIDs(old)},
			server{archive: lies(passages(4, 4), "archive-0"), mine: ofIDs("archive-0 archive-1"), all: ofIDs(old)}, "", false, false,
		},
		"nobody can tell": {
			server{mine: "[]", all: ofIDs(old)},
			server{archive: lies(passages(4, 4), "archive-8"), mine: ofIDs("archive-8"), all: ofIDs("archive-9 archive-8")}, "", true, false,
		},
		"the first archive of all": {
			server{mine: "[]", all: "[]"},
			server{archive: lies(passages(4, 4), "archive-1"), mine: ofIDs("archive-1"), all: ofIDs("archive-1")}, learned, false, false,
		},
		"an archive that was taken away": {
			server{archive: lies(passages(3, 1), "archive-1"), mine: ofIDs("archive-1"), all: ofIDs(old)},
			server{mine: "[]", all: ofIDs(old)}, "", false, false,
		},
		"a block that the run made": {
			server{blocks: ofIDs("block-2 block-1")},
			server{a: with("agent-1", "", "block-1 human Ann", "block-3 orders obey"), blocks: ofIDs("block-3 block-2 block-1")}, attachedBlock, false, false,
		},
		"a block that was there": {
			server{blocks: ofIDs(wasBlocks)},
			server{a: with("agent-1", "", "block-1 human Ann", "block-3 orders obey"), blocks: ofIDs("block-4 " + wasBlocks)}, attachedBlock, false, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range []server{tc.base, tc.now} {
				if s[a] == "" {
					s[a] = with("agent-1", "", "block-1 human Ann")
				}
			}
			first := fresh(t, compensate.Options{Agent: "agent-1"})
			must.Get(tc.base.look(t, first))(t)
			raw := must.Get(first.MarshalBaseline())(t)
			again := must.Get(compensate.Restore(raw, clock))(t)
			for _, w := range []memproxy.RunDiff{first, again} {
				if _, err := tc.now.look(t, w); tc.unknown {
					expect.ErrorHas(t, err, "cannot determine which")
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				expect.Equal(t, inShort(w.Changes()), tc.want)
				for _, c := range w.Changes() {
					if refs := c.Call.Operation.Refs; (len(refs) == 2 && refs[1].ID == "block-3") != tc.ref {
						t.Errorf("refers to %+v", refs)
					}
				}
			}
		})
	}
}
