package gate

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/memproxy/memproxy"
)

// Effect is what a filter does to what it finds.
type Effect string

// The effects.
const (
	Drops     Effect = "drop"     // leaves it out of the answer
	Notes     Effect = "note"     // changes nothing, and remembers what was shown
	Marks     Effect = "mark"     // says something of it, and shows it
	Withholds Effect = "withhold" // shows it in part, or refuses the answer
)

// stage is what of an answer a filter is given.
type stage uint8

const (
	asSent     stage = iota // the body as the backend sent it
	takenApart              // the memories in it
	rewritten               // the body as it would be sent on
)

// Filter is a row of the read path.
type Filter struct {
	Name   string `json:"name"`
	Effect Effect `json:"effect"`
	// What says what it is about, in a few words.
	What string `json:"what"`

	stage stage
	run   func(*returning, context.Context) (refused bool, err error)
}

// Memories reports whether the filter is about the memories in an answer, and so
// has nothing to do with one that has none: an error, an event.
func (f *Filter) Memories() bool { return f.stage == takenApart }

// filters is the life of an answer in order: of reads, writes and changes, of
// lists that are filled up, of the side requests for an agent's searches, and
// of an agent's run, whole or event by event, at both faces. Each filter can
// rely on what those before it established. One that refuses ends it; an error
// withholds the answer.
var filters = [...]Filter{
	{"members", Drops, "members that no row of the adapter's table claims, elements that cannot be read", asSent, (*returning).members},
	{"readable", Drops, "elements that do not say in a way that can be read whose they are", takenApart, (*returning).readable},
	{"owners", Drops, "memories of other tenants, and of owners that the caller may not name", takenApart, (*returning).ownedBy},
	{"integrity", Marks, "memories that are not what was written; withheld where the rules say so", takenApart, (*returning).doubted},
	{"states", Withholds, "quarantined, pending, expired and superseded memories; flagged ones are sanitised", takenApart, (*returning).states},
	{"compiled", Drops, "what the backend made of memories that are withheld", takenApart, (*returning).madeOf},
	{"attacks", Withholds, "memories that look like attacks", takenApart, (*returning).withhold},
	{"previous", Drops, "texts before a change that nobody can attribute, or that look like attacks", takenApart, (*returning).previous},
	{"enclosed", Drops, "what stands inside something that is left out", takenApart, (*returning).enclosed},
	{"relations", Drops, "totals and relations that may be of others, relations that look like attacks", takenApart, (*returning).related},
	{"provenance", Marks, "where memories come from, for readers who ask", takenApart, (*returning).account},
	{"names", Drops, "ids of objects of other tenants", rewritten, (*returning).strangers},
	{"secrets", Drops, "keys, tokens and environments, for callers who do not administer the backend", rewritten, (*returning).secrets},
	{"heard", Notes, "what tools said, which what the session writes may come from", rewritten, (*returning).heard},
}

// errUnreadable says that an answer does not say whose it is.
var errUnreadable = errors.New("the answer does not say in a way that can be read whose it is")

// Filters are the rows of the read path, in order.
func Filters() []Filter { return slices.Clone(filters[:]) }

// through takes an answer through the filters of one stage.
func (ret *returning) through(ctx context.Context, at stage) (refused bool, err error) {
	for i := range filters {
		f := &filters[i]
		if f.stage != at {
			continue
		}
		if ret.g.opt.Filtered != nil {
			ret.g.opt.Filtered(ret.call.Route, f.Name)
		}
		if refused, err := f.run(ret, ctx); refused || err != nil {
			return refused, err
		}
	}
	return false, nil
}

// filtrate reads the answer, filters it, and has it written anew as it may be
// shown.
func (ret *returning) filtrate(ctx context.Context) error {
	if refused, err := ret.through(ctx, asSent); refused || err != nil {
		return err
	}
	if refused, err := ret.sifted(ctx); refused || err != nil {
		return err
	}
	_, err := ret.through(ctx, rewritten)
	return err
}

