package turn

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/selfedit"
)

// writtenArguments are the arguments with the texts that the tool named memory writes, by its
// command.
var writtenArguments = map[string][]string{
	"create":      {"file_text", "description"},
	"str_replace": {"new_string", "new_str"},
	"insert":      {"insert_text"},
}

// readTexts adds an item for each text that a call writes, with the block that it is
// written to. Replaced or removed text is not content, because forbidden text may be
// removed.
func (c *toolCall) readTexts() error {
	if c.name == "memory_apply_patch" {
		return c.patch(c.args.Text("label"))
	}
	command, path := c.args.Text("command"), c.args.Text("path")
	arguments := []string{"content", "new_content", "new_string", "new_str", "new_memory", "insert_text"}
	if c.name == "memory" {
		arguments = writtenArguments[command]
	}
	if command == "rename" && path != "" && c.args.Text("description") != "" { // the server changes nothing else
		command, arguments = "", []string{"description"}
	}
	labels := []string{cmp.Or(c.args.Text("label"), c.args.Text("target_block_label"))}
	switch {
	case c.name == "rethink_user_memory":
		labels[0] = "human"
	case command == "create" || command == "str_replace": // the label is the path, unchanged
		labels = selfedit.Labels(path)[:1]
	case path != "":
		labels = selfedit.Labels(path)
	}
	for _, label := range labels { // selfedit.Read accepted only the tool's own parameters
		for _, a := range arguments {
			if c.doc.Root.Get(a) != nil {
				c.add("/"+a, c.args.Text(a), label)
			}
		}
	}
	for _, list := range [...]string{"tags", "chunks"} {
		for i, s := range c.args.Texts(list) {
			c.add(jsondoc.Index("/"+list, i), s, "")
		}
	}
	switch command {
	case "create":
		c.op.Kind = memproxy.Learn
		c.add("/path", labels[0], labels[0])
	case "insert":
		c.op.Kind = memproxy.Learn
	case "delete":
		c.op.Kind, c.op.Cost = memproxy.Forget, 0
		for _, label := range labels {
			c.add("/path", "", label)
		}
	case "rename":
		if from, to := c.args.Text("old_path"), c.args.Text("new_path"); from != "" && to != "" {
			c.recordRename("/old_path", "/new_path", selfedit.Labels(from), selfedit.Labels(to))
		}
	}
	return nil
}

// recordRename adds items for a renaming. The new label is content, because agents read
// it, and both labels count as written fields.
func (c *toolCall) recordRename(from, to string, was, becomes []string) {
	for _, label := range becomes {
		c.add(to, label, label)
	}
	for _, label := range was {
		c.add(from, "", label)
	}
}

// patch reads a unified diff of one block, or a patch with headers for several blocks.
// Added text is content, and every named block is a written field. A patch that deletes a
// block must do nothing else, because a call is ruled on as one kind of change.
func (c *toolCall) patch(label string) error {
	patch := c.args.Text("patch")
	actions, refused := selfedit.Actions(patch)
	if refused {
		return nil // the server reports the error, and operation adds an item for every text
	}
	if actions == nil {
		c.add("/patch", selfedit.Added(patch), label)
		return nil
	}
	verbs := map[string]int{}
	for _, a := range actions {
		verbs[a.Verb]++
		labels := selfedit.Labels("/memories/" + a.Label)
		switch a.Verb {
		case "add":
			c.add("/patch", a.Value(), labels[0])
			if a.Description != "" {
				c.add("/patch", a.Description, labels[0])
			}
			c.add("/patch", labels[0], labels[0])
		case "update":
			c.add("/patch", selfedit.Added(strings.Join(a.Lines, "\n")), a.Label)
		case "rename":
			c.recordRename("/patch", "/patch", selfedit.Labels("/memories/"+a.From), labels)
		case "delete":
			for _, l := range labels {
				c.add("/patch", "", l)
			}
		}
	}
	switch len(actions) {
	case verbs["delete"]:
		c.op.Kind, c.op.Cost = memproxy.Forget, 0
	case verbs["add"]:
		c.op.Kind = memproxy.Learn
	default:
		if verbs["delete"] > 0 {
			return selfedit.Malformed("/patch", "a patch that deletes a block must not contain other changes")
		}
	}
	return nil
}

// addEffects adds the predicted effects of the call: the new texts of blocks, and every
// written block. It updates blocks to the state after the call.
func (c *toolCall) addEffects(blocks *[]selfedit.Block) {
	effect := selfedit.Simulate(c.name, c.args, *blocks)
	for _, ch := range effect.Changes {
		label := ch.After.Label
		if ch.Kind == selfedit.Detached {
			c.addMissing("", label)
			continue
		}
		c.addMissing(ch.Text(), label)
		if ch.After.Description != ch.Before.Description {
			c.addMissing(ch.After.Description, label)
		}
		if ch.After.Label != ch.Before.Label && ch.Kind == selfedit.Written {
			c.addMissing("", ch.Before.Label)
		}
		if n := characters(ch.After.Value); n > characters(ch.Before.Value) || ch.After.Label != ch.Before.Label {
			c.addExistingSize(n, label)
		}
	}
	*blocks = effect.Blocks
}

// addExistingSize adds an item for the part of a growing or renamed block that the call
// does not write, because a field's size limit applies to all of its text. n is the block's
// size after the call, in characters.
func (c *toolCall) addExistingSize(n int, label string) {
	for i := range c.op.Items {
		if it := &c.op.Items[i]; it.Field == label {
			n -= it.Characters()
		}
	}
	if n > 0 {
		c.op.Items = append(c.op.Items, memproxy.Item{
			Kind: memproxy.ItemContent, Pointer: "/" + c.name, Field: label, Layer: memproxy.Semantic, Moved: true, Size: n,
		})
	}
}

// characters returns the number of characters of a block's value without white space around
// it: the server puts a line break in front of the first entry.
func characters(value string) int { return utf8.RuneCountInString(strings.TrimSpace(value)) }

// addMissing adds a text of a block unless an item of that block already contains it.
func (c *toolCall) addMissing(text, label string) {
	if !slices.ContainsFunc(c.op.Items, func(it memproxy.Item) bool {
		return it.Field == label && (text == "" || strings.Contains(it.Text, text))
	}) {
		c.add("/"+c.name, text, label)
	}
}
