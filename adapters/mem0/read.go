package mem0

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/adapters/internal/wire"
	"github.com/memproxy/memproxy/adapters/jsondoc"
	"github.com/memproxy/memproxy/adapters/stamps"
)

var (
	errShape = errors.New("mem0: the response does not have the route's shape")
	errWhole = errors.New("mem0: the response is a single memory that must be withheld")

	errUnclaimed = errors.New("mem0: an element has members without a claim")
)

// listKeys are the members of answers that list their elements.
var listKeys = [...]string{"results", "memories", "items"}

// Read implements the gate's Adapter.
func (a *Adapter) Read(rt memproxy.Route, req memproxy.Request, reply memproxy.Reply) (*memproxy.Reading, error) {
	if rt.Derived || rt.Kind == memproxy.Admin {
		return readDerived(rt, reply)
	}
	if rt.Kind != memproxy.Recall && len(bytes.TrimSpace(reply.Body)) == 0 {
		return &memproxy.Reading{}, nil
	}
	f, read := reply.Parsed.(*answerReader)
	if !read || f.rd == nil || f.rt.ID != rt.ID || f.rt.Kind != rt.Kind || !f.doc.Is(reply.Body) {
		f = newReader(a, rt, reply)
		if err := f.parse(); err != nil {
			return nil, err
		}
	}
	defer func() { f.rd = nil }() // the gate changes a reading, so the next one is another
	rd, root := f.rd, f.doc.Root
	switch root.Kind {
	case jsondoc.Null:
		rd.Memories = append(rd.Memories, memproxy.Memory{Missing: true})
		return rd, nil
	case jsondoc.Array:
		rd.Settles = rt.Kind == memproxy.Learn && len(rd.Events) == 0
		return rd, nil
	case jsondoc.Object:
	default:
		return nil, errShape
	}
	recordLinks(rd, root)
	recordRelations(rd, root.Get("relations"))
	if f.whole {
		return rd, f.element(root, "")
	}
	found := slices.ContainsFunc(listKeys[:], func(key string) bool { v := root.Get(key); return v != nil && v.Kind == jsondoc.Array })
	rd.Settles = found && rt.Kind == memproxy.Learn && len(rd.Events) == 0
	if id := root.Get("event_id"); id != nil && id.Kind == jsondoc.String && rt.Kind != memproxy.Recall {
		rd.Events = append(rd.Events, id.Text())
		rd.Settles = rd.Settles && root.Get("status").Text() == "SUCCEEDED"
		return rd, nil
	}
	if !found && root.Get("id") != nil {
		return rd, f.element(root, "")
	}
	if !found && rt.Kind == memproxy.Recall && root.Get("message") == nil && root.Get("detail") == nil && root.Get("error") == nil {
		return nil, errShape
	}
	return rd, nil
}

// makingTime is how long the platform may take to make a profile: its memories are at most
// that much older than its updated_at.
const makingTime = time.Minute

// readDerived reads the texts of a derived answer and the id of a job.
func readDerived(rt memproxy.Route, reply memproxy.Reply) (*memproxy.Reading, error) {
	rd := &memproxy.Reading{}
	doc, err := jsondoc.ParseReply(reply)
	if err != nil {
		rd.Derived = []string{string(reply.Body)}
		return rd, nil // plain text cannot be filtered, so the request was narrowed before
	}
	if rt.Kind == memproxy.Recall {
		var texts memproxy.Operation
		wire.AddStrings(&texts, doc.Root, "", newItem(memproxy.ItemContent, ""))
		for i := range texts.Items {
			rd.Derived = append(rd.Derived, texts.Items[i].Text)
		}
	}
	if doc.Root.Kind == jsondoc.Object {
		if p := doc.Root.Get("profile"); p != nil && rt.Kind == memproxy.Recall && p.Kind != jsondoc.Null && (p.Kind != jsondoc.Object || len(p.Members) > 0) {
			rd.Made = new(time.Time)
			if at, err := time.Parse(time.RFC3339, doc.Root.Get("updated_at").Text()); err == nil {
				*rd.Made = at.Add(-makingTime)
			}
		}
		recordLinks(rd, doc.Root)
		if id := doc.Root.Get("id"); id != nil && id.Kind == jsondoc.String {
			rd.Events = append(rd.Events, id.Text())
		}
	}
	return rd, nil
}

