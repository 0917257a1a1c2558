package embedded

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// field is one field of a self-hosted request body.
type field struct {
	name     string
	kind     string // string, object, integer, number, boolean, messages
	required bool
}

// flaw is one entry of a 422 answer.
type flaw struct {
	Type  string         `json:"type"`
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Input any            `json:"input"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

func flawed(flaws ...flaw) *reply { return detailed(http.StatusUnprocessableEntity, flaws) }

func missing(input any, loc ...any) flaw {
	return flaw{Type: "missing", Loc: loc, Msg: "Field required", Input: input}
}

// object decodes a self-hosted body and checks the types of the fields that it
// knows. Others are ignored, as the server does.
func object(fields ...field) func(*call) *reply {
	return func(c *call) *reply {
		if len(c.raw) == 0 {
			return flawed(missing(nil, "body"))
		}
		if !isJSON(c.r.Header.Get("Content-Type")) {
			return flawed(notObject(string(c.raw)))
		}
		v, err := parse(c.raw)
		if err != nil {
			return flawed(flaw{"json_invalid", []any{"body", 0}, "JSON decode error", map[string]any{}, map[string]any{"error": "Expecting value"}})
		}
		body, isObject := v.(map[string]any)
		if !isObject {
			return flawed(notObject(v))
		}
		var flaws []flaw
		for _, f := range fields {
			value, given := body[f.name]
			switch {
			case given && value != nil:
				flaws = append(flaws, f.check(value)...)
			case f.required && given: // null is no value, but not absent either
				flaws = append(flaws, f.check(value)...)
			case f.required:
				flaws = append(flaws, missing(body, "body", f.name))
			}
		}
		if len(flaws) > 0 {
			return flawed(flaws...)
		}
		c.body = body
		return nil
	}
}

func notObject(input any) flaw {
	return flaw{Type: "model_attributes_type", Loc: []any{"body"}, Msg: "Input should be a valid dictionary or object to extract fields from", Input: input}
}

func (f field) check(v any) []flaw {
	fails := func(kind, msg string) []flaw {
		return []flaw{{Type: kind, Loc: []any{"body", f.name}, Msg: "Input should be a valid " + msg, Input: v}}
	}
	switch f.kind {
	case "string":
		if _, isText := v.(string); !isText {
			return fails("string_type", "string")
		}
	case "object":
		if _, isObject := v.(map[string]any); !isObject {
			return fails("dict_type", "dictionary")
		}
	case "boolean":
		if _, isBool := v.(bool); !isBool {
			return fails("bool_type", "boolean")
		}
	case "integer":
		n, isNumber := v.(json.Number)
		if !isNumber {
			return fails("int_type", "integer")
		}
		if _, err := n.Int64(); err != nil {
			return fails("int_from_float", "integer, got a number with a fractional part")
		}
	case "number":
		if _, isNumber := v.(json.Number); !isNumber {
			return fails("float_type", "number")
		}
	case "messages":
		list, isList := v.([]any)
		if !isList {
			return fails("list_type", "list")
		}
		return checkMessages(list)
	}
	return nil
}

func checkMessages(list []any) []flaw {
	var flaws []flaw
	for i, item := range list {
		msg, isObject := item.(map[string]any)
		if !isObject {
			f := notObject(item)
			f.Type, f.Loc = "model_attributes_type", []any{"body", "messages", i}
			flaws = append(flaws, f)
			continue
		}
		for _, name := range [...]string{"role", "content"} {
			v, given := msg[name]
			if !given {
				flaws = append(flaws, missing(msg, "body", "messages", i, name))
			} else if _, isText := v.(string); !isText {
				flaws = append(flaws, flaw{Type: "string_type", Loc: []any{"body", "messages", i, name}, Msg: "Input should be a valid string", Input: v})
			}
		}
	}
	return flaws
}

// queryInt reads a whole number of a self-hosted query.
func queryInt(c *call, name string, fallback int) (int, *reply) {
	if _, given := c.query[name]; !given {
		return fallback, nil
	}
	text := c.last(name)
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, flawed(flaw{
			Type: "int_parsing", Loc: []any{"query", name}, Input: text,
			Msg: "Input should be a valid integer, unable to parse string as an integer",
		})
	}
	return n, nil
}
