package letta

import (
	"bytes"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/jsondoc"
)

// Disclosed implements the gate's discloser: changes are answered with the whole
// object as it is then, an agent with all of its blocks among them. Of a run's
// answer nothing is memory: what its tools found was filtered on its way to them.
func (a *Adapter) Disclosed(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply) (*memproxy.Reading, error) {
	rd := &memproxy.Reading{}
	r := a.row(rt.ID)
	if r == nil || rt.Derived || len(bytes.TrimSpace(reply.Body)) == 0 {
		return rd, nil
	}
	switch rt.Kind {
	case memproxy.Correct, memproxy.Attach, memproxy.Forget:
	default:
		return rd, nil
	}
	doc, err := jsondoc.Parse(reply.Body, 0)
	if err != nil {
		return nil, err
	}
	f := finding{rd: rd, doc: doc, agent: rt.Params["agent_id"], within: holders(r, rt, req)}
	switch doc.Root.Kind {
	case jsondoc.Object:
		return rd, f.element(doc.Root, "")
	case jsondoc.Array:
		for i, e := range doc.Root.Elems {
			if e.Kind != jsondoc.Object {
				continue // a name
			}
			if err := f.element(e, jsondoc.Index("", i)); err != nil {
				return nil, err
			}
		}
	}
	return rd, nil
}
