package compensate

import (
	"errors"
	"slices"

	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// New blocks, and the archive that an agent's first passage creates, belong to the run. An
// older object that was attached to the agent during the run may belong to another owner.
// The server does not report when blocks were created, but lists them newest first. So the
// first snapshot records the newest entries as marks, and entries that later precede them are
// new.

// Lists that are compared, and their queries in the first snapshot and in later ones.
const (
	blockList   = "blocks"
	archiveList = "archives"
	marksQuery  = "order=desc&limit=5"
	newestQuery = "order=desc&limit=100"
)

// listIDs returns the ids in a list. It is not nil for an empty list.
func listIDs(doc *jsondoc.Doc) []string {
	out := []string{}
	for _, e := range doc.Root.Elems {
		out = append(out, e.Get("id").Text())
	}
	return out
}

// compareNew requests the newest entries of each list from which an agent gained an object,
// to find out which objects are new.
func (d *RunDiff) compareNew() {
	blocks, archives := false, false
	for _, a := range d.now.Agents {
		before := d.base.agent(a.ID)
		for _, id := range a.Blocks {
			blocks = blocks || before != nil && !slices.Contains(before.Blocks, id)
		}
		for i := range a.Passages {
			archives = archives || before != nil && !before.inArchives(&a.Passages[i])
		}
	}
	for list, wanted := range map[string]bool{blockList: blocks, archiveList: archives} {
		marks := d.base.Marks[list]
		if !wanted || marks == nil {
			continue
		}
		d.request(d.opt.get(newestQuery, list, ""), jsondoc.Array, "a list", nil, func(doc *jsondoc.Doc) error {
			found := listIDs(doc)
			i := slices.IndexFunc(found, func(id string) bool { return slices.Contains(marks, id) })
			if i < 0 && len(marks) > 0 {
				return errors.New("letta: cannot determine which of the agent's memories the run created")
			}
			if i < 0 {
				i = len(found)
			}
			d.now.newIDs = append(d.now.newIDs, found[:i]...)
			return nil
		})
	}
}

func (d *difference) existedBefore(list, id string) bool {
	return d.before.Marks[list] != nil && !slices.Contains(d.after.newIDs, id)
}

// inArchives reports whether a passage is in an archive of the agent. It is true if the
// archives are unknown.
func (a *agent) inArchives(p *passage) bool {
	return p.Archive == "" || a.Archives == nil || slices.Contains(a.Archives, p.Archive)
}
