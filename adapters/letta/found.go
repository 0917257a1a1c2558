package letta

import (
	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/letta/turn"
)

// found reads what a search tool returned: passages in a list, or messages,
// which have no ids here, in an object. What it says in one string cannot be
// taken apart.
func found(rd *memproxy.Reading, rt memproxy.Route, body []byte) error {
	if !turn.Searches(rt.Params["tool_name"]) {
		return nil
	}
	doc, err := jsondoc.Parse(body, 0)
	if err != nil {
		return err
	}
	f := finding{rd: rd, doc: doc, agent: rt.Params["agent_id"]}
	switch v := doc.Root.Get("func_return"); {
	case v == nil || v.Kind == jsondoc.Null:
		return nil
	case v.Kind == jsondoc.Array:
		return f.list(v, "/func_return")
	case v.Kind == jsondoc.Object:
		if list := v.Get("results"); list != nil && list.Kind == jsondoc.Array {
			return f.list(list, "/func_return/results")
		}
	}
	return errShape
}