func recordLinks(rd *memproxy.Reading, root *jsondoc.Value) {
	for _, key := range [...]string{"next", "previous", "status_url"} {
		if v := root.Get(key); v != nil && v.Kind == jsondoc.String && (strings.Contains(v.Text(), "://") || strings.HasPrefix(v.Text(), "//")) {
			rd.Links = append(rd.Links, "/"+key)
		}
	}
}

// answerReader is the state of reading one answer. The document does not contain the elements
// of lists, which are read while it is parsed.
type answerReader struct {
	a      *Adapter
	rd     *memproxy.Reading
	doc    *jsondoc.Doc
	rt     memproxy.Route
	whole  bool // the answer is one element
	prunes bool // the reading fails if an element has members without a claim
}

func newReader(a *Adapter, rt memproxy.Route, reply memproxy.Reply) *answerReader {
	return &answerReader{a: a, rd: &memproxy.Reading{}, rt: rt, doc: &jsondoc.Doc{Src: reply.Body}, whole: a.Row(rt.ID).Shape == event}
}

// Prune implements the gate's Adapter. An answer with memories in which everything is claimed
// is read while it is pruned, so that its bytes are parsed once.
func (a *Adapter) Prune(rt memproxy.Route, reply memproxy.Reply) (memproxy.Pruned, error) {
	if reply.Status == 200 && !rt.Derived && rt.Kind != memproxy.Admin {
		f := newReader(a, rt, reply)
		f.prunes = true
		if f.parse() == nil && a.Claims(rt.ID, f.doc.Root) {
			return memproxy.Pruned{Body: reply.Body, Parsed: f}, nil
		}
	}
	return a.Table.Prune(rt, reply)
}

// maxGuess bounds the number of memories for which space is allocated in advance.
const maxGuess = 1024

// parse parses the answer and, unless whole is set, reads the elements of its lists while
// it parses.
func (f *answerReader) parse() (err error) {
	if f.whole {
		f.doc, err = jsondoc.Parse(f.doc.Src, 0)
		return err
	}
	objects := bytes.Count(f.doc.Src, []byte("{")) // a memory with metadata has two
	f.rd.Memories = make([]memproxy.Memory, 0, min((objects+1)/2, maxGuess))
	share := 0 // strings of an answer to a write are retained, and must not retain whole elements
	if f.rt.Kind == memproxy.Recall {
		share = jsondoc.MaxShared
	}
	f.doc, err = jsondoc.ParseLists(f.doc.Src, f, share)
	return err
}

