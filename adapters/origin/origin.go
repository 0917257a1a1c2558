// Package origin reads what a payload claims about its content's layer, speaker and
// categories, in the same way for every backend.
//
// Guarantees: a claim can make the rules for content stricter, never weaker. A claimed layer
// counts in addition to the one that route and role determine. A claim that content was
// inferred is believed; a claim that a user stated it is not.
package origin

import (
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Claims are a payload's claims about its content.
type Claims struct {
	layers   []memproxy.Layer
	keys     []string
	speakers []string // names of claimed speakers
	inferred bool
}

// AddMetadata records the claims in one member of a metadata object.
func (c *Claims) AddMetadata(doc *jsondoc.Doc, m jsondoc.Member) {
	c.keys = append(c.keys, m.Name)
	c.addNested(doc, m.Value)
	text := memproxy.Key(m.Value.Text())
	switch memproxy.Key(m.Name) {
	case "layer", "type", "memory_type", "memory_layer", "kind":
		c.AddLayer(text)
	case "inferred", "deduced", "derived", "implicit":
		c.inferred = c.inferred || !isNegative(doc, m.Value)
	case "explicit", "stated":
		c.inferred = c.inferred || isNegative(doc, m.Value)
	case "attributed_to", "attribution", "role", "said_by", "author_role":
		c.inferred = c.inferred || text != "" && !memproxy.UserRole(text)
	case "actor_id", "actor", "speaker":
		if m.Value.Text() != "" {
			c.speakers = append(c.speakers, m.Value.Text())
		}
	case "category", "categories", "tags", "tag", "topic", "topics":
		c.AddCategories(m.Value)
	}
}

// addNested records the names of the members inside a value, and claims that it was inferred.
// Other names of claims are too common in an application's own data to count there.
func (c *Claims) addNested(doc *jsondoc.Doc, v *jsondoc.Value) {
	for _, m := range v.Members {
		c.keys = append(c.keys, m.Name)
		name := memproxy.Key(m.Name)
		c.inferred = c.inferred || (name == "inferred" || name == "deduced") && !isNegative(doc, m.Value)
		c.addNested(doc, m.Value)
	}
	for _, e := range v.Elems {
		c.addNested(doc, e)
	}
}

// AddCategories records a category or tag, or a list of them. A tag may name a layer.
func (c *Claims) AddCategories(v *jsondoc.Value) {
	if v.Kind == jsondoc.String {
		c.keys = append(c.keys, v.Text())
		c.AddLayer(v.Text())
	}
	for _, e := range v.Elems {
		c.AddCategories(e)
	}
}

// AddLayer records a word that may name a layer.
func (c *Claims) AddLayer(word string) {
	if l, ok := LayerOf(word); ok && !slices.Contains(c.layers, l) {
		c.layers = append(c.layers, l)
	}
}

// LayerOf returns the layer that a word names.
func LayerOf(word string) (memproxy.Layer, bool) {
	l, ok := layers[strings.ReplaceAll(memproxy.Key(word), "-", "_")]
	return l, ok
}

// isNegative reports whether a value denies the claim in its name, such as "inferred": false.
func isNegative(doc *jsondoc.Doc, v *jsondoc.Value) bool {
	said := string(doc.Raw(v))
	if v.Kind == jsondoc.String {
		said = memproxy.Key(v.Text())
	}
	return slices.Contains([]string{"false", "null", "0", "", "no", "none"}, said)
}

// storesText reports whether claims about content mean anything in an operation.
func storesText(op *memproxy.Operation) bool {
	return op.Kind == memproxy.Learn || op.Kind == memproxy.Correct
}

// Apply applies the claims to an operation whose items already have the layer and role of
// the route. If the backend's model extracts facts from a conversation in which a user
// speaks, other speakers do not make the conversation inferred, because the extracted facts
// are judged later.
func (c *Claims) Apply(op *memproxy.Operation) {
	if !storesText(op) {
		return
	}
	op.LayerClaims, op.Keys = c.layers, c.keys
	agent := op.Scope.Agent
	all := c.inferred || agent != "" && slices.Contains(c.speakers, agent)
	byAgent := map[string]bool{} // pointer prefixes of messages with the agent's name
	for i := range op.Claims {
		cl := &op.Claims[i]
		if cl.Dim == memproxy.DimActor && agent != "" && slices.Contains(cl.Values, agent) {
			byAgent[cl.Pointer[:strings.LastIndexByte(cl.Pointer, '/')+1]] = true
		}
	}
	stated := false // by a user
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind != memproxy.ItemContent {
			continue
		}
		for prefix := range byAgent {
			it.Inferred = it.Inferred || strings.HasPrefix(it.Pointer, prefix)
		}
		stated = stated || !it.Inferred && it.Text != ""
	}
	for i := range op.Items {
		it := &op.Items[i]
		if it.Kind == memproxy.ItemContent {
			it.Inferred = all || it.Inferred && (!op.Extracts || !stated || memproxy.UserRole(it.Role))
		}
	}
}

// LowestTier returns the tier of a claimed source: the lowest of before and the tiers of all
// names in v, by table. A number counts as an unknown name.
func LowestTier(table memproxy.SourceNames, before memproxy.Source, v *jsondoc.Value) memproxy.Source {
	var tier memproxy.Source
	switch v.Kind {
	case jsondoc.String:
		tier = table.Tier(v.Text())
	case jsondoc.Null:
	case jsondoc.Object, jsondoc.Array:
		for _, m := range v.Members {
			before = LowestTier(table, before, m.Value)
		}
		for _, e := range v.Elems {
			before = LowestTier(table, before, e)
		}
	default:
		tier = table["*"]
	}
	return before.Lower(tier)
}
