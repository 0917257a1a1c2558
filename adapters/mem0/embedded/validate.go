package embedded

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
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

// wants decodes a self-hosted body and checks the types of the fields that it
// knows. Others are ignored, as the server does.
func wants(fields ...field) func(*call) *reply {
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
			case given && (value != nil || f.required):
				var wrong []flaw
				body[f.name], wrong = f.read(value)
				flaws = append(flaws, wrong...)
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

// read checks a value and turns it into the field's type. Pydantic is lax:
// "off" and 0 are booleans, "3" is a number, so a gate that looks for false
// alone takes a verbatim add for an extraction.
func (f field) read(v any) (any, []flaw) {
	fails := func(kind, msg string) (any, []flaw) {
		return v, []flaw{{Type: kind, Loc: []any{"body", f.name}, Msg: "Input should be a valid " + msg, Input: v}}
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
		switch b, isBool, readable := laxBool(v); {
		case isBool:
			return b, nil
		case readable:
			return fails("bool_parsing", "boolean, unable to interpret input")
		}
		return fails("bool_type", "boolean")
	case "integer", "number":
		name, what := "int", "integer"
		if f.kind == "number" {
			name, what = "float", "number"
		}
		n, isNumber := laxNumber(v)
		_, isText := v.(string)
		switch {
		case isNumber && f.kind == "number":
			return n, nil
		case !isNumber && isText:
			return fails(name+"_parsing", what+", unable to parse string as "+map[string]string{"int": "an integer", "float": "a number"}[name])
		case !isNumber:
			return fails(name+"_type", what)
		}
		x, err := n.Float64()
		if err != nil || x != math.Trunc(x) || math.Abs(x) >= 1<<53 {
			return fails("int_from_float", "integer, got a number with a fractional part")
		}
		return json.Number(strconv.FormatInt(int64(x), 10)), nil
	case "messages":
		list, isList := v.([]any)
		if !isList {
			return fails("list_type", "list")
		}
		return v, checkMessages(list)
	}
	return v, nil
}

// laxBool reads what Pydantic takes for a boolean; readable tells a word or
// number that is none from other types.
func laxBool(v any) (b, isBool, readable bool) {
	switch v := v.(type) {
	case bool:
		return v, true, true
	case json.Number:
		x, err := v.Float64()
		return x == 1, err == nil && (x == 0 || x == 1), err == nil && x == math.Trunc(x)
	case string:
		switch strings.ToLower(v) {
		case "1", "t", "true", "y", "yes", "on":
			return true, true, true
		case "0", "f", "false", "n", "no", "off":
			return false, true, true
		}
		return false, false, true
	}
	return false, false, false
}

// laxNumber also reads numbers written as text, and booleans.
func laxNumber(v any) (json.Number, bool) {
	switch v := v.(type) {
	case json.Number:
		return v, true
	case string:
		text := strings.TrimSpace(v)
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
			return "", false
		}
		return json.Number(strconv.FormatFloat(x, 'g', -1, 64)), true
	case bool:
		if v {
			return "1", true
		}
		return "0", true
	}
	return "", false
}

func checkMessages(list []any) []flaw {
	var flaws []flaw
	for i, item := range list {
		msg, isObject := item.(map[string]any)
		if !isObject {
			f := notObject(item)
			f.Loc = []any{"body", "messages", i}
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
