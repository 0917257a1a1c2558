package mem0

import (
	"errors"
	"net/url"

	"github.com/memproxy/memproxy"
)

// seekable is how many memories a list surely holds: a longer one may go on.
const seekable = 100

var errFull = errors.New("mem0: there are more memories than one list holds")

// Seek implements the gate's seeker: an addition's stamp stands in the metadata
// of every memory that it becomes, in the scope that it names.
func (a *Adapter) Seek(rt memproxy.Route, req memproxy.Request, op *memproxy.Operation) (memproxy.Request, bool) {
	path := "/v1/memories/"
	switch rt.ID {
	case "mem0.v3.add", "mem0.v1.add":
	case "mem0.server.add":
		path = "/memories"
	default:
		return memproxy.Request{}, false
	}
	q := url.Values{}
	for key, value := range map[string]string{"user_id": op.Scope.User, "agent_id": op.Scope.Agent, "app_id": op.Scope.App, "run_id": op.Scope.Run} {
		if value != "" {
			q.Set(key, value)
		}
	}
	if len(q) == 0 {
		return memproxy.Request{}, false
	}
	return memproxy.Request{Method: "GET", EscapedPath: path, Query: q.Encode(), Header: req.Header, Base: req.Base}, true
}

// Sought implements the gate's seeker.
func (a *Adapter) Sought(reply memproxy.Reply, decision string) ([]string, error) {
	rd, err := a.Read(memproxy.Route{Kind: memproxy.Recall}, memproxy.Request{}, reply)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for i := range rd.Memories {
		if m := &rd.Memories[i]; m.Stamp != nil && m.Stamp.ID == decision {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) == 0 && len(rd.Memories) >= seekable {
		return nil, errFull
	}
	return ids, nil
}
