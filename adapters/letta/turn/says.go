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

// says records what a call writes and where. The text that it replaces or removes is
// not content: text that may not be written may be removed.
func (c *toolCall) says() error {
	switch c.name {
	case "memory_apply_patch":
		return c.patch(c.args.Text("label"))
	case "memory":
		return c.command()
	}
	labels := []string{cmp.Or(c.args.Text("label"), c.args.Text("target_block_label"))}
	switch path := c.args.Text("path"); {
	case c.name == "rethink_user_memory":
		labels[0] = "human"
	case path != "":
		labels = selfedit.Labels(path)
	}
	for _, label := range labels { // a call that fits its tool has no other arguments of these names
		for _, a := range [...]string{"content", "new_content", "new_string", "new_str", "new_memory", "insert_text"} {
			c.text(a, label)
		}
	}
	for _, list := range [...]string{"tags", "chunks"} {
		for i, s := range c.args.Texts(list) {
			c.add(jsondoc.Index("/"+list, i), s, "")
		}
	}
	return nil
}

// text adds an argument as content of a block, if it is present.
func (c *toolCall) text(argument, label string) {
	if c.doc.Root.Get(argument) != nil {
		c.add("/"+argument, c.args.Text(argument), label)
	}
}

// command reads the one tool that has many commands.
func (c *toolCall) command() error {
	labels := selfedit.Labels(c.args.Text("path"))
	every := func(arguments ...string) {
		for _, label := range labels {
			for _, a := range arguments {
				c.text(a, label)
			}
		}
	}
	switch c.args.Text("command") {
	case "create": // the label is the path, unchanged
		c.op.Kind, labels = memproxy.Learn, labels[:1]
		every("file_text", "description")
		c.add("/path", labels[0], labels[0])
	case "str_replace":
		labels = labels[:1]
		every("new_string", "new_str")
	case "insert":
		c.op.Kind = memproxy.Learn
		every("insert_text")
	case "delete":
		c.op.Kind, c.op.Cost = memproxy.Forget, 0
		for _, label := range labels {
			c.add("/path", "", label)
		}
	case "rename":
		c.rename(labels)
	}
	return nil
}

// rename reads a change of a description or of a label; the server makes the first if
// both are present.
func (c *toolCall) rename(labels []string) {
	if c.args.Text("path") != "" && c.args.Text("description") != "" {
		for _, label := range labels {
			c.text("description", label)
		}
		return
	}
	if to := c.args.Text("new_path"); to != "" && c.args.Text("old_path") != "" {
		c.moved("/old_path", "/new_path", selfedit.Labels(c.args.Text("old_path")), selfedit.Labels(to))
	}
}

// moved records a renaming: the new label is content, which agents read, and both
// blocks are written to.
func (c *toolCall) moved(from, to string, was, becomes []string) {
	for _, label := range becomes {
		c.add(to, label, label)
	}
	for _, label := range was {
		c.add(from, "", label)
	}
}

// patch reads a unified diff of one block, or one with headers of many. Added text is
// content, and every named block is a written field. A patch that deletes a block must
// do nothing else, because a call is ruled on as one kind of change.
func (c *toolCall) patch(label string) error {
	patch := c.args.Text("patch")
	actions, refused := selfedit.Actions(patch)
	if refused {
		return nil // the server reports the error; all texts are items
	}
	if actions == nil {
		c.add("/patch", strings.Join(selfedit.Added(selfedit.Lines(patch)), "\n"), label)
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
			c.add("/patch", strings.Join(selfedit.Added(selfedit.Lines(strings.Join(a.Lines, "\n"))), "\n"), a.Label)
		case "rename":
			c.moved("/patch", "/patch", selfedit.Labels("/memories/"+a.From), labels)
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

// makes adds the result of the call: the new texts of blocks, and every block that is
// written. It leaves the blocks as the call does.
func (c *toolCall) makes(blocks *[]selfedit.Block) {
	effect := selfedit.Run(c.name, c.args, *blocks)
	for _, ch := range effect.Changes {
		label := ch.After.Label
		if ch.Kind == selfedit.Detached {
			c.unsaid("", label)
			continue
		}
		c.unsaid(ch.Text(), label)
		if ch.After.Description != ch.Before.Description {
			c.unsaid(ch.After.Description, label)
		}
		if ch.After.Label != ch.Before.Label && ch.Kind == selfedit.Written {
			c.unsaid("", ch.Before.Label)
		}
		if n := size(ch.After.Value); n > size(ch.Before.Value) || ch.After.Label != ch.Before.Label {
			c.holds(n, label)
		}
	}
	*blocks = effect.Blocks
}

// holds counts what a block that grows holds besides what the call writes to it: the
// size of a field is that of all its text.
func (c *toolCall) holds(n int, label string) {
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

// size is the number of characters of a block. The line break that the server puts in
// front of the first entry does not count.
func size(value string) int { return utf8.RuneCountInString(strings.TrimSpace(value)) }

// unsaid adds a text of a block that no item contains yet.
func (c *toolCall) unsaid(text, label string) {
	if !slices.ContainsFunc(c.op.Items, func(it memproxy.Item) bool {
		return it.Field == label && (text == "" || strings.Contains(it.Text, text))
	}) {
		c.add("/"+c.name, text, label)
	}
}