// sifted filters the memories of an answer that has some.
func (ret *returning) sifted(ctx context.Context) (refused bool, err error) {
	reader, ok := ret.call.Backend.Adapter.(Reader)
	if !ok || !ret.Inspect || !ok2xx(ret.reply.Status) {
		return false, nil
	}
	if ret.reading, err = reader.Read(ret.call.Route, ret.call.Request, ret.reply); err != nil {
		return false, err
	}
	if all := ret.reading.Memories; len(all) == 1 && all[0].Missing && all[0].Pointer == "" && ret.absent() {
		return true, nil
	}
	upstream := ret.reply
	if ret.op.Kind != memproxy.Recall {
		return ret.disclose(ctx, reader)
	}
	if refused, err := ret.through(ctx, takenApart); refused || err != nil {
		return refused, err
	}
	if ret.reply.Body, err = reader.Rewrite(ret.call.Route, ret.call.Request, ret.reply, ret.reading); err != nil {
		return false, err
	}
	pages := ret.refill(ctx, upstream)
	ret.tell(ctx)
	ret.saw()
	ret.absorb(ctx, pages)
	return false, nil
}

// A Discloser is a Reader whose answers to changes show memories besides those
// that the change made: an agent with all of its blocks, to whom one was
// attached.
type Discloser interface {
	Reader
	// Disclosed finds the memories in the answer to a change. An answer that
	// cannot be read is an error.
	Disclosed(memproxy.Route, memproxy.Request, memproxy.Reply) (*memproxy.Reading, error)
}

// disclose filters the answer to a write: what a reader would not be shown, the
// writer is not shown either, but for its own words. What was made of the write
// is looked at first, which takes all of it; the filters work on a copy, because
// what they hide is remembered all the same.
func (ret *returning) disclose(ctx context.Context, reader Reader) (refused bool, err error) {
	if ret.op.Kind == memproxy.Learn {
		ret.receipts = ret.reading.Events
		if err := ret.extracted(ctx, ret.reading.Memories); err != nil {
			return false, err
		}
	}
	shown := *ret.reading
	if d, ok := reader.(Discloser); ok && ret.op.Kind != memproxy.Learn {
		rd, err := d.Disclosed(ret.call.Route, ret.call.Request, ret.reply)
		if err != nil {
			return false, err
		}
		shown = *rd
	}
	shown.Memories = slices.Clone(shown.Memories)
	view := &returning{Admission: ret.Admission, g: ret.g, reply: ret.reply, status: ret.status, reading: &shown, answers: true, looked: ret.lookups()}
	refused, err = view.through(ctx, takenApart)
	ret.filtered += view.filtered
	ret.reasons = append(ret.reasons, view.reasons...)
	if refused || err != nil {
		ret.reply = view.reply
		return refused, err
	}
	ret.reply.Body, err = reader.Rewrite(ret.call.Route, ret.call.Request, ret.reply, view.reading)
	return false, err
}

// readable leaves out elements of which nobody can say whose they are.
func (ret *returning) readable(context.Context) (refused bool, err error) {
	for i := range ret.reading.Memories {
		m := &ret.reading.Memories[i]
		if !m.Unreadable || m.Drop {
			continue
		}
		if m.Pointer == "" {
			return false, errUnreadable
		}
		m.Drop = true
		ret.leftovers.unreadable++
	}
	return false, nil
}

// ownWords reports whether a memory says in the answer to a write what the write
// says itself.
func (ret *returning) ownWords(m *memproxy.Memory) bool {
	return ret.answers && m.Text != "" && slices.ContainsFunc(ret.op.Items, func(it memproxy.Item) bool { return it.Kind == memproxy.ItemContent && it.Text == m.Text })
}

