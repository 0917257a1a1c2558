package hunt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memproxy/memproxy"
	"github.com/memproxy/memproxy/internal/wait"
)

// Item is one text of a store.
type Item struct {
	ID    string // the backend's id of the memory
	Kind  string // "memory", "block", "passage"
	Field string // the field of the memory that has the text: "memory", "value", "metadata/note"
	Owner memproxy.Scope
	Text  string
	// Raw is the whole element as the backend returned it. It is set on the item of the
	// memory's own text and empty on those of its metadata.
	Raw string
	// Incomplete marks an element that the backend returned without its text or its id:
	// it is counted as skipped.
	Incomplete bool
}

// A Pager reads a store page by page. The empty cursor is the first page. next is the
// cursor of the following page, or "" for the last page. An empty page may have a next
// one. Reading a cursor again returns the same page unless the store changed. An error
// means that the page could not be read; there are no partial pages.
type Pager interface {
	Page(ctx context.Context, cursor string) (items []Item, next string, err error)
}

// WalkOptions set up a Walk.
type WalkOptions struct {
	Screen Screener
	// Report is called with every item that was screened, in order.
	Report func(Item, Verdict) error
	// Name identifies the store; a state file with another name is refused. It must
	// contain no credential.
	Name string
	// StateFile keeps the progress. If it is empty, a walk that is stopped begins again.
	StateFile string
	Rate      float64 // the maximum of pages per second
	// Skipped is called with every item that was not screened, because its text is longer
	// than maxItem or the backend did not return it.
	Skipped  func(Item)
	Progress memproxy.Progress // in texts
}

const maxItem = 1 << 20 // bytes of a text

// Errors that end a walk.
var (
	ErrOtherWalk  = errors.New("hunt: the state file belongs to another store")
	ErrCursorLoop = errors.New("hunt: the backend returned the cursor of the page that was just read")
)

// Walk screens everything in a store and returns the progress. With a state file it
// resumes where the last walk stopped; for a finished walk it returns the saved state.
// The progress is saved durably after the items of a page were reported, so a walk that
// is killed reports at most one page twice and skips none.
func Walk(ctx context.Context, pager Pager, o WalkOptions) (State, error) {
	state, err := LoadState(o.StateFile)
	if err != nil {
		return State{}, err
	}
	if state.Version != 0 && state.Name != o.Name {
		return State{}, ErrOtherWalk
	}
	if state.Version == 0 {
		state = State{Version: stateVersion, Name: o.Name, Started: time.Now().UTC()}
	}
	count := o.Progress.Counting()
	every := time.Duration(float64(time.Second) / o.Rate)
	for !state.Done {
		began := time.Now()
		items, next, err := pager.Page(ctx, state.Cursor)
		if err != nil {
			return state, fmt.Errorf("hunt: page %d: %w", state.Pages+1, err)
		}
		if next != "" && next == state.Cursor {
			return state, ErrCursorLoop
		}
		// The counts go into a copy: a page that is interrupted is read and counted
		// again.
		after := state
		for _, item := range items {
			if err := ctx.Err(); err != nil {
				return state, err
			}
			if item.Incomplete || len(item.Text) > maxItem {
				after.Skipped++
				o.Skipped(item)
				continue
			}
			v := o.Screen(item.Text)
			after = after.with(v)
			if err := o.Report(item, v); err != nil {
				return state, fmt.Errorf("hunt: reporting: %w", err)
			}
		}
		after.Pages++
		after.Cursor, after.Done, after.Updated = next, next == "", time.Now().UTC()
		if err := after.Save(o.StateFile); err != nil {
			return state, err
		}
		state = after
		count(len(items))
		if !state.Done {
			if err := wait.Sleep(ctx, every-time.Since(began)); err != nil {
				return state, err
			}
		}
	}
	return state, nil
}
