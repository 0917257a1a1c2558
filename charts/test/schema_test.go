package charttest

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/memproxy/memproxy/internal/must"
)

// The values' schema has the sidecar's own for config, so that a key with a typing error
// is refused by Helm and not by each pod at its start. No key is required there, because
// the chart writes some itself.
func TestConfigurationHasTheSidecarsSchema(t *testing.T) {
	var own map[string]any
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../../config/memproxy.schema.json"))(t), &own))
	for _, key := range []string{"$id", "$schema", "title"} {
		delete(own, key)
	}
	references := own["$defs"]
	delete(own, "$defs")
	const path = chartDir + "/values.schema.json"
	was := must.Get(os.ReadFile(path))(t)
	var schema struct {
		Schema      string                     `json:"$schema"`
		Title       string                     `json:"title"`
		Type        string                     `json:"type"`
		Properties  json.RawMessage            `json:"properties"`
		Only        bool                       `json:"additionalProperties"`
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	must.Do(t, json.Unmarshal(was, &schema))
	schema.Definitions["config"] = must.Get(json.Marshal(definition(own)))(t)
	schema.Definitions["reference"] = must.Get(json.Marshal(dig(t, references, "reference")))(t)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	must.Do(t, e.Encode(schema))
	if *update {
		must.Do(t, os.WriteFile(path, out.Bytes(), 0o644))
	} else if !bytes.Equal(out.Bytes(), was) {
		t.Error("the configuration's schema changed; review it and run with -update")
	}
}

// definition is a schema as a definition in another one.
func definition(schema any) any {
	switch n := schema.(type) {
	case []any:
		for i := range n {
			n[i] = definition(n[i])
		}
	case map[string]any:
		if _, list := n["required"].([]any); list {
			delete(n, "required")
		}
		if _, text := n["description"].(string); text {
			delete(n, "description")
		}
		if n["$ref"] == "#/$defs/reference" {
			n["$ref"] = "#/definitions/reference"
		}
		for k := range n {
			n[k] = definition(n[k])
		}
	}
	return schema
}
