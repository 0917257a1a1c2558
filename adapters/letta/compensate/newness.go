package compensate

import (
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Blocks that a run adds, and the archive that is created with an agent's first
// passage, belong to the run. An older object that was attached to the agent during the
// run may belong to anybody. The server reports no creation time of blocks but lists
// them newest first: whatever precedes the entries that were newest at the first look
// is new.

// Lists that are compared, and their queries at the first look and at later ones.
const (
	blockList   = "blocks"
	archiveList = "archives"
	marksQuery  = "order=desc&limit=5"
	newestQuery = "order=desc&limit=100"
)

// errNewness reports that an object cannot be dated before or after the start of the
// run.
var errNewness = errors.New("letta: what the run's agent has cannot be told from what was there before")

// mark records the newest entries of both lists before the run.
func (w *Watch) mark() {
	w.now.Marks = map[string][]string{}
	for _, list := range [...]string{blockList, archiveList} {
		w.then(w.opt.get(marksQuery, list, ""), func(r memproxy.Reply) (err error) {
			if missing(r) {
				return nil // a server without this list: nothing counts as older
			}
			w.now.Marks[list], err = listed(r)
			return err
		})
	}
}

// askHeld requests the archives of an agent.
func (w *Watch) askHeld(a *agent) {
	w.then(w.opt.get(newestQuery+"&agent_id="+a.ID, archiveList, ""), func(r memproxy.Reply) (err error) {
		if missing(r) {
			return nil
		}
		a.Archives, err = listed(r)
		return err
	})
}

// listed returns the ids in a list, not nil if it is empty.
func listed(r memproxy.Reply) ([]string, error) {
	doc, err := document(r, jsondoc.Array, "a list")
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, e := range doc.Root.Elems {
		out = append(out, e.Get("id").Text())
	}
	return out, nil
}

// compareNew requests the newest entries of each list from which an agent gained an
// object.
func (w *Watch) compareNew() {
	blocks, archives := false, false
	for _, a := range w.now.Agents {
		before := w.base.agent(a.ID)
		for _, id := range a.Blocks {
			blocks = blocks || before != nil && !before.has(id)
		}
		for i := range a.Passages {
			archives = archives || before != nil && !before.holds(&a.Passages[i])
		}
	}
	for list, wanted := range map[string]bool{blockList: blocks, archiveList: archives} {
		marks := w.base.Marks[list]
		if !wanted || marks == nil {
			continue
		}
		w.then(w.opt.get(newestQuery, list, ""), func(r memproxy.Reply) error {
			found, err := listed(r)
			if err != nil {
				return err
			}
			i := slices.IndexFunc(found, func(id string) bool { return slices.Contains(marks, id) })
			if i < 0 && len(marks) > 0 {
				return errNewness
			}
			if i < 0 {
				i = len(found)
			}
			w.now.made = append(w.now.made, found[:i]...)
			return nil
		})
	}
}

// there reports whether an object existed before the run.
func (d *difference) there(list, id string) bool {
	return d.before.Marks[list] != nil && !slices.Contains(d.after.made, id)
}

// holds reports whether a passage is in an archive of the agent, as far as that is
// known.
func (a *agent) holds(p *passage) bool {
	return p.Archive == "" || a.Archives == nil || slices.Contains(a.Archives, p.Archive)
}
