package gate

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/memproxy/memproxy"
)

// A Namer is an Adapter whose answers name objects by ids that tell what they
// are, so that they can be found whatever member they stand under.
type Namer interface {
	// Names returns every object that an answer names, with its pointer.
	Names(memproxy.Route, memproxy.Reply) ([]memproxy.Ref, error)

	// Without returns the answer's body without what stands at the pointers.
	Without(reply memproxy.Reply, gone []string) ([]byte, error)
}

// errOwners says that nobody could be asked whose the objects of an answer are.
var errOwners = errors.New("the ledger cannot say whose the objects of the answer are")

// strangers takes out of an answer whatever the ledger knows as another
// tenant's: an identity that is attached to an agent, a tool, a member of a
// group. What the answer's memories are was ruled on before.
func strangers(ctx context.Context, ret *answer) (refused bool, err error) {
	namer, ok := ret.call.Backend.Adapter.(Namer)
	if !ok || !ret.Inspect || ret.alone() || !ok2xx(ret.reply.Status) || len(bytes.TrimSpace(ret.reply.Body)) == 0 {
		return false, nil
	}
	refs, err := namer.Names(ret.call.Route, ret.reply)
	if err != nil {
		return false, err
	}
	theirs, err := strange(ctx, ret, refs)
	if err != nil {
		return false, errors.Join(errOwners, err)
	}
	var gone []string
	for i := range refs {
		if theirs[object{refs[i].Kind, refs[i].ID}] {
			gone = append(gone, refs[i].Pointer)
		}
	}
	if len(gone) == 0 {
		return false, nil
	}
	ret.filtered += len(gone)
	ret.reasons = append(ret.reasons, memproxy.Reason{Code: memproxy.OwnerFiltered, Detail: "what is another tenant's was left out of the answer"})
	if slices.Contains(gone, "") { // it is the whole answer
		ret.refuse(StatusNotFound, memproxy.OwnerUnknown, "this names what is not there for this caller's tenant")
		return true, nil
	}
	body, err := namer.Without(ret.reply, gone)
	if err != nil {
		return false, err
	}
	ret.reply.Body = body
	return false, nil
}

// maxMet bounds the objects of a stream that are remembered.
const maxMet = 4096

// met says of objects whether they are another tenant's.
type met map[object]bool

type object struct {
	kind memproxy.TargetKind
	id   string
}

// strange asks the ledger which of the objects are another tenant's: of each
// once a stream, whose events name the same run and message over and over.
func strange(ctx context.Context, ret *answer, refs []memproxy.Ref) (met, error) {
	m := met{}
	if ret.single {
		if ret.met == nil || len(ret.met) > maxMet {
			ret.met = m
		}
		m = ret.met
	}
	known := ret.lookups()
	var ask []memproxy.MemoryKey
	for i := range refs {
		if _, is := m[object{refs[i].Kind, refs[i].ID}]; !is {
			ask = append(ask, known.key(refs[i].Kind, refs[i].ID))
		}
	}
	if err := known.need(ctx, ask...); err != nil {
		return nil, err
	}
	for _, k := range ask {
		row := known.owner(k.Kind, k.ID)
		m[object{k.Kind, k.ID}] = row != nil && row.Scope.Tenant != ret.Principal.Tenant
	}
	return m, nil
}

// adopt makes the objects that came to be with a write its caller's, unless
// they are somebody's already.
func (ret *effects) adopt(ctx context.Context) {
	if ret.reading == nil || len(ret.reading.Made) == 0 {
		return
	}
	rows := make([]memproxy.Ownership, len(ret.reading.Made))
	for i, id := range ret.reading.Made {
		rows[i] = ret.row(memproxy.TargetMemory, id)
	}
	if _, err := ret.g.opt.Ledger.Bind(ctx, rows...); err != nil {
		ret.g.opt.Log.ErrorContext(ctx, "ledger not updated", "decision", ret.Decision.ID, "error", err)
	}
}