// leave leaves a memory out of the answer, and reports whether the answer is
// refused for it. A write that is answered with the memory alone has happened:
// it is shown without its text.
func (ret *returning) leave(m *memproxy.Memory, status int, code memproxy.ReasonCode, detail string) (refused bool) {
	switch {
	case m.Pointer != "" && (!ret.answers || isElement(m.Pointer)):
		m.Drop = true
	case ret.answers && m.TextAt != "":
		blank := ""
		m.Show = &blank
	default:
		ret.refuse(status, code, detail)
		ret.filtered++
		return true
	}
	return false
}

// isElement reports whether a pointer leads to an element of a list. What a
// write made is pointed to by its id, and is not gone without that.
func isElement(pointer string) bool {
	last := pointer[strings.LastIndexByte(pointer, '/')+1:]
	return last != "" && strings.Trim(last, "0123456789") == ""
}

// Piece filters an answer that a face puts together itself, of an agent's run.
// What cannot be read is refused.
func (g *Gate) Piece(ctx context.Context, a *Admission, reply memproxy.Reply) memproxy.Reply {
	ret := &returning{Admission: a, g: g, reply: reply, status: reply.Status}
	if err := ret.filtrate(ctx); err != nil {
		g.opt.Log.ErrorContext(ctx, "answer withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
		ret.refuse(StatusBadGateway, memproxy.UpstreamMalformed, "the backend's answer could not be read, so it could not be filtered")
	}
	return ret.reply
}

// Event filters one event of a stream. What comes back is to be sent on; it may
// be nothing, as it is of a run that the caller may not see.
func (g *Gate) Event(ctx context.Context, a *Admission, event []byte) []byte {
	if !g.traced(ctx, a, event) {
		return nil
	}
	if !a.Inspect {
		return event
	}
	shown := a.Answered
	defer func() { a.Answered = shown }() // one event is not the answer
	ret := &returning{Admission: a, g: g, reply: memproxy.Reply{Status: 200, Body: event}, status: 200, single: true}
	defer func() { a.leftovers.filtered += ret.filtered }()
	if refused, err := ret.through(ctx, asSent); err != nil || refused {
		return g.lost(ctx, a, err)
	}
	if event = ret.reply.Body; len(event) == 0 {
		return nil
	}
	data := dataOf(event)
	if len(data) == 0 || !bytes.ContainsAny(data[:1], "{[") || string(data) == endOfStream {
		return event // nothing to take apart: a name, a comment, the mark of the end
	}
	ret.reply.Body = data
	if refused, err := ret.through(ctx, rewritten); err != nil || refused {
		return g.lost(ctx, a, err)
	}
	if bytes.Equal(ret.reply.Body, data) {
		return event
	}
	return withData(event, ret.reply.Body)
}

// endOfStream is the data of the last event of a stream, which is no JSON. Without
// it clients take the stream for one that broke off.
const endOfStream = "[DONE]"

// lost is what is sent in the place of an event that no filter lets through.
func (g *Gate) lost(ctx context.Context, a *Admission, err error) []byte {
	g.opt.Log.ErrorContext(ctx, "event withheld", "decision", a.Decision.ID, "route", a.call.Route.ID, "error", err)
	return nil
}

// dataOf is what an event's lines of data say (WHATWG HTML, section 9.2).
func dataOf(event []byte) []byte {
	var data [][]byte
	for line := range bytes.Lines(event) {
		if rest, ok := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data:")); ok {
			data = append(data, bytes.TrimPrefix(rest, []byte(" ")))
		}
	}
	return bytes.Join(data, []byte("\n"))
}

// withData is an event with other data, in one line.
func withData(event, data []byte) []byte {
	var out []byte
	for line := range bytes.Lines(event) {
		if !bytes.HasPrefix(line, []byte("data:")) && len(bytes.TrimRight(line, "\r\n")) > 0 {
			out = append(out, line...)
		}
	}
	out = append(append(out, "data: "...), bytes.ReplaceAll(data, []byte("\n"), []byte(" "))...)
	return append(out, "\n\n"...)
}