// element reads one memory, history entry, event or entity.
func (f *answerReader) element(v *jsondoc.Value, ptr string) error {
	if v.Kind != jsondoc.Object {
		f.rd.Memories = append(f.rd.Memories, memproxy.Memory{Pointer: ptr, Unreadable: true})
		return nil
	}
	m := memproxy.Memory{Pointer: ptr, ID: v.Get("id").Text(), Event: v.Get("event").Text()}
	m.Before = cmp.Or(v.Get("old_memory").Text(), v.Get("previous_memory").Text())
	readOrigin(&m, v)
	meta, data := v.Get("metadata"), v.Get("data")
	if m.Text = v.Get("memory").Text(); m.Text != "" {
		m.TextAt = ptr + "/memory"
	} else if data != nil {
		m.Text, m.TextAt = data.Get("memory").Text(), ptr+"/data/memory"
	}
	m.Inferred = m.Inferred || !memproxy.UserRole(data.Get("attributed_to").Text()) || !memproxy.UserRole(data.Get("role").Text())
	switch {
	case strings.HasPrefix(f.rt.ID, "mem0.v1.event"):
		m.Kind = memproxy.TargetEvent
		if p := v.Get("payload"); p != nil {
			m.Scope = merge(m.Scope, scope(p))
			meta = p.Get("metadata")
		}
	case strings.Contains(f.rt.ID, "entit") && f.rt.ID != "mem0.v1.entity.memories":
		m.Kind = memproxy.TargetEntity
		name := cmp.Or(v.Get("name").Text(), v.Get("id").Text())
		if dim, ok := entityDim(v.Get("type").Text()); ok {
			c := memproxy.Claim{Dim: dim, Values: []string{name}}
			wire.FillScope(&m.Scope, &c, false)
		}
	case strings.Contains(f.rt.ID, "history"):
		if id := v.Get("memory_id"); id != nil {
			m.ID = id.Text()
		}
		for _, key := range [...]string{"old_memory", "new_memory"} {
			if text := v.Get(key).Text(); text != "" {
				m.OtherTexts = append(m.OtherTexts, text)
			}
		}
	default:
		m.Unstamped = meta != nil
	}
	if id := v.Get("event_id"); id != nil && id.Kind == jsondoc.String && f.rt.Kind == memproxy.Learn {
		f.rd.Events = append(f.rd.Events, id.Text())
		if m.ID == "" {
			return nil
		}
	}
	if meta != nil && meta.Kind == jsondoc.Object {
		m.Metadata = f.doc.Raw(meta)
		m.Field, m.OtherFields = fieldsOf(f.a.opt.FieldKey, f.doc, meta)
		m.Stamp, m.Altered = stamps.Parse(meta, f.doc)
		m.ClaimsProvenance = meta.Get(memproxy.ProvenanceKey) != nil
		m.Unstamped = m.Unstamped && m.Stamp == nil
		readOrigin(&m, meta)
	}
	if m.ID == "" && m.Kind == "" && f.rt.Kind == memproxy.Recall {
		m.Unreadable = true // it cannot be looked up in the ledger, so its status is unknown
	}
	m.Annotations = annotations(v)
	f.rd.Memories = append(f.rd.Memories, m)
	if m.Kind == memproxy.TargetEvent {
		return readResults(f.rd, v, m)
	}
	return nil
}

// annotations returns the texts of an element other than the memory's own. It leaves out
// the results, which are read separately, and instructions to the extractor in an event's
// request, which are not memory.
func annotations(v *jsondoc.Value) (texts []string) {
	for _, m := range v.Members {
		switch name, object := m.Name, m.Value.Kind == jsondoc.Object; {
		case name == "memory", name == "previous_memory", name == "old_memory", name == "new_memory", name == "results":
		case object && name == "data":
			texts = append(texts, annotations(m.Value)...)
		case object && name == "payload":
			for _, p := range m.Value.Members {
				if !steeringKeys[p.Name] {
					texts = wire.AppendSentences(texts, p.Value)
				}
			}
		default:
			texts = wire.AppendSentences(texts, m.Value)
		}
	}
	return texts
}

// owners are the members that name a memory's owners.
var owners = [...]string{"user_id", "agent_id", "app_id", "run_id", "session_id"}

// readOrigin reads from an object the owners of a memory that are not known yet, and whether
// a model inferred it. The memory is unreadable if an owner is neither a string nor null, or
// the id is an object or a list.
func readOrigin(m *memproxy.Memory, v *jsondoc.Value) {
	session := ""
	for i := range v.Members {
		name, value := v.Members[i].Name, v.Members[i].Value
		owner := &session
		switch name {
		case "id":
			m.Unreadable = m.Unreadable || value.Kind == jsondoc.Object || value.Kind == jsondoc.Array
			continue
		case "attributed_to", "role":
			m.Inferred = m.Inferred || !memproxy.UserRole(value.Text())
			continue
		case "session_id":
		default:
			dim, ok := dimOf(name)
			if !ok {
				continue
			}
			owner = m.Scope.Owner(dim)
		}
		*owner = cmp.Or(*owner, value.Text())
		m.Unreadable = m.Unreadable || value.Kind != jsondoc.String && value.Kind != jsondoc.Null
	}
	m.Scope.Run = cmp.Or(m.Scope.Run, session)
}

func scope(v *jsondoc.Value) memproxy.Scope {
	var m memproxy.Memory
	readOrigin(&m, v)
	return m.Scope
}

func merge(a, b memproxy.Scope) memproxy.Scope {
	return memproxy.Scope{User: cmp.Or(a.User, b.User), Agent: cmp.Or(a.Agent, b.Agent), App: cmp.Or(a.App, b.App), Run: cmp.Or(a.Run, b.Run)}
}
